#!/usr/bin/env bash
# Shows Berth on this machine, without any GPU: installs what is missing, builds, starts two servers with simulated GPUs
# on loopback, shows their GPUs, reserves some, runs a command on one, and stops everything again.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/prerequisites.sh

usage() {
  cat <<'TEXT'
Usage: scripts/demo.sh [--stay | --stop | --help]
  --stay   leave the servers running, and say how to use them
  --stop   stop the servers that --stay left
TEXT
}

berth=$PWD/build/install/berth/bin/berth
state=${TMPDIR:-/tmp}/berth-demo-$(id -u)

stop_servers() {
  local pid_file pid address
  for pid_file in "$state"/*.pid; do
    [ -e "$pid_file" ] || continue
    pid=$(cat "$pid_file")
    # A pid may belong to somebody else by now.
    if grep -qs berth.server.Main "/proc/$pid/cmdline"; then
      # Timed reservations go on without their server, so they are released first.
      address=$(cat "${pid_file%.pid}.address" 2>/dev/null || true)
      [ -z "$address" ] || "$berth" reservations --server "$address" --json 2>/dev/null |
        sed 's/"reservationId":"\([^"]*\)"/\n\1\n/g' | grep '^r-' |
        xargs -r "$berth" release --server "$address" || true
      kill "$pid" 2>/dev/null || true
      while [ -d "/proc/$pid" ] && ! grep -qs '^State:.Z' "/proc/$pid/status"; do sleep 0.1; done
    fi
  done
  rm -rf "$state"
}

# Starts a server in the background and prints where it listens.
start_server() {
  local name=$1 gpus=$2 log=$state/$1.log address='' tries=0
  : >"$log"
  # Lock folders of their own: the two play two machines, and this one may have real GPUs.
  mkdir -p "$state/$name/locks"
  setsid "${berth}d" --listen 127.0.0.1:0 --name "$name" --simulate-gpus "$gpus" \
    --lock-dir "$state/$name/locks" --state-dir "$state/$name" >"$log" 2>&1 </dev/null &
  echo $! >"$state/$name.pid"
  while [ -z "$address" ]; do
    tries=$((tries + 1))
    if [ $tries -gt 300 ] || ! kill -0 "$(cat "$state/$name.pid")" 2>/dev/null; then
      cat "$log" >&2
      die "$name did not start"
    fi
    sleep 0.1
    address=$(sed -n 's/.* listens on //p' "$log")
  done
  echo "$address" | tee "$state/$name.address"
}

stay=false
case ${1:-} in
  '') ;;
  --stay) stay=true ;;
  --stop)
    stop_servers
    exit 0
    ;;
  --help | -h)
    usage
    exit 0
    ;;
  *)
    usage >&2
    exit 2
    ;;
esac

require jdk gradle docker
step "Building Berth" gradle --no-daemon -q installDist

stop_servers
mkdir -p "$state"
trap stop_servers EXIT
trap 'exit 130' INT TERM
PATH=$PWD/build/install/berth/bin:$PATH
first=$(start_server gpu01 4)
second=$(start_server gpu02 2)

# Shows a command and runs it.
show() {
  say
  say "\$ $*"
  "$@"
}

show berth gpus --server "$first,$second"
show berth reserve --server "$first" --gpus 2 --for 2h --purpose 'the demo'
# shellcheck disable=SC2016 # The command's own shell knows its GPUs.
show berth lock --lock-dir "$state/gpu01/locks" --simulate-gpus 4 --gpus 1 -- \
  sh -c 'echo "running on GPU $CUDA_VISIBLE_DEVICES"'
show berth reservations --server "$first"

if $stay; then
  trap - EXIT
  cat >&2 <<TEXT

Both servers are running. Try:
  export PATH=$PWD/build/install/berth/bin:\$PATH BERTH_SERVER=$first
  berth gpus --watch
  berth gpus --server $first,$second
  berth reserve --gpus 2 --for 10m
  berth reservations
The lines '... described by' in $state/*.log name the files of the simulated GPUs: change a temperature, or add the
line 'status 15' to a GPU to lose it. Stop the servers with:
  scripts/demo.sh --stop
TEXT
fi
