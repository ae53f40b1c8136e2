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

# As somebody would who uses the library: in a build of its own, from a repository.
compile_example() {
  "$gradle" --no-daemon -q --parallel publish &&
    "$gradle" --no-daemon -q -p examples/java-library clean classes
}

# Runs tests with Gradle. --continue: one failing module must not hide the results of the others. --parallel: most of their
# time they wait.
test_modules() {
  "$gradle" --no-daemon -q --continue --parallel "$@" 2>&1 | grep -v 'Malformed class file'
}

# The end-to-end tests with containers, in a process of their own beside the others of `client`: together they would take
# twice as long.
test_with_containers() {
  # In place of the shell, so that whoever ends it ends the tests.
  cd client
  BERTH_REGISTRY=none exec "$JAVA_HOME/bin/java" @build/junit.args --scan-classpath=build/classes/java/test \
    --include-classname='.*Test' --include-tag docker --reports-dir build/test-results-docker
}

# The tests of a module that failed, as CLASS.NAME.
failed_tests() {
  find "$1" -path '*/build/test-results*/*.xml' -exec awk '
    /<testcase / { test = $0; sub(/.* classname="/, "", test); sub(/".*/, "", test)
      name = $0; sub(/.*<testcase name="/, "", name); sub(/".*/, "", name) }
    /<(failure|error)[ >]/ { print test "." name }' {} +
}

# Real engines, real etcd and real browsers on a busy machine: the classes of a module that failed run once more, with
# nothing beside them. What fails then too has failed; what does not is told as unstable, for somebody to mend.
try_again() {
  local module=$1 failed=$2 class selected=()
  while read -r class; do
    selected+=(--select-class "$class")
  done < <(sed 's/\.[^.]*(.*//; s/\$.*//' <<<"$failed" | sort -u)
  (
    cd "$module"
    BERTH_REGISTRY=none "$JAVA_HOME/bin/java" @build/junit.args "${selected[@]}" --reports-dir build/test-results-again
  )
}

# Prints lines with a word before each.
tell() {
  local word=$1 line
  while read -r line; do
    printf '%s: %s\n' "$word" "$line"
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
build_images || steps_failed=$((steps_failed + 1))
if step "Compiling with all lint warnings as errors" "$gradle" --no-daemon -q testClasses installDist; then
  step "Compiling the example project against the published library" compile_example || steps_failed=$((steps_failed + 1))
  "$gradle" --no-daemon -q junitArguments || steps_failed=$((steps_failed + 1))
  lanes_failed=0
  test_modules test -x :client:test -x :client:junit || lanes_failed=$((lanes_failed + 1))
  container_log=$(mktemp)
  test_with_containers >"$container_log" 2>&1 &
  containers=$!
  trap 'kill "$containers" 2>/dev/null; wait "$containers"' EXIT
  test_modules -Pclient.without=docker :client:test || lanes_failed=$((lanes_failed + 1))
  wait "$containers" || lanes_failed=$((lanes_failed + 1))
  trap - EXIT
  cat "$container_log"
  rm "$container_log"
  # The kept inputs are among the tests; this looks for new ones.
  step "Fuzzing for a minute" scripts/fuzz.sh --together --minutes 1 || steps_failed=$((steps_failed + 1))
else
  steps_failed=$((steps_failed + 1))
fi

tests=$(count tests 'test-results*')
skipped=$(count skipped 'test-results*')
first_failures=
failed=0
for module in proto server registry client fuzz; do
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
if [ ! -e client/build/test-results-docker/TEST-junit-jupiter.xml ] ||
  { [ "${lanes_failed:-0}" -gt 0 ] && [ -z "$first_failures" ]; }; then
  say "some tests did not come to their end"
  steps_failed=$((steps_failed + 1))
fi
[ -z "$first_failures" ] || tell "FAILED AT FIRST" "${first_failures%$'\n'}"
# A step that failed counts as a test that did.
printf '%d passed, %d failed, %d skipped\n' $((tests - failed - skipped)) $((failed + steps_failed)) "$skipped"
[ $((failed + steps_failed)) -eq 0 ]
