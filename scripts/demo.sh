#!/usr/bin/env bash
# Shows Berth on this machine, without any GPU: installs what is missing, builds, starts a registry and two servers with
# simulated GPUs on loopback, shows their GPUs, reserves some, runs jobs on whichever server has room, trains with a cluster
# across both servers, lets a detached one survive the death of a task, and stops everything again. The jobs run in containers of an engine of the demo's own; where none can be started, as plain processes.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/prerequisites.sh

usage() {
  cat <<'TEXT'
Usage: scripts/demo.sh [--stay | --stop | --help]
  --stay   leave registry and servers running, and print how to use them
  --stop   stop what --stay left
TEXT
}

berth=$PWD/build/install/berth/bin/berth
state=${TMPDIR:-/tmp}/berth-demo-$(id -u)
# The demo keeps to itself: no registry on the local network is used. It has its own.
export BERTH_REGISTRY=none
unset BERTH_SERVER

# Prints words such that a shell reads them as they are.
quoted() {
  local word
  for word in "$@"; do
    if [[ $word =~ ^[A-Za-z0-9_./:,=@%+{}-]+$ && ! $word =~ \{.*[,.].*\} ]]; then
      printf ' %s' "$word"
    else
      printf " '%s'" "${word//\'/\'\\\'\'}"
    fi
  done
}

# Ends the clusters that the servers supervise, which go on without them otherwise.
cancel_clusters() {
  local address_file
  for address_file in "$state"/*.address; do
    [ -e "$address_file" ] || continue
    "$berth" clusters --json --server "$(cat "$address_file")" 2>/dev/null | grep -v CLUSTER_PHASE_ENDED |
      sed -n 's/.*"clusterId":"\([^"]*\)".*/\1/p' |
      xargs -r "$berth" cluster cancel --force --server "$(cat "$address_file")" >/dev/null 2>&1 || true
  done
}

