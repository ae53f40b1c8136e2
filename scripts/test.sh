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
  BERTH_REGISTRY=none exec "$JAVA_HOME/bin/java" @client/build/junit.args --include-tag docker \
    --reports-dir client/build/test-results-docker
}

# What failed, once more at the end: the output is long.
failed_tests() {
  find . -path './*/build/test-results*/*.xml' -exec awk '
    /<testcase / { test = $0; sub(/.* classname="/, "", test); sub(/".*/, "", test)
      name = $0; sub(/.*<testcase name="/, "", name); sub(/".*/, "", name) }
    /<(failure|error)[ >]/ { print "FAILED: " test "." name }' {} +
}

# Counts come from the reports that JUnit writes, so a module that never ran its tests adds nothing and must fail.
summary() {
  local failed_steps=$1
  find . -path './*/build/test-results*/*.xml' -exec cat {} + | awk -v steps="$failed_steps" '
    function count(name) { return match($0, " " name "=\"[0-9]+\"") ? substr($0, RSTART + length(name) + 3) + 0 : 0 }
    /<testsuite / {
      skipped += count("skipped")
      failed += count("failures") + count("errors")
      tests += count("tests")
    }
    END {
      passed = tests - failed - skipped
      if (failed == 0) failed = steps
      printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
    }'
}

failures=0
rm -rf ./*/build/test-results*
step "Linting scripts" shellcheck -x scripts/*.sh dockerfiles/*/*.sh examples/*.sh examples/*/*.sh .ci/run ||
  failures=$((failures + 1))
step "Linting Dockerfiles" scripts/lint-dockerfiles.sh || failures=$((failures + 1))
step "Checking the format of Java files" "$gradle" --no-daemon -q checkFormat || failures=$((failures + 1))
build_images || failures=$((failures + 1))
if step "Compiling with all lint warnings as errors" "$gradle" --no-daemon -q testClasses installDist; then
  step "Compiling the example project against the published library" compile_example || failures=$((failures + 1))
  "$gradle" --no-daemon -q :client:junitArguments || failures=$((failures + 1))
  test_modules test -x :client:test -x :client:junit || failures=$((failures + 1))
  container_log=$(mktemp)
  test_with_containers >"$container_log" 2>&1 &
  containers=$!
  trap 'kill "$containers" 2>/dev/null; wait "$containers"' EXIT
  test_modules -Pclient.without=docker :client:test || failures=$((failures + 1))
  wait "$containers" || failures=$((failures + 1))
  trap - EXIT
  cat "$container_log"
  rm "$container_log"
else
  failures=$((failures + 1))
fi
failed_tests
summary "$failures"
[ "$failures" -eq 0 ]
