#!/bin/sh
# Makes the archives of parsed classes with which the commands of an installation start fast: runs each command once,
# through what it does most, and has the JVM keep what it loaded. `gradle installDist` calls it; call it again after
# the installation was moved or got another JVM.
#   class-archive.sh INSTALLATION
set -eu

home=${1:?the folder of the installation}
bin=$home/bin
work=$(mktemp -d)
pids=
trap 'for pid in $pids; do kill "$pid" 2>/dev/null || true; done; rm -rf "$work"' EXIT

# JAVA_TOOL_OPTIONS and the like would announce themselves in the output that is read below.
unset JAVA_TOOL_OPTIONS _JAVA_OPTIONS
# Nobody is to be asked but the servers below.
unset BERTH_SERVER
export BERTH_REGISTRY=none

rm -f "$home"/lib/*.jsa

# The start scripts put BERTH_JAVA_OPTS after their own options, so these win.
record() {
  BERTH_JAVA_OPTS="-Xshare:off -XX:DumpLoadedClassList=$work/$1.classes"
  export BERTH_JAVA_OPTS
}

# Adds to the classes of one recording those of another. Each begins with a header that may stand there only once. Later JVMs
# number the classes of a recording, each from 0; only classes of other loaders than the JVM's own refer to the numbers, and
# those are left out.
merge() {
  awk '/^#/ { if (NR == FNR) print; next } / source: / { next } { sub(/ id: [0-9]+$/, "") } !seen[$0]++' \
    "$work/$1.classes" "$work/$2.classes" >"$work/merged"
  mv "$work/merged" "$work/$1.classes"
}

# Runs a command whose output matters only if it fails.
run() {
  if ! "$@" >"$work/run.log" 2>&1; then
    echo "class-archive.sh: '$*' failed:" >&2
    cat "$work/run.log" >&2
    for log in "$work"/*.log; do
      [ "$log" = "$work/run.log" ] || sed "s|^|${log##*/}: |" "$log" >&2
    done
    exit 1
  fi
}

# Starts a daemon, records its classes as those of $1, and sets $address to where it listens.
start() {
  list=$1 name=$2
  shift 2
  log=$work/$list.log
  : >"$log"
  record "$list"
  "$bin/$name" "$@" --listen 127.0.0.1:0 2>"$log" &
  pid=$!
  pids="$pids $pid"
  tries=0
  until address=$(sed -n 's/.*listens on //p' "$log") && [ -n "$address" ]; do
    tries=$((tries + 1))
    if [ $tries -gt 300 ] || ! kill -0 "$pid" 2>/dev/null; then
      echo "class-archive.sh: $name did not start:" >&2
      cat "$log" >&2
      exit 1
    fi
    sleep 0.1
  done
}

start berth-registry berth-registry --discovery-port 0
registry=$address
# Two, because there may be no Docker engine in which to run something.
start berthd berthd --name docker --simulate-gpus 4 --lock-dir "$work" --state-dir "$work/state"
start berthd-process berthd --name process --simulate-gpus 4 --lock-dir "$work" --state-dir "$work/process" \
  --runtime process --allow-root --registry "$registry"
record berth
run "$bin/berth" gpus --server "$address"
record berth-run
run "$bin/berth" run --server "$address" --gpus 1 -- true
record berth-servers
tries=0
until "$bin/berth" servers --registry "$registry" >/dev/null 2>"$work/servers.log"; do
  tries=$((tries + 1))
  if [ $tries -gt 30 ]; then
    echo "class-archive.sh: berthd did not register:" >&2
    cat "$work/servers.log" >&2
    exit 1
  fi
  sleep 0.1
done
record berth-placed
run "$bin/berth" run --registry "$registry" --gpus 1 -- true

for pid in $pids; do
  kill "$pid"
  wait "$pid" || true
done
pids=
merge berth berth-run
merge berth berth-servers
merge berth berth-placed
merge berthd berthd-process
# A static archive rather than -XX:ArchiveClassesAtExit: on Java 17 only that one takes classes of old compilers, such as
# picocli's. On JDK 25 it is also faster than the ahead-of-time cache of JEP 514: a `berth gpus` takes 611 ms of processor
# time with it and 707 ms with the cache, `berth run` 643 and 668 ms. G1 writes it, because only G1 can store objects too; any collector reads them.
for command in berth berthd berth-registry; do
  BERTH_JAVA_OPTS="-XX:-UseSerialGC -XX:+UseG1GC -Xshare:dump -XX:SharedClassListFile=$work/$command.classes"
  if ! "$bin/$command" >"$work/dump.log" 2>&1; then
    rm -f "$home/lib/$command.jsa"
    echo "class-archive.sh: the JVM wrote no archive for $command; it will start more slowly:" >&2
    cat "$work/dump.log" >&2
  fi
done
