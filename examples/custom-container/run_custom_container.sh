#!/usr/bin/env bash
set -euo pipefail
folder=$(dirname "$(readlink -f "$0")")
# shellcheck source=examples/example.sh
. "$folder/../example.sh"

image=berth-examples/perceptron:1

about="Makes a small image of its own, with busybox and a perceptron in awk, and runs it. The ARGUMENTS, if there are any,
are the command that runs in the container, in place of the training."
default_container=(--image "$image")
read_options "$@"

# From files of this folder and the busybox of this machine, into the engine that the command docker speaks to.
make_image() {
  local log
  [[ -x /bin/busybox && $(ldd /bin/busybox 2>&1) != *'=>'* ]] || die "please install busybox-static"
  if ! log=$(tar -C "$folder" -c Dockerfile learn.awk -C /bin busybox |
    DOCKER_BUILDKIT=0 docker build -t "$image" - 2>&1); then
    printf '%s\n' "$log" >&2
    die "could not make the image $image; if the server is elsewhere, push it to a registry and say --container"
  fi
}

if [[ " ${job[*]} " == *" $image "* ]]; then
  make_image
fi
[ ${#arguments[@]} -gt 0 ] || arguments=(awk -f /learn.awk)
exec "$(find_berth)" run "${job[@]}" -- "${arguments[@]}"
