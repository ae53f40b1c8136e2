#!/usr/bin/env bash
# Measures Berth against what was there before, on this machine, and prints both with their ratios. Nothing fails for
# being slow.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/prerequisites.sh

usage() {
  cat <<'TEXT'
Usage: scripts/bench.sh [--seconds N] [--rounds N] [--servers N] BENCHMARK
  reservations   reserving GPUs: berthd through gRPC, and the old algorithm with fasteners in its own processes
  runs           running programs: RunCode, and docker run --rm of the same image on an engine of its own; and what it
                 costs that their records are flushed to disk; only as root
  year           a berthd with 10,000 runs that are over and 1,000 that wait: start, memory, 'berth runs', idle CPU
  registry       10,000 simulated servers report to one registry, and 1,000 to one on etcd: what it costs, how fast it
                 answers meanwhile, and how fast RPyC's registry does
  cluster        from the request of a cluster to the start of all of its tasks on 2, 8, 32 and 64 simulated servers, and
                 the same servers, with the same delays, one after the other
  page           the registry's page with 500 simulated servers of 8 GPUs, in up to 100 viewers and in Chromium
Options:
  --seconds N    time of each measurement of throughput, for reservations, registry and page (default: 10)
  --rounds N     measure everything so often and print the medians (default: 1)
  --servers N    at most so many servers for cluster (default: 64)
TEXT
}

