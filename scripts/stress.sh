#!/usr/bin/env bash
# Lets everyone who can take GPUs fight for them, while processes are killed at random, and counts who got how many; fails
# if a GPU was ever held by two, somebody starved, or anything is left behind.
#   --minutes N   how long (default: 1)
#   --seed N      the random numbers of an earlier run
# GRADLE=... runs another Gradle than the one on the PATH.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/prerequisites.sh

usage() { sed -n 's/^# \{0,1\}//; 2,6p' "$0"; }

minutes=1
options=()
while [ $# -gt 0 ]; do
  case $1 in
    --minutes)
      [[ ${2:-} =~ ^[1-9][0-9]*$ ]] || die "--minutes needs a number, not '${2:-}'"
      minutes=$2
      shift 2
      ;;
    --seed)
      [[ ${2:-} =~ ^-?[0-9]+$ ]] || die "--seed needs a number, not '${2:-}'"
      options=("-Pstress.seed=$2")
      shift 2
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
done

parts=(jdk gcc procps python3-fasteners)
[ -n "${GRADLE:-}" ] || parts+=(gradle)
require "${parts[@]}"
gradle=${GRADLE:-gradle}

step "Building Berth" "$gradle" --no-daemon -q :e2e:testClasses installDist
"$gradle" --no-daemon -q :e2e:junit -Ptest.only=berth.e2e.reservations.LockStressTest "-Pstress.seconds=$((minutes * 60))" \
  ${options[@]+"${options[@]}"} 2>&1 | { grep -v 'Malformed class file' || true; }
