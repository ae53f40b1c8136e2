#!/usr/bin/env bash
# Runs clusters and single runs on four simulated servers, and kills, stops, cuts off and cancels what it can at random;
# fails if a GPU was ever used by two, output got lost, a cluster ended without a true reason, or anything is left behind.
# Prints a line a minute, and counts at the end. Only as root.
#   --minutes N   how long (default: 1); some minutes more until everything has ended
#   --seed N      the random numbers of an earlier soak
# GRADLE=... runs another Gradle than the one on the PATH.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/prerequisites.sh

usage() { sed -n 's/^# \{0,1\}//; 2,7p' "$0"; }

arguments=(1)
while [ $# -gt 0 ]; do
  case $1 in
    --minutes)
      [[ ${2:-} =~ ^[1-9][0-9]*$ ]] || die "--minutes needs a number, not '${2:-}'"
      arguments[0]=$2
      shift 2
      ;;
    --seed)
      [[ ${2:-} =~ ^-?[0-9]+$ ]] || die "--seed needs a number, not '${2:-}'"
      arguments[1]=$2
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
[ "$(id -u)" -eq 0 ] || die "only root can give the servers networks of their own"

parts=(jdk gcc procps iproute2 python3-fasteners)
[ -n "${GRADLE:-}" ] || parts+=(gradle)
require "${parts[@]}"

step "Building Berth" "${GRADLE:-gradle}" --no-daemon -q :e2e:soakArguments
exec "$JAVA_HOME/bin/java" @e2e/build/soak.args berth.e2e.soak.Soak "${arguments[@]}"
