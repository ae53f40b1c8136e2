#!/usr/bin/env bash
# Checks README.md, ARCHITECTURE.md, CONTRIBUTING.md and docs/*.md against the built commands:
#   - blocks after a line '<!-- runnable -->' run, page by page and in order, on a registry and two servers with
#     simulated GPUs; every block must end with exit code 0, or with N after '<!-- runnable exit=N -->'
#   - README.md has at most 200 lines
#   - relative links lead to files that exist
#   - options named with a command of Berth are in that command's --help
# In a block ```console only the lines that begin with '$ ' run, and '> ' continues one; in a block ```sh all lines do.
# Each page runs in a scratch folder of its own, with the folder examples in it. Nothing is left behind.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/prerequisites.sh

usage() {
  cat <<'TEXT'
Usage: scripts/check-docs.sh [--show | --help] [PAGE...]
  --show   print every command that runs and its output
  PAGE     check only these pages, such as docs/clusters.md (default: all)
Needs a build: run 'gradle installDist' first.
TEXT
}

show=false
pages=()
for word in "$@"; do
  case $word in
    --show) show=true ;;
    --help | -h)
      usage
      exit 0
      ;;
    -*)
      usage >&2
      exit 2
      ;;
    *) pages+=("$word") ;;
  esac
done
if [ ${#pages[@]} -eq 0 ]; then
  pages=(README.md ARCHITECTURE.md CONTRIBUTING.md CHANGELOG.md docs/*.md)
fi

root=$PWD
bin=$root/build/install/berth/bin
[ -x "$bin/berth" ] || die "there is no $bin/berth: run 'gradle installDist' first"
failures=0

# Reports a failed check: file:line and what is wrong.
fail() {
  say "$1: $2"
  failures=$((failures + 1))
}

scratch=$(mktemp -d "${TMPDIR:-/tmp}/berth-docs.XXXXXX")
pids=()

stop_all() {
  local pid address
  # Detached clusters and runs and timed reservations go on without their server, so they end first.
  for address in "$scratch"/*.address; do
    [ -e "$address" ] || continue
    address=$(cat "$address")
    ids clusters clusterId c- "$address" | xargs -r "$bin/berth" cluster cancel --force --server "$address"
    ids runs runId run- "$address" | xargs -r "$bin/berth" cancel --force --server "$address"
    ids reservations reservationId r- "$address" | xargs -r "$bin/berth" release --server "$address"
  done >/dev/null 2>&1 || true
  for pid in "${pids[@]}"; do
    kill "$pid" 2>/dev/null || true
  done
  for pid in "${pids[@]}"; do
    wait "$pid" 2>/dev/null || true
  done
  if [ -d "$scratch/engine" ]; then
    scripts/engine.sh stop "$scratch/engine" || true
  fi
  rm -rf "$scratch"
}

# Prints the ids that begin with $3 of what 'berth $1' lists at the server $4.
ids() {
  "$bin/berth" "$1" --json --server "$4" | grep -vE 'PHASE_(ENDED|CLEANED)' | grep -oE "\"$2\":\"$3[0-9a-f]+\"" |
    cut -d '"' -f 4 | sort -u
}

# Starts a daemon with the name $1 in the background, and sets $address to where it listens.
start() {
  local name=$1 log=$scratch/$1.log tries=0
  shift
  "$@" --listen 127.0.0.1:0 >"$log" 2>&1 </dev/null &
  pids+=($!)
  until address=$(sed -n 's/.* listens on //p' "$log") && [ -n "$address" ]; do
    tries=$((tries + 1))
    if [ $tries -gt 300 ] || ! kill -0 "${pids[-1]}" 2>/dev/null; then
      cat "$log" >&2
      die "$name did not start"
    fi
    sleep 0.1
  done
}

start_server() {
  mkdir -p "$scratch/$1/locks"
  start "$1" "$bin/berthd" --name "$1" --simulate-gpus "$2" --lock-dir "$scratch/$1/locks" \
    --state-dir "$scratch/$1" --port-range "$3" --label "$4" --http none "${runtime[@]}"
  echo "$address" >"$scratch/$1.address"
}

# Starts what scripts/demo.sh --stay leaves running, and sets the environment in which 'berth' finds it.
start_demo() {
  local tries=0
  if [ "$(id -u)" -eq 0 ] && scripts/engine.sh start "$scratch/engine" >"$scratch/engine.log" 2>&1; then
    printf '%s\n' 'services:' '  shell:' '    image: berth-test/busybox:1' \
      '    description: A shell and little else' '    interpreter: [sh]' >"$scratch/services.yaml"
    runtime=(--docker "$(scripts/engine.sh env "$scratch/engine" | sed 's/^DOCKER_HOST=//')"
      --services "$scratch/services.yaml")
  else
    cat "$scratch/engine.log" >&2 || true
    die "no container engine can be started here: run this as root"
  fi
  export BERTH_REGISTRY=none PATH=$bin:$PATH
  unset BERTH_SERVER
  start registry "$bin/berth-registry" --discovery-port 0 --http 127.0.0.1:0
  BERTH_REGISTRY=$address
  BERTH_PAGE=$(sed -n 's/.* its page is //p' "$scratch/registry.log")
  export BERTH_PAGE
  start_server gpu01 4 20000-20499 room=b12
  start_server gpu02 2 20500-20999 room=b14
  until [ "$(berth servers 2>/dev/null | grep -c '^gpu0')" -eq 2 ]; do
    tries=$((tries + 1))
    [ $tries -le 50 ] || die "the servers did not register"
    sleep 0.1
  done
}

# Writes the marked blocks of the page $1 as one script. Prints nothing if there are none.
script_of() {
  awk -v page="$1" '
    function quoted(text) { gsub(/\047/, "\047\\\047\047", text); return "\047" text "\047" }
    function flush(   where) {
      if (command == "") return
      where = quoted(page ":" line)
      print "where=" where
      print "if $show; then printf \"\\n%s\\n\" " quoted("$ " command) " >&2; fi"
      if (expected == 0) print command
      else print "code=0\n" command " || code=$?\n[ $code -eq " expected " ] || { echo \"exit code $code, not " expected "\" >&2; false; }"
      command = ""
    }
    /^<!-- runnable.* -->$/ {
      marked = 1; expected = 0
      if (match($0, /exit=[0-9]+/)) expected = substr($0, RSTART + 5, RLENGTH - 5)
      next
    }
    /^```/ && inside { flush(); inside = 0; marked = 0; next }
    /^```/ && marked { inside = 1; console = /console/; next }
    /^```/ { skipping = !skipping; next }
    inside && console && /^\$ / { flush(); command = substr($0, 3); line = NR; next }
    inside && console && /^> / { command = command "\n" substr($0, 3); next }
    inside && console { flush(); next }
    inside { if (command == "") { command = $0; line = NR } else command = command "\n" $0 }
  ' "$1"
}

run_page() {
  local page=$1 folder log code=0
  folder=$scratch/page
  log=$scratch/page.log
  script_of "$page" >"$scratch/page.sh"
  [ -s "$scratch/page.sh" ] || return 0
  rm -rf "$folder"
  mkdir "$folder"
  ln -s "$root/examples" "$folder/examples"
  {
    echo 'set -eo pipefail'
    echo "show=$show"
    # shellcheck disable=SC2016 # The page's shell knows where it was.
    echo 'trap '\''code=$?; [ $code -eq 0 ] || echo "FAILED $where"'\'' EXIT'
    cat "$scratch/page.sh"
  } >"$scratch/run.sh"
  (cd "$folder" && exec timeout 120 bash "$scratch/run.sh") >"$log" 2>&1 </dev/null || code=$?
  if $show; then
    say "== $page"
    cat "$log" >&2
  fi
  if [ $code -ne 0 ]; then
    $show || tail -n 15 "$log" >&2
    fail "$(sed -n 's/^FAILED //p' "$log" | tail -n 1)" "exit code $code"
  fi
}

# Relative links, without their anchors.
check_links() {
  local page=$1 line target
  while IFS=: read -r line target; do
    case $target in
      *://* | '#'* | mailto:*) continue ;;
    esac
    target=${target%%#*}
    [ -e "$(dirname "$page")/$target" ] || fail "$page:$line" "link to $target, which does not exist"
  done < <(grep -noE '\]\([^) ]+\)' "$page" | sed -E 's/\]\((.*)\)$/\1/')
}

# Prints, for each command of Berth that the page $1 names with options, its line, its name and one option.
named_options() {
  awk '
    function look(text, line,   words, n, i, name) {
      sub(/ #.*/, "", text)
      n = split(text, words, /[ \t]+/)
      if (words[1] !~ /^(berth|berthd|berth-registry)$/) return
      name = words[1]
      for (i = 2; i <= n; i++) {
        if (words[i] == "--" || words[i] == "|" || words[i] ~ /\.(py|sh|ya?ml)$/) return
        if (words[i] ~ /^--[a-z]/) {
          sub(/[^-a-z].*/, "", words[i])
          print line "\t" name "\t" words[i]
        } else if (name == "berth" && i == 2 || name ~ /^berth (cluster|server)$/ && i == 3) {
          if (words[i] ~ /^[a-z-]+$/) name = name " " words[i]
        }
      }
    }
    /^```/ { block = !block; next }
    block { text = $0; sub(/^[$#>] /, "", text); sub(/^[A-Za-z_]+=\$\(/, "", text); look(text, NR); next }
    {
      n = split($0, spans, "`")
      for (i = 2; i <= n; i += 2) look(spans[i], NR)
    }
  ' "$1"
}

check_options() {
  local page=$1 line name option help
  while IFS=$'\t' read -r line name option; do
    help=$scratch/help.${name// /_}
    # shellcheck disable=SC2086 # A command and its subcommands.
    [ -e "$help" ] || "$bin"/$name --help >"$help" 2>&1 || true
    grep -qE -- "(^|[^-a-z])$option([^-a-z]|\$)" "$help" || fail "$page:$line" "'$name' has no option $option"
  done < <(named_options "$page")
}

trap stop_all EXIT
trap 'exit 130' INT TERM

lines=$(wc -l <README.md)
[ "$lines" -le 200 ] || fail README.md:201 "$lines lines; at most 200"
for page in "${pages[@]}"; do
  [ -e "$page" ] || die "there is no $page"
  check_links "$page"
  check_options "$page"
done
if grep -q '^<!-- runnable' "${pages[@]}"; then
  start_demo
  for page in "${pages[@]}"; do
    run_page "$page"
  done
fi
[ $failures -eq 0 ] || die "$failures checks failed"
