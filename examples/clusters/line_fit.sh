#!/bin/sh
# Fits the line y = 3x + 2 with parameter servers and workers, in nothing but a shell: what a cluster does, small enough to
# read. The two parameters, slope and intercept, are spread over the parameter servers, however many there are; these answer
# "get PARAMETER" and "add PARAMETER NUMBER". Each worker has points of its own, and asks, computes and adds, again and
# again, whatever the other workers do meanwhile.
set -eu
job=$1 index=$2 ps_hosts=$3 steps=${4:-100}

# Asks the server of a parameter, and prints the answer: ask VERB PARAMETER [NUMBER].
ask() {
  host=$(echo "$ps_hosts" | awk -F , -v parameter="$2" '{ print $(parameter % NF + 1) }')
  until echo "$*" | busybox nc "${host%:*}" "${host##*:}" 2>/dev/null; do sleep 0.1; done
}

case $job in
  ps)
    address=$(echo "$ps_hosts" | cut -d , -f $((index + 1)))
    echo 0 >parameter-0
    echo 0 >parameter-1
    echo "serving parameters on port ${address##*:}"
    exec busybox nc -ll -p "${address##*:}" -e sh "$0" answer "$index" "$ps_hosts"
    ;;
  answer)
    read -r verb parameter number || exit 0
    file=parameter-$parameter
    # Several workers may be answered at a time.
    until mkdir lock 2>/dev/null; do sleep 0.01; done
    if [ "$verb" = add ]; then
      awk -v number="$number" '{ print $1 + number > "new" }' "$file"
      mv new "$file"
    fi
    cat "$file"
    rmdir lock
    ;;
  worker)
    step=0
    while [ $step -lt "$steps" ]; do
      set -- "$(ask get 0)" "$(ask get 1)"
      # shellcheck disable=SC2046 # Three numbers.
      set -- $(awk -v slope="$1" -v intercept="$2" -v index_="$index" 'BEGIN {
        for (i = 0; i < 20; i++) {
          x = (2 * i + index_) / 20 - 1
          error = slope * x + intercept - (3 * x + 2)
          loss += error * error / 20; a += error * x / 20; b += error / 20
        }
        print -0.1 * a, -0.1 * b, loss
      }')
      ask add 0 "$1" >/dev/null
      ask add 1 "$2" >/dev/null
      loss=$3 step=$((step + 1))
      [ $((step % 25)) -ne 0 ] || echo "step $step: loss $loss"
    done
    echo "y = $(ask get 0) x + $(ask get 1)"
    awk -v loss="$loss" 'BEGIN { exit loss > 0.01 }'
    ;;
esac
