# What the scripts of the examples have in common: their options, and what NV_GPU and CUDA_VISIBLE_DEVICES mean. A script
# sources this, sets the three variables below as it needs them, and calls `read_options "$@"`.
# shellcheck shell=bash

# What the example does, in a line.
about=
# What it runs in, as an option of `berth run`: (--service NAME) or (--image IMAGE).
default_container=()
# How many GPUs it takes.
default_gpus=1
# Where it runs.
default_server="the variable BERTH_SERVER, else where 'berth run' finds a place"

examples=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
root=$(dirname "$examples")

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }

die() {
  say "$@"
  exit 125
}

usage() {
  cat <<TEXT
Usage: ${0##*/} [OPTIONS] [ARGUMENTS]
$about

Options:
  --server HOST[:PORT]   the server that it runs on
                         (default: $default_server)
  --gpus N               so many GPUs, whichever are free (default: $default_gpus)
  --container IMAGE      run in this image (default: the ${default_container[*]#--})
  --envlist=VAR1,VAR2    pass these variables of yours on to the program
  --help                 this text; '-- --help' shows the program's own
All else goes to the program as its ARGUMENTS.

NV_GPU=1,2 ${0##*/} takes exactly the GPUs 1 and 2 of the server, and so does
CUDA_VISIBLE_DEVICES=1,2 ${0##*/} --envlist=CUDA_VISIBLE_DEVICES. Neither variable reaches the program as it is: Berth
sets both there, NV_GPU to the server's numbers of the GPUs, CUDA_VISIBLE_DEVICES to those that the program sees.
TEXT
}

# Sets $job, options that `berth run` and the Java programs understand alike, and $arguments, which are the program's.
read_options() {
  local server='' gpus='' container='' envlist=''
  arguments=()
  while [ $# -gt 0 ]; do
    case $1 in
      --help | -h)
        usage
        exit 0
        ;;
      --server=* | --gpus=* | --container=* | --envlist=*) set -- "${1%%=*}" "${1#*=}" "${@:2}" ;;
      --server | --gpus | --container | --envlist)
        [ -n "${2:-}" ] || die "$1 needs a value; see --help"
        declare "${1#--}=$2"
        shift 2
        ;;
      --)
        arguments+=("${@:2}")
        break
        ;;
      *)
        arguments+=("$1")
        shift
        ;;
    esac
  done
  if [ -n "$container" ]; then
    job=(--image "$container")
  else
    job=("${default_container[@]}")
  fi
  [ -z "$server" ] || job+=(--server "$server")
  choose_variables "$envlist"
  choose_gpus "$gpus" "$envlist"
}

# Adds the variables of the list $1 to $job, all but those by which Berth itself tells a program of its GPUs.
choose_variables() {
  local names name
  IFS=, read -ra names <<<"$1"
  for name in "${names[@]}"; do
    [[ $name =~ ^[A-Za-z_][A-Za-z_0-9]*$ ]] || die "--envlist: '$name' is not a valid variable name"
    [ -n "${!name+set}" ] || die "--envlist: the variable $name is not set"
    case $name in
      NV_GPU | CUDA_VISIBLE_DEVICES) ;;
      CUDA_DEVICE_ORDER | NVIDIA_* | BERTH_*) say "Berth sets $name itself; yours is not passed on" ;;
      *) job+=(--env "$name") ;;
    esac
  done
}

# Adds the GPUs to $job: those that NV_GPU names; or CUDA_VISIBLE_DEVICES if the list $2 has it, which counts among those
# of NV_GPU if there are any; else $1 of them, or as many as the example takes.
choose_gpus() {
  local ids=() named='' visible index IFS=,
  if [ -n "${NV_GPU:-}" ]; then
    named="NV_GPU=$NV_GPU"
    read -ra ids <<<"$NV_GPU"
  fi
  if [[ ,$2, == *,CUDA_VISIBLE_DEVICES,* ]]; then
    named+="${named:+ and }CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES"
    read -ra visible <<<"$CUDA_VISIBLE_DEVICES"
    [ ${#visible[@]} -gt 0 ] || die "$named chooses no GPU"
    if [ ${#ids[@]} -gt 0 ]; then
      for index in "${!visible[@]}"; do
        [[ ${visible[index]} =~ ^(0|[1-9][0-9]?)$ && -n ${ids[${visible[index]}]:-} ]] ||
          die "$named: there is no GPU '${visible[index]}' among ${#ids[@]}"
        visible[index]=${ids[${visible[index]}]}
      done
    fi
    ids=("${visible[@]}")
  fi
  if [ -z "$named" ]; then
    job+=(--gpus "${1:-$default_gpus}")
    return
  fi
  [ -z "$1" ] || die "--gpus counts GPUs, and $named chooses them: use one of the two"
  say "$named: reserving exactly these GPUs of the server: ${ids[*]}"
  job+=(--gpu "${ids[*]}")
}

# Becomes a program of the folder jobs, run by Berth. All of the folder is sent along, once for all examples.
run_job() {
  exec "$(find_berth)" run "${job[@]}" --bundle "$examples/jobs" "$1" "${arguments[@]}"
}

# Becomes a program of java-clients, which is built first if nobody has done so yet.
run_java() {
  local libraries=$examples/java-clients/build/install java=java
  if [ ! -d "$libraries" ]; then
    say "building it ..."
    (cd "$root" && gradle --no-daemon -q :java-clients:install >&2) || die "could not build it"
  fi
  [ -z "${JAVA_HOME:-}" ] || java=$JAVA_HOME/bin/java
  # Such a program lives for seconds.
  exec "$java" -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp "$libraries/*" "berth.examples.$1" \
    "${job[@]}" --jobs "$examples/jobs" -- "${arguments[@]}"
}

find_berth() {
  command -v berth || command -v "$root/build/install/berth/bin/berth" ||
    die "there is no command berth: put it on the PATH, or build it with 'gradle installDist' in $root"
}
