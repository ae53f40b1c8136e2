#!/usr/bin/env bash
# Checks everything: installs what the tests need and this machine lacks, then runs the formatting check, the linters and
# every test. The last line counts the tests of all modules. GRADLE=... runs another Gradle than the one on the PATH.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/prerequisites.sh

parts=(jdk gcc procps shellcheck python3-grpcio python3-fasteners pip docker etcd busybox iproute2 iptables
  systemd-analyze chromium)
[ -n "${GRADLE:-}" ] || parts+=(gradle)
require "${parts[@]}"
gradle=${GRADLE:-gradle}

# In an engine that is gone afterwards; the tests take the images from the cache. Says itself what it does, since the
# first time takes minutes.
build_images() {
  local result=0
  engine=$(mktemp -d)
  # It would go on without this script.
  trap 'scripts/engine.sh stop "$engine"' EXIT
  trap 'exit 130' INT TERM
  scripts/engine.sh start "$engine"
  (
    export "$(scripts/engine.sh env "$engine")"
    scripts/build-images.sh --cache-only && scripts/build-images.sh --check-gpu
  ) || result=1
  trap - EXIT INT TERM
  scripts/engine.sh stop "$engine"
  return $result
}

# Everything that the steps below run: one start of Gradle rather than five. The example is built as somebody would who uses
# the library: in a build of its own, from a repository.
compile() {
  "$gradle" --no-daemon -q testClasses installDist junitArguments :fuzz:fuzzArguments publish
}
compile_example() { "$gradle" --no-daemon -q -p examples/java-library clean classes; }

# Runs tests of a module in place of the shell, so that whoever ends it ends the tests; without Gradle, which would only
# wait for them. Arguments: the module, the folder below build for the reports, and further options of JUnit's launcher.
junit() {
  local module=$1 reports=$2
  shift 2
  cd "$module"
  # Java names files in the characters of its locale. No test may look for registries on the network that it runs in.
  export LC_ALL=C.UTF-8 BERTH_REGISTRY=none
  # What the end-to-end tests start lives for seconds: the second compiler would cost a fifth of its processor time.
  [ "$module" != e2e ] || export BERTH_JAVA_OPTS=-XX:TieredStopAtLevel=1
  exec "$JAVA_HOME/bin/java" @build/junit.args "$@" --reports-dir "build/$reports"
}

# Runs all tests of a module, or those that the options leave.
test_module() {
  local module=$1 reports=$2
  shift 2
  (junit "$module" "$reports" --scan-classpath=build/classes/java/test --include-classname='.*Test' "$@")
}

# Two lanes beside each other, because tests wait much of their time. A third one made all of it slower on two cores. They
# take about as long, and each that runs has a process of its own: what a test does to its process concerns no other module.
# The end-to-end tests with containers, and the steps that need an installation.
lane_of_containers() {
  local failed=0
  test_module e2e test-results-docker --include-tag docker || failed=1
  step "Compiling the example project against the published library" compile_example || touch "$lanes/example-failed"
  step "Running the commands of the documents" scripts/check-docs.sh || touch "$lanes/docs-failed"
  # The kept inputs are among the tests; this looks for new ones.
  step "Fuzzing for a minute" scripts/fuzz.sh --compiled --together --minutes 1 || touch "$lanes/fuzzing-failed"
  return $failed
}

# All other tests. The small modules are beside the large one.
small_modules=(proto rpc daemon host registry client cli fuzz)
lane_of_modules() {
  local failed=0 small
  (
    failed=0
    for module in "${small_modules[@]}"; do
      test_module "$module" test-results || failed=1
    done
    exit $failed
  ) >"$lanes/small" 2>&1 &
  small=$!
  test_module server test-results || failed=1
  wait $small || failed=1
  cat "$lanes/small"
  test_module e2e test-results --exclude-tag docker || failed=1
  return $failed
}

# Ends a process and all that it has started.
end() {
  local child
  for child in $(pgrep -P "$1"); do
    end "$child"
  done
  kill "$1" 2>/dev/null || true
}

# What runs in the background would go on without this script.
leave() {
  local job
  for job in $(jobs -p); do
    end "$job"
  done
  wait
  rm -r "$lanes"
}