# Nobody is to look for a registry on the local network.
export BERTH_REGISTRY=none
# Not in /tmp, which may be in memory: there it costs nothing to bring something to disk.
folder=$(mktemp -d -p /var/tmp)
servers=()
engine=
cleanup() {
  local server
  for server in "${servers[@]}"; do
    kill "$server" 2>/dev/null || true
    wait "$server" || true
  done
  # With the containers that an interrupted benchmark has left.
  if [ -n "$engine" ]; then
    scripts/engine.sh stop "$engine" || true
  fi
  rm -rf "$folder"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

machine() {
  printf '%s cores, Linux %s, Java %s, %s, load average %s\n' "$(nproc)" "$(uname -r)" \
    "$("$JAVA_HOME/bin/java" -version 2>&1 | sed -n 's/.* version "\(.*\)".*/\1/p')" "$(stat -f -c %T "$folder")" \
    "$(cut -d ' ' -f 1 /proc/loadavg)"
}

# Starts a server with simulated GPUs, and sets $address to where it listens and $server to its process. Its locks are in
# $folder/NAME. Further arguments are options of berthd.
start_server() {
  local name=$1 gpus=$2 log=$folder/$1.log
  shift 2
  : >"$log"
  mkdir -p "$folder/$name"
  build/install/berth/bin/berthd --listen 127.0.0.1:0 --name "$name" --simulate-gpus "$gpus" \
    --lock-dir "$folder/$name" --state-dir "$folder/$name/state" "$@" 2>"$log" &
  server=$!
  servers+=("$server")
  await_address "$log"
}

# Sets $address to where $server listens, by its log.
await_address() {
  local log=$1 tries=0
  until address=$(sed -n 's/.* listens on //p' "$log") && [ -n "$address" ]; do
    tries=$((tries + 1))
    if [ $tries -gt 300 ] || ! kill -0 "$server" 2>/dev/null; then
      cat "$log" >&2
      die "it did not start"
    fi
    sleep 0.1
  done
}

# Runs the benchmark's class in e2e/src/test with the given arguments.
run_class() {
  local class=$1
  shift
  gradle --no-daemon -q :e2e:bench -Pbench.main="$class" -Pbench.args="$*"
}

reservations() {
  require jdk gradle gcc python3-fasteners
  step "Building Berth" gradle --no-daemon -q installDist :e2e:testClasses
  start_server bench 4
  machine
  run_class berth.e2e.bench.ReservationBench "$address" "$folder/bench" "$PWD/e2e/src/test/python/seed_reservations.py" \
    "$seconds" "$rounds"
}

# An image with the test image's busybox and a program that writes as fast as it can.
make_image() {
  mkdir "$folder/image"
  gcc -O2 -Wall -Wextra -Werror -static -o "$folder/image/write_output" e2e/src/test/c/write_output.c
  printf 'FROM berth-test/busybox:1\nCOPY write_output /bin/\n' >"$folder/image/Dockerfile"
  tar -C "$folder/image" -c . | DOCKER_BUILDKIT=0 docker build -t "$1" -
}

runs() {
  local image=berth-bench/busybox:1 docker docker_pid
  require jdk gradle gcc docker busybox iproute2 iptables procps
  step "Building Berth" gradle --no-daemon -q installDist :e2e:testClasses
  engine=$folder/engine
  step "Starting an engine" scripts/engine.sh start "$engine"
  DOCKER_HOST=$(scripts/engine.sh env "$engine")
  export DOCKER_HOST=${DOCKER_HOST#*=}
  step "Making an image" make_image "$image"
  start_server docker 4 --runtime docker --docker "$DOCKER_HOST"
  docker=$address docker_pid=$server
  start_server process 4 --runtime process --allow-root
  machine
  docker version --format 'Docker {{.Server.Version}}, client {{.Client.Version}}'
  run_class berth.e2e.bench.RunBench "$image" "$rounds" "$docker" "$docker_pid" "$address" "$server"
  BERTH_JAVA_OPTS=-Dberth.unflushed=true start_server unflushed 4 --runtime docker --docker "$DOCKER_HOST"
  run_class berth.e2e.bench.FlushBench "$image" "$rounds" "$docker" "$address"
}

# Holds the lock of GPU 0 in folder $1 as a process that is not Berth's, until it is killed.
hold_gpu() {
  python3 -c '
import fcntl, sys, time
lock = open(sys.argv[1] + "/tmp_lock_gpu0", "a")
fcntl.lockf(lock, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(100000)' "$1" >"$folder/held" &
  servers+=($!)
  until grep -qs held "$folder/held"; do sleep 0.1; done
}

# Time of all threads of process $1 so far, in hundredths of a second.
cpu_ticks() {
  sed 's/.*) //' "/proc/$1/stat" | cut -d ' ' -f 12,13 | tr ' ' +
}

# What was measured, and what it should be below.
measured() {
  printf '%-40s %8s %s (target: below %s)\n' "$1" "$2" "$3" "$4"
}

# A size in the status of $server.
megabytes() {
  echo $(($(sed -n "s/^$1:[[:space:]]*\([0-9]*\).*/\1/p" "/proc/$server/status") / 1024))
}

year() {
  local started ended ticks
  require jdk gradle python3-fasteners
  step "Building Berth" gradle --no-daemon -q installDist :e2e:testClasses
  mkdir "$folder/year"
  : >"$folder/year/tmp_lock_gpu0"
  hold_gpu "$folder/year"
  start_server year 1 --runtime process --allow-root
  build/install/berth/bin/berth run --server "$address" -- echo hello
  build/install/berth/bin/berth run --server "$address" --detach --gpus 1 -- true
  kill "$server"
  wait "$server" || true
  step "Making a year of runs" run_class berth.e2e.bench.YearBench "$folder/year/state/runs" 10000 1000
  machine
  : >"$folder/year.log"
  started=$(date +%s%N)
  build/install/berth/bin/berthd --listen 127.0.0.1:0 --name year --simulate-gpus 1 --lock-dir "$folder/year" \
    --state-dir "$folder/year/state" --keep-runs 365d --runtime process --allow-root 2>"$folder/year.log" &
  server=$!
  servers+=("$server")
  until grep -q ' listens on ' "$folder/year.log"; do sleep 0.02; done
  ended=$(date +%s%N)
  await_address "$folder/year.log"
  measured start $(((ended - started) / 1000000)) ms '5000 ms'
  build/install/berth/bin/berth runs --server "$address" >"$folder/runs"
  started=$(date +%s%N)
  build/install/berth/bin/berth runs --server "$address" >"$folder/runs"
  ended=$(date +%s%N)
  measured "berth runs, $(grep -c '^run-' "$folder/runs") lines" $(((ended - started) / 1000000)) ms '1000 ms'
  # What the start leaves to do.
  sleep 40
  ticks=$(($(cpu_ticks "$server")))
  sleep "$((seconds * 3))"
  ticks=$(($(cpu_ticks "$server") - ticks))
  measured 'idle, share of a core' "$(awk "BEGIN { printf \"%.2f\", $ticks / ($seconds * 3) }")" % '1 %'
  measured 'resident memory' "$(megabytes VmRSS)" MB '250 MB'
  measured 'resident memory, most so far' "$(megabytes VmHWM)" MB '250 MB'
}

# Starts a registry, and sets $address and $server as start_server does. Arguments are options of berth-registry.
start_registry() {
  local log=$folder/registry.log
  : >"$log"
  build/install/berth/bin/berth-registry --listen 127.0.0.1:0 --discovery-port 0 --max-connections-per-client 40000 "$@" 2>"$log" &
  server=$!
  servers+=("$server")
  await_address "$log"
}

start_etcd() {
  local url=http://127.0.0.1:$1 peer=http://127.0.0.1:$(($1 + 1)) tries=0
  etcd --name bench --data-dir "$folder/etcd" --listen-client-urls "$url" --advertise-client-urls "$url" \
    --listen-peer-urls "$peer" --initial-advertise-peer-urls "$peer" --initial-cluster "bench=$peer" \
    --log-level error --logger zap >"$folder/etcd.log" 2>&1 &
  servers+=($!)
  until (: >"/dev/tcp/127.0.0.1/$1") 2>/dev/null; do
    tries=$((tries + 1))
    [ $tries -le 100 ] || die "etcd did not start: $(tail -n 1 "$folder/etcd.log")"
    sleep 0.1
  done
}

registry() {
  local port=$((20000 + RANDOM % 10000))
  require jdk gradle etcd python3-rpyc
  step "Building Berth" gradle --no-daemon -q installDist :e2e:testClasses
  machine
  start_registry
  run_class berth.e2e.bench.RegistryBench "$address" "$server" 10000 "$seconds" \
    "$PWD/e2e/src/test/python/seed_registry.py"
  kill "$server"
  printf '\nOn etcd:\n'
  start_etcd "$port"
  start_registry --store etcd --etcd "http://127.0.0.1:$port"
  run_class berth.e2e.bench.RegistryBench "$address" "$server" 1000 "$seconds" -
}

cluster() {
  require jdk gradle
  step "Building Berth" gradle --no-daemon -q installDist :e2e:testClasses
  machine
  start_registry
  run_class berth.e2e.bench.ClusterBench "$address" $((rounds * 9)) "$most_servers"
}

page() {
  local page
  require jdk gradle chromium
  step "Building Berth" gradle --no-daemon -q installDist :e2e:testClasses
  machine
  start_registry
  page=$(sed -n 's/.* its page is //p' "$folder/registry.log")
  run_class berth.e2e.bench.PageBench "$address" "$page" "$server" 500 "$seconds" "$folder"
}

seconds=10
rounds=1
most_servers=64
benchmark=
while [ $# -gt 0 ]; do
  case $1 in
    --seconds | --rounds | --servers)
      [[ ${2:-} =~ ^[1-9][0-9]*$ ]] || die "$1 needs a number above 0"
      case $1 in
        --seconds) seconds=$2 ;;
        --rounds) rounds=$2 ;;
        --servers) most_servers=$2 ;;
      esac
      shift
      ;;
    --help | -h)
      usage
      exit 0
      ;;
    reservations | runs | year | registry | cluster | page) benchmark=$1 ;;
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