stop_servers() {
  local pid_file pid address
  cancel_clusters
  for pid_file in "$state"/*.pid; do
    [ -e "$pid_file" ] || continue
    pid=$(cat "$pid_file")
    # A pid may belong to another process by now.
    if grep -qsE 'berth\.(server|registry)\.Main' "/proc/$pid/cmdline"; then
      # Timed reservations go on without their server, so they are released first.
      address=$(cat "${pid_file%.pid}.address" 2>/dev/null || true)
      [ -z "$address" ] || "$berth" reservations --server "$address" --json 2>/dev/null |
        sed 's/"reservationId":"\([^"]*\)"/\n\1\n/g' | grep '^r-' |
        xargs -r "$berth" release --server "$address" || true
      [ -z "$address" ] || "$berth" runs --server "$address" --json 2>/dev/null |
        sed 's/"runId":"\([^"]*\)"/\n\1\n/g' | grep '^run-' |
        xargs -r "$berth" cancel --force --server "$address" >/dev/null 2>&1 || true
      kill "$pid" 2>/dev/null || true
      while [ -d "/proc/$pid" ] && ! grep -qs '^State:.Z' "/proc/$pid/status"; do sleep 0.1; done
    fi
  done
  if [ -d "$state/engine" ]; then
    scripts/engine.sh stop "$state/engine"
  fi
  rm -rf "$state"
}

# Starts a Docker engine for the demo, and sets how the servers run jobs.
choose_runtime() {
  if [ "$(id -u)" -eq 0 ] && scripts/engine.sh start "$state/engine" >"$state/engine.log" 2>&1; then
    runtime=(--docker "$(scripts/engine.sh env "$state/engine" | sed 's/^DOCKER_HOST=//')")
    cat >"$state/services.yaml" <<'YAML'
services:
  shell:
    image: berth-test/busybox:1
    description: A shell and little else
    interpreter: [sh]
YAML
    runtime+=(--services "$state/services.yaml")
    job=(--service shell)
  else
    say "No Docker engine can be started here (see below); the jobs run as plain processes."
    [ ! -s "$state/engine.log" ] || tail -n 3 "$state/engine.log" >&2
    runtime=(--runtime process --allow-root)
    job=(--interpreter sh)
  fi
}

# Starts a server in the background, and returns when it listens.
start_server() {
  local name=$1 gpus=$2 ports=$3 label=$4
  # Lock folders of their own: the two play two machines, and this one may have real GPUs.
  mkdir -p "$state/$name/locks"
  start "$name" "${berth}d" --name "$name" --simulate-gpus "$gpus" --lock-dir "$state/$name/locks" \
    --state-dir "$state/$name" --port-range "$ports" --label "$label" "${runtime[@]}"
  echo "$address" >"$state/$name.address"
}

# Starts a daemon with the name $1 in the background, and sets $address to where it listens.
start() {
  local name=$1 log=$state/$1.log tries=0
  shift
  : >"$log"
  setsid "$@" --listen 127.0.0.1:0 >"$log" 2>&1 </dev/null &
  echo $! >"$state/$name.pid"
  until address=$(sed -n 's/.* listens on //p' "$log") && [ -n "$address" ]; do
    tries=$((tries + 1))
    if [ $tries -gt 300 ] || ! kill -0 "$(cat "$state/$name.pid")" 2>/dev/null; then
      cat "$log" >&2
      die "$name did not start"
    fi
    sleep 0.1
  done
}

# The registry notices a server a moment after it has started.
await_servers() {
  local tries=0
  until [ "$("$berth" servers 2>/dev/null | grep -c '^gpu0')" -eq 2 ]; do
    tries=$((tries + 1))
    [ $tries -le 50 ] || die "the servers did not register: see $state/*.log"
    sleep 0.1
  done
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

require jdk gradle docker busybox iproute2 iptables
step "Building Berth" gradle --no-daemon -q installDist

stop_servers
mkdir -p "$state"
trap stop_servers EXIT
trap 'exit 130' INT TERM
choose_runtime
PATH=$PWD/build/install/berth/bin:$PATH
start registry "$berth-registry" --discovery-port 0
export BERTH_REGISTRY=$address
page=$(sed -n 's/.* its page is //p' "$state/registry.log")
say "The registry's page: $page"
start_server gpu01 4 20000-20499 room=b12
start_server gpu02 2 20500-20999 room=b14
await_servers

# Shows a command, such that it can be pasted, and runs it.
show() {
  say
  say "\$$(quoted "$@")"
  "$@"
}

show berth servers
show berth gpus
show berth reserve --server gpu01 --gpus 2 --for 2h --purpose 'the demo'
# shellcheck disable=SC2016 # The command's own shell knows its GPUs.
show berth lock --lock-dir "$state/gpu01/locks" --simulate-gpus 4 --gpus 1 -- \
  sh -c 'echo "running on GPU $CUDA_VISIBLE_DEVICES"'
show berth reservations

cat >"$state/train.sh" <<'JOB'
echo "run $BERTH_RUN_ID on $BERTH_SERVER, GPUs $NV_GPU of the machine, seen as $CUDA_VISIBLE_DEVICES"
for step in 1 2 3; do
  echo "step $step of $1"
  sleep 0.4
done
JOB
show berth run --detach --gpus 2 "${job[@]}" "$state/train.sh" model-a
show berth run --gpus 1 "${job[@]}" "$state/train.sh" model-b
show berth runs
# Two parameter servers and two workers; the braces are filled by Berth.
show berth cluster run --name line-fit --ps 2 --workers 2 --gpus 1 "${job[@]}" --log-dir "$state/line-fit" \
  examples/clusters/line_fit.sh '{job_name}' '{task_index}' '{ps_hosts}'

cat >"$state/survive.sh" <<'JOB'
echo "start $((RESTART_COUNT + 1)) of worker $1"
sleep 1
if [ "$1$RESTART_COUNT" = 10 ]; then
  echo "worker 1 is killed"
  kill -9 $$
fi
for step in 1 2 3; do
  echo "step $step"
  sleep 0.5
done
JOB
# One of the servers supervises it, and starts again what fails.
show berth cluster run --detach --name survivor --workers 2 --gpus 1 --restart on-failure "${job[@]}" \
  "$state/survive.sh" '{task_index}'
show berth cluster attach survivor
show berth cluster status survivor

if $stay; then
  trap - EXIT
  cat >&2 <<TEXT

The registry and both servers are running, and $page shows them. Try:
  export PATH=$(quoted "$PWD/build/install/berth/bin" | cut -c 2-):\$PATH BERTH_REGISTRY=$BERTH_REGISTRY
  berth servers --watch
  berth gpus
  berth reserve --gpus 2 --for 10m
  berth reservations
  berth run --gpus 1$(quoted "${job[@]}" "$state/train.sh") model-c
  berth runs
  berth cluster run --ps 1 --workers 2 --gpus 1$(quoted "${job[@]}" "$PWD/examples/clusters/line_fit.sh") {job_name} {task_index} {ps_hosts}
  berth clusters --all
The lines '... described by' in $state/*.log name the files of the simulated GPUs: change a temperature, or add the
line 'status 15' to a GPU to lose it. Stop everything with:
  scripts/demo.sh --stop
TEXT
fi