# The tests of a module that failed, as CLASS#NAME.
failed_tests() {
  find "$1" -path '*/build/test-results*/*.xml' -exec awk '
    /<testcase / { test = $0; sub(/.* classname="/, "", test); sub(/".*/, "", test)
      name = $0; sub(/.*<testcase name="/, "", name); sub(/".*/, "", name) }
    /<(failure|error)[ >]/ { print test "#" name }' {} +
}

# How JUnit's launcher is told of tests that failed, a line for each: by method where it takes no arguments, also if it ran
# more than once, and else, as with a class that could not even begin, by class.
selectors() {
  sed -E 's/^([^#]*)#([A-Za-z0-9_]+)\(\)(\[[0-9]+\])*$/--select-method=\1#\2/; t; s/#.*//; s/^/--select-class=/' | sort -u
}

# Real engines, real etcd and real browsers on a busy machine: the tests of a module that failed run once more, with
# nothing beside them. What fails then too has failed; what does not is told as unstable, for somebody to mend.
try_again() {
  local selected
  mapfile -t selected < <(selectors <<<"$2")
  (junit "$1" test-results-again "${selected[@]}")
}

# Prints lines with a word before each.
tell() {
  local word=$1 line
  while read -r line; do
    printf '%s: %s\n' "$word" "${line/\#/.}"
  done <<<"$2"
}

# The sum of a number that JUnit's reports have. Counts come from these, so a module that never ran its tests adds nothing.
count() {
  local number=$1 reports=$2
  find . -path "./*/build/$reports/*.xml" -exec cat {} + | awk -v number="$number" '
    /<testsuite / && match($0, " " number "=\"[0-9]+\"") { sum += substr($0, RSTART + length(number) + 3) }
    END { print sum + 0 }'
}

steps_failed=0
rm -rf ./*/build/test-results*
step "Linting scripts" shellcheck -x scripts/*.sh dockerfiles/*/*.sh examples/*.sh examples/*/*.sh .ci/run ||
  steps_failed=$((steps_failed + 1))
step "Linting Dockerfiles" scripts/lint-dockerfiles.sh || steps_failed=$((steps_failed + 1))
step "Checking the format of Java files" "$gradle" --no-daemon -q checkFormat || steps_failed=$((steps_failed + 1))
lanes=$(mktemp -d)
trap leave EXIT
trap 'exit 130' INT TERM
if step "Compiling with all lint warnings as errors" compile; then
  # Some images have Berth in them, and take it from the same folder.
  (build_images) || steps_failed=$((steps_failed + 1))
  lanes_failed=0
  lane_of_containers >"$lanes/containers" 2>&1 &
  containers=$!
  lane_of_modules || lanes_failed=$((lanes_failed + 1))
  wait "$containers" || lanes_failed=$((lanes_failed + 1))
  cat "$lanes/containers"
  for step in example docs fuzzing; do
    [ ! -e "$lanes/$step-failed" ] || steps_failed=$((steps_failed + 1))
  done
else
  steps_failed=$((steps_failed + 1))
fi

tests=$(count tests 'test-results*')
skipped=$(count skipped 'test-results*')
first_failures=
failed=0
for module in "${small_modules[@]}" server e2e; do
  if [ ! -e "$module/build/test-results/TEST-junit-jupiter.xml" ]; then
    say "the tests of $module did not come to their end"
    steps_failed=$((steps_failed + 1))
  fi
  module_failures=$(failed_tests "$module")
  if [ -n "$module_failures" ]; then
    first_failures+=$module_failures$'\n'
    if ! try_again "$module" "$module_failures"; then
      again=$(failed_tests "$module/build/test-results-again")
      failed=$((failed + $(grep -c . <<<"${again:-$module_failures}")))
      tell FAILED "${again:-$module_failures}"
    fi
  fi
done
if [ ! -e e2e/build/test-results-docker/TEST-junit-jupiter.xml ]; then
  say "the tests with containers did not come to their end"
  steps_failed=$((steps_failed + 1))
fi
if [ "${lanes_failed:-0}" -gt 0 ] && [ -z "$first_failures" ]; then
  say "some tests did not come to their end"
  steps_failed=$((steps_failed + 1))
fi
[ -z "$first_failures" ] || tell "FAILED AT FIRST" "${first_failures%$'\n'}"
# A step that failed counts as a test that did.
printf '%d passed, %d failed, %d skipped\n' $((tests - failed - skipped)) $((failed + steps_failed)) "$skipped"
[ $((failed + steps_failed)) -eq 0 ]
