#!/usr/bin/env bash
# Fuzzes what reads what others send: tars, requests, YAML, records on disk, datagrams, HTTP, the engine's answers. Fails
# if a target fails on an input, and names the file with that input.
#   --minutes N     how long in all, shared by the targets (default: 5)
#   --runs N        how many inputs for each target, however long that takes; with --minutes, at most so long for each
#   --target NAME   only this one, such as Bundles; may be given more than once
#   --jobs N        how many targets at once (default: 1)
#   --together      all targets in one process, so that Jazzer starts once: a look at each, for scripts/test.sh
#   --compiled      without Gradle: 'gradle :fuzz:fuzzArguments' was called before
#   --keep          instead of fuzzing, keep what was learned, without what reaches nothing new, in fuzz/corpus
#   --list          names the targets
# It begins with the inputs in fuzz/corpus. What it learns is in fuzz/build/fuzz, and the next run goes on from there.
# GRADLE=... runs another Gradle than the one on the PATH.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/prerequisites.sh

usage() { sed -n 's/^# \{0,1\}//; 2,13p' "$0"; }

# What is guided by coverage: our own code, and the libraries that read for us.
instrumented='berth.**:org.apache.commons.compress.archivers.tar.**:org.snakeyaml.**:com.google.gson.**'
instrumented+=':com.github.dockerjava.core.**:io.netty.handler.codec.http.**'
# Nothing that is read may take longer than this, or more memory than the heap in fuzz/build.gradle.
longest_seconds=25
# In kilobytes: a target that writes without an end must not fill the machine.
largest_file=131072

sources() { find fuzz/src/test/java -name '*FuzzTest.java' | sort; }
names() { sources | sed 's|.*/||; s|FuzzTest\.java$||'; }

minutes=
runs=
jobs=1
compiled=false
keep=false
targets=()
while [ $# -gt 0 ]; do
  case $1 in
    --minutes | --runs | --jobs)
      [[ ${2:-} =~ ^[1-9][0-9]*$ ]] || die "$1 needs a number, not '${2:-}'"
      printf -v "${1#--}" %s "$2"
      shift 2
      ;;
    --target)
      grep -qxF -e "${2:-}" <<<"$(names)" || die "there is no target '${2:-}': $(names | tr '\n' ' ')"
      targets+=("$2")
      shift 2
      ;;
    --together)
      targets=(AllTargets)
      # More would take most of a minute to load.
      instrumented='berth.**'
      shift
      ;;
    --compiled)
      compiled=true
      shift
      ;;
    --keep)
      keep=true
      shift
      ;;
    --list)
      names
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
done
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(names)

parts=(jdk)
$compiled || [ -n "${GRADLE:-}" ] || parts+=(gradle)
require "${parts[@]}"
$compiled || step "Compiling the targets" "${GRADLE:-gradle}" --no-daemon -q :fuzz:fuzzArguments

if [ -n "$runs" ]; then
  # 0: else Jazzer ends after five minutes.
  limits=("-runs=$runs" "-max_total_time=$((${minutes:-0} * 60))")
else
  # Without the seconds that it takes Jazzer to start.
  seconds=$((${minutes:-5} * 60 * jobs / ${#targets[@]} - 8))
  limits=("-max_total_time=$((seconds > 0 ? seconds : 1))")
fi

# Most targets write files, and many of them: in memory that is several times as fast, and needs no flush.
memory=/dev/shm
[ -w "$memory" ] && [ "$(df --output=avail "$memory" | tail -n 1)" -gt $((4 * largest_file)) ] || memory=${TMPDIR:-/tmp}
scratch=$(mktemp -d "$memory/berth-fuzz.XXXXXX")
declare -A running=()
trap 'kill "${!running[@]}" 2>/dev/null || true; wait; rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM

# Runs Jazzer on one target, in place of the shell. The arguments after its name are Jazzer's, the last ones folders with
# inputs.
jazzer() {
  local place=fuzz/build/fuzz/$1 files=$scratch/$1 class
  class=$(find fuzz/src/test/java -name "$1Fuzz*.java" | sed 's|^fuzz/src/test/java/||; s|\.java$||' | tr / .)
  rm -rf "$place/findings"
  mkdir -p "$place/corpus" "$place/findings" "$files"
  [ ! -e "fuzz/corpus/$1.tar.gz" ] || tar -xzf "fuzz/corpus/$1.tar.gz" -C "$place/corpus"
  shift
  ulimit -f $largest_file
  # Java names files in the characters of its locale.
  export LC_ALL=C.UTF-8
  exec "$JAVA_HOME/bin/java" "-Djava.io.tmpdir=$files" @fuzz/build/fuzz.args \
    com.code_intelligence.jazzer.Jazzer "--target_class=$class" "--instrumentation_includes=$instrumented" \
    "--custom_hook_includes=$instrumented" "-artifact_prefix=$place/findings/" -timeout=$longest_seconds \
    -report_slow_units=$longest_seconds -print_final_stats=1 "$@" >"$place/log" 2>&1
}

fuzz() { jazzer "$1" "${limits[@]}" "fuzz/build/fuzz/$1/corpus"; }

# Of inputs that reach the same code the smallest stays. As one file: thousands of tiny ones would be in everybody's way.
keep() {
  local place=fuzz/build/fuzz/$1
  rm -rf "$place/kept"
  mkdir -p "$place/kept" fuzz/corpus
  if ! (jazzer "$1" -merge=1 "$place/kept" "$place/corpus"); then
    tail -n 5 "$place/log" >&2
    return 1
  fi
  tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C "$place/kept" -c . | gzip -9n >"fuzz/corpus/$1.tar.gz"
}

number() { sed -n "s/^stat::$2: *//p" "fuzz/build/fuzz/$1/log" | tail -n 1; }

# Says what has become of a target.
report() {
  local name=$1 result=$2 place=fuzz/build/fuzz/$1 finding inputs
  rm -rf "${scratch:?}/$name"
  finding=$(find "$place/findings" -type f ! -name '*.java' ! -name 'slow-unit*' -print -quit)
  inputs=$(number "$name" number_of_executed_units)
  # One that tried nothing has shown nothing.
  if [ "$result" -eq 0 ] && [ -z "$finding" ] && [ "${inputs:-0}" -gt 0 ]; then
    printf '%-24s %10d inputs, %6d a second, no finding\n' "$name" "$inputs" "$(number "$name" average_exec_per_sec)"
    return 0
  fi
  failed=$((failed + 1))
  printf '%-24s FAILED after %d inputs\n' "$name" "${inputs:-0}"
  grep -m 1 -A 8 -E '^== Java Exception|^ERROR|^Exception in' "$place/log" | sed 's/^/  /' || tail -n 5 "$place/log"
  printf '  input: %s\n  log: %s\n' "${finding:-none}" "$place/log"
}

if $keep; then
  for target in "${targets[@]}"; do
    step "Keeping inputs of $target" keep "$target"
  done
  exit 0
fi

failed=0

# Waits until fewer than so many run.
await_fewer() {
  local process result
  while [ ${#running[@]} -ge "$1" ]; do
    result=0
    wait -n -p process "${!running[@]}" || result=$?
    report "${running[$process]}" $result
    unset "running[$process]"
  done
}

for target in "${targets[@]}"; do
  await_fewer "$jobs"
  fuzz "$target" &
  running[$!]=$target
done
await_fewer 1
[ $failed -eq 0 ] || die "$failed of ${#targets[@]} targets failed; add their inputs to fuzz/src/test/resources once mended"
