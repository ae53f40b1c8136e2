#!/usr/bin/env bash
# Takes the pictures in docs/ anew: the page of a registry with simulated servers, few and many, in Chromium.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/prerequisites.sh

case ${1:-} in
  '') ;;
  *)
    say "Usage: scripts/pictures.sh"
    [ "$1" = --help ] || [ "$1" = -h ] && exit 0
    exit 2
    ;;
esac

require jdk gradle chromium
export BERTH_REGISTRY=none
folder=$(mktemp -d)
registries=()
cleanup() {
  local registry
  for registry in "${registries[@]}"; do
    kill "$registry" 2>/dev/null || true
    wait "$registry" || true
  done
  rm -rf "$folder"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# Starts a registry called lab, and sets $address and $page to where it and its page are.
start_registry() {
  local log=$folder/$1.log tries=0
  : >"$log"
  build/install/berth/bin/berth-registry --name lab --listen 127.0.0.1:0 --discovery-port 0 2>"$log" &
  registries+=($!)
  until address=$(sed -n 's/.* listens on //p' "$log") && [ -n "$address" ]; do
    tries=$((tries + 1))
    [ $tries -le 300 ] || die "the registry did not start: $(cat "$log")"
    sleep 0.1
  done
  page=$(sed -n 's/.* its page is //p' "$log")
}

step "Building Berth" gradle --no-daemon -q installDist :e2e:testClasses
start_registry few
few="$address $page"
start_registry many
mkdir -p docs
gradle --no-daemon -q :e2e:bench -Pbench.main=berth.e2e.page.PagePictures \
  -Pbench.args="$few $address $page $PWD/docs $folder"
ls -l docs/page-*.png
