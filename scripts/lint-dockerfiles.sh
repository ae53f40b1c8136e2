#!/usr/bin/env bash
# Lints every Dockerfile: its instructions with dockerfile-utils and dockerfilelint, its commands with shellcheck; and
# checks that every base that it starts from by default has a version.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/prerequisites.sh

require npm shellcheck
tools=${BERTH_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/berth}/lint
if [ ! -e "$tools/complete" ]; then
  mkdir -p "$tools"
  npm install --silent --no-fund --no-audit --prefix "$tools" dockerfilelint@1.8.0 dockerfile-utils@0.16.3 >&2
  touch "$tools/complete"
fi

# The commands of RUN instructions, one to a file, with the variables of the Dockerfile declared.
commands() {
  awk -v folder="$2" '
    /^(ARG|ENV) / { split($2, parts, "="); declared = declared parts[1] "=\n" }
    /^RUN / { inside = 1; sub(/^RUN /, ""); file = folder "/line-" NR ".sh"; printf "export PATH\n%s", declared >file }
    inside && /^#/ { next }
    inside { print >file; if (!/\\$/) { inside = 0; close(file) } }' "$1"
}

failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for file in dockerfiles/*/Dockerfile; do
  "$tools/node_modules/.bin/dockerfile-utils" lint "$file" || failed=1
  # missing_tag is off for bases that are arguments; their defaults are checked below.
  "$tools/node_modules/.bin/dockerfilelint" -c dockerfiles "$file" >"$work/report" || {
    cat "$work/report"
    failed=1
  }
  if grep -En '^ARG (BUILD_)?BASE=' "$file" | grep -Ev ':[^:]+:[^:]+$' || grep -n '^FROM [^$]*:latest' "$file"; then
    say "$file: a base has no version"
    failed=1
  fi
  rm -rf "$work/run"
  mkdir "$work/run"
  commands "$file" "$work/run"
  shellcheck -s sh -e SC2016,SC2034 "$work"/run/*.sh || {
    say "$file: see above"
    failed=1
  }
done
exit $failed
