#!/usr/bin/env bash
# Shows Berth on this machine, without any GPU: installs what is missing, builds, starts two servers with simulated GPUs
# on loopback, shows their GPUs, and stops everything again.
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

state=${TMPDIR:-/tmp}/berth-demo-$(id -u)

stop_servers() {
  local pid_file pid
  for pid_file in "$state"/*.pid; do
    [ -e "$pid_file" ] || continue
    pid=$(cat "$pid_file")
    # A pid may belong to somebody else by now.
    if grep -qs berth.server.Main "/proc/$pid/cmdline"; then
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
  setsid build/install/berth/bin/berthd --listen 127.0.0.1:0 --name "$name" --simulate-gpus "$gpus" \
    >"$log" 2>&1 </dev/null &
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
  echo "$address"
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
berth=build/install/berth/bin/berth
servers=$(start_server gpu01 4),$(start_server gpu02 2)

say
say "\$ berth gpus --server $servers"
"$berth" gpus --server "$servers"

if $stay; then
  trap - EXIT
  cat >&2 <<TEXT

Both servers are running. Try:
  export PATH=$PWD/build/install/berth/bin:\$PATH BERTH_SERVER=$servers
  berth gpus --watch
The lines '... described by' in $state/*.log name the files of the simulated GPUs: change a temperature, or add the
line 'status 15' to a GPU to lose it. Stop the servers with:
  scripts/demo.sh --stop
TEXT
fi
