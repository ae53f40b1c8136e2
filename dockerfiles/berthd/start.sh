#!/bin/sh
# Starts berthd outside of its container's control groups. When the container ends, Docker kills all that is in them: also
# the small processes that hold the GPUs of runs and write their output, and the supervisors of clusters. They must go on
# without berthd.
set -eu

move() {
  mkdir -p "$1/berthd" && echo $$ >"$1/berthd/cgroup.procs"
}

moved=true
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
  move /sys/fs/cgroup || moved=false
else
  for hierarchy in /sys/fs/cgroup/*/; do
    # Of cpuset, a new group has no processors until it is told.
    if [ -e "$hierarchy/cpuset.cpus" ]; then
      mkdir -p "$hierarchy/berthd" && cat "$hierarchy/cpuset.cpus" >"$hierarchy/berthd/cpuset.cpus" &&
        cat "$hierarchy/cpuset.mems" >"$hierarchy/berthd/cpuset.mems"
    fi
    move "${hierarchy%/}" || moved=false
  done
fi
if ! $moved; then
  echo "berthd: cannot leave the control groups of this container (was it started with --cgroupns host and" \
    "/sys/fs/cgroup of the machine?): runs and clusters will not survive the end of this container" >&2
fi
exec berthd "$@"
