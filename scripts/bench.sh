#!/usr/bin/env bash
# Measures Berth against what was there before, on this machine, and prints both with their ratios. Nothing fails for
# being slow.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/prerequisites.sh

usage() {
  cat <<'TEXT'
Usage: scripts/bench.sh [--seconds N] [--rounds N] BENCHMARK
  reservations   reserving GPUs: berthd through gRPC, and the old algorithm with fasteners in its own processes
Options:
  --seconds N    time of each measurement of throughput (default: 10)
  --rounds N     measure everything so often and print the medians (default: 1)
TEXT
}

folder=$(mktemp -d)
server=
cleanup() {
  if [ -n "$server" ]; then
    kill "$server" 2>/dev/null || true
    wait "$server" || true
  fi
  rm -rf "$folder"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

machine() {
  printf '%s cores, Linux %s, Java %s, load average %s\n' "$(nproc)" "$(uname -r)" \
    "$("$JAVA_HOME/bin/java" -version 2>&1 | sed -n 's/.* version "\(.*\)".*/\1/p')" "$(cut -d ' ' -f 1 /proc/loadavg)"
}

# Starts a server with simulated GPUs and sets $address to where it listens.
start_server() {
  local log=$folder/berthd.log tries=0
  : >"$log"
  build/install/berth/bin/berthd --listen 127.0.0.1:0 --name bench --simulate-gpus "$1" --lock-dir "$folder" \
    --state-dir "$folder/state" 2>"$log" &
  server=$!
  until address=$(sed -n 's/.* listens on //p' "$log") && [ -n "$address" ]; do
    tries=$((tries + 1))
    if [ $tries -gt 300 ] || ! kill -0 "$server" 2>/dev/null; then
      cat "$log" >&2
      die "berthd did not start"
    fi
    sleep 0.1
  done
}

# Runs the benchmark's class in client/src/test with the given arguments.
run_class() {
  local class=$1
  shift
  gradle --no-daemon -q :client:bench -Pbench.main="$class" -Pbench.args="$*"
}

reservations() {
  require jdk gradle gcc python3-fasteners
  step "Building Berth" gradle --no-daemon -q installDist :client:testClasses
  start_server 4
  machine
  run_class berth.bench.ReservationBench "$address" "$folder" "$PWD/client/src/test/python/seed_reservations.py" \
    "$seconds" "$rounds"
}

seconds=10
rounds=1
benchmark=
while [ $# -gt 0 ]; do
  case $1 in
    --seconds | --rounds)
      [[ ${2:-} =~ ^[1-9][0-9]*$ ]] || die "$1 needs a number above 0"
      declare "${1#--}=$2"
      shift
      ;;
    --help | -h)
      usage
      exit 0
      ;;
    reservations) benchmark=$1 ;;
    *)
      usage >&2
      exit 2
      ;;
  esac
  shift
done
if [ -z "$benchmark" ]; then
  usage >&2
  exit 2
fi
"$benchmark"
