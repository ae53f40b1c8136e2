#!/usr/bin/env bash
# Builds the images of dockerfiles/. See --help. Works in the source tree and in an installation, a copy of
# build/install/berth, which it takes as it is.
set -euo pipefail
caller=$PWD
cd "$(dirname "$0")/.."
. scripts/prerequisites.sh

usage() {
  cat <<'TEXT'
Usage: scripts/build-images.sh [OPTION]... [NAME]...
Builds images of dockerfiles/ in the engine of DOCKER_HOST, else in this machine's own. Without NAME: the CPU variants
of all of them. What is up to date is left alone; what was built before, in whichever engine, is loaded from the cache.

  tensorflow   berth.invalid/tensorflow:2.21
  pytorch      berth.invalid/pytorch:2.13
  caffe        berth.invalid/caffe:1.0
  berthd       berth.invalid/berthd:VERSION of Berth
  registry     berth.invalid/registry:VERSION of Berth

No host has the name berth.invalid (RFC 6761), so no registry can offer other images under these names.
The first three have a second tag with -cpu or -gpu at its end; the plain one is the variant that was asked for last.

  --gpu              the GPU variants of tensorflow, pytorch and caffe; needs a registry and a package index
  --base IMAGE       start the GPU variants from this image
  --cuda-archs LIST  GPU architectures that Caffe is compiled for (default: those of its Dockerfile)
  --check-gpu        build the GPU variants up to the first step that needs CUDA
  --from registry    start from public images
  --from debootstrap start from a Debian made here; as root. Default: from public images, if a registry can be reached
  --force            build also what is up to date, for example to get newer packages of Debian
  --cache-only       see to it that they are in the cache, and load none that is there already
  --save DIR         also write the images as files to DIR, for `docker load` on other machines
  --help             this text

In an installation, which has neither sources nor Gradle, everything but the CPU variant of caffe can be built.
The cache is BERTH_CACHE, by default ~/.cache/berth: downloads, and of each image the file that was built last.
TEXT
}

all=(tensorflow pytorch caffe berthd registry)
frameworks=(tensorflow pytorch caffe)
cache=${BERTH_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/berth}
variant=cpu from='' base='' archs='' save='' force=false check_gpu=false cache_only=false
names=()
installed=false
if [ -x bin/berthd ] && [ ! -e build.gradle ]; then
  installed=true
  # Nothing is compiled here. Said in this way because `build` is part of every recipe: a change of it would build all
  # images anew.
  GRADLE=none
  find_jdk() { true; }
fi

while [ $# -gt 0 ]; do
  case $1 in
    --gpu) variant=gpu ;;
    --check-gpu) check_gpu=true ;;
    --force) force=true ;;
    --cache-only) cache_only=true ;;
    --base | --cuda-archs | --from | --save)
      [ $# -gt 1 ] || die "$1 needs a value"
      case $1 in
        --base) base=$2 ;;
        --cuda-archs) archs=$2 ;;
        --from) from=$2 ;;
        --save) save=$(cd "$caller" && realpath -m -- "$2") ;;
      esac
      shift
      ;;
    --help | -h)
      usage
      exit 0
      ;;
    -*) die "there is no option $1; see --help" ;;
    *)
      [[ " ${all[*]} " == *" $1 "* ]] || die "there is no image '$1'; known: ${all[*]}"
      names+=("$1")
      ;;
  esac
  shift
done
! $cache_only || [ -z "$save" ] || die "--cache-only loads nothing that could be saved: leave out --save"
[ -z "$base" ] || [ $variant = gpu ] || die "--base is for the GPU variants: add --gpu"
[[ $from =~ ^(|registry|debootstrap)$ ]] || die "--from is registry or debootstrap, not '$from'"

# Classic builds work with every engine, and without Docker's plugin for the others.
export DOCKER_BUILDKIT=${DOCKER_BUILDKIT:-0}

tag_of() {
  case $1 in
    tensorflow) echo berth.invalid/tensorflow:2.21 ;;
    pytorch) echo berth.invalid/pytorch:2.13 ;;
    caffe) echo berth.invalid/caffe:1.0 ;;
    berthd | registry) echo "berth.invalid/$1:$(version)" ;;
    base-*) echo "berth.invalid/$1:bookworm" ;;
  esac
}

version() {
  if $installed; then
    find lib -maxdepth 1 -name 'berth-server-*.jar' | sed 's|.*/berth-server-\(.*\)\.jar|\1|'
  else
    sed -n "s/^  version = '\(.*\)'/\1/p" build.gradle
  fi
}

has_variants() { [[ " ${frameworks[*]} " == *" $1 "* ]]; }

# The folder with the Dockerfile of an image.
folder_of() {
  case $1,$variant in
    caffe,gpu) echo dockerfiles/caffe_gpu ;;
    *) echo "dockerfiles/$1" ;;
  esac
}

# What the bases have that are made where no registry can be reached.
packages_of() {
  case $1 in
    base-python) echo python3 ;;
    base-java) cat dockerfiles/berthd/packages.txt dockerfiles/registry/packages.txt ;;
    base-build) cat dockerfiles/caffe/packages.txt ;;
    base-caffe-gpu) cat dockerfiles/caffe_gpu/packages.txt ;;
  esac | sort -u
}

# Tells one recipe from another: the files of an image, how its parts are made, and what is compiled into it.
recipe_of() {
  {
    echo "$1"
    case $1 in
      base-*)
        packages_of "$1"
        declare -f make_base make_debian
        ;;
      *)
        echo "$variant $base $archs"
        hash_files "$(folder_of "$1")"
        declare -f build "prepare_$1" fetch_python
        ;;
    esac
    case $1 in
      caffe) cat gradle/images.gradle ;;
      berthd | registry)
        if $installed; then
          hash_files bin etc lib
        else
          hash_files build.gradle gradle {proto,rpc,daemon,host,server,registry,client,cli}/{build.gradle,src/main} host/src/nvmlSim
        fi
        ;;
    esac
  } | sha256sum | cut -c 1-16
}

hash_files() { find "$@" -type f ! -name '*.md' ! -name '*.jsa' -print0 | sort -z | xargs -0 sha256sum; }

has() { [ "$(docker image inspect -f '{{index .Config.Labels "berth.recipe"}}' "$1" 2>/dev/null)" = "$2" ]; }

declare -A provided
summary=()

# Brings an image into the engine: it is there already, or in the cache, or is built.
provide() {
  local name=$1 id=$1 tag tags recipe file old how=built start=$SECONDS
  [ -z "${provided[$name]:-}" ] || return 0
  provided[$name]=true
  tag=$(tag_of "$name")
  tags=("$tag")
  if has_variants "$name"; then
    tag+=-$variant
    tags+=("$tag")
    id+=-$variant
  fi
  recipe=$(recipe_of "$name")
  file=$cache/images/$id-$recipe.tar
  if $cache_only && ! $force && [[ $name != base-* && -e $file ]]; then
    summary+=("$tag: in the cache")
    return 0
  fi
  if ! $force && has "$tag" "$recipe"; then
    how='up to date'
  elif ! $force && [ -e "$file" ] && step "Loading $tag from the cache" load "$file" "$tag"; then
    how=loaded
  else
    "make_${name%%-*}" "$name" "$tag" "$recipe"
    docker tag "$tag" "${tags[0]}"
    step "Saving $tag to the cache" save_to_cache "$file" "${tags[@]}"
    for old in "$cache/images/$id"-*.tar; do
      [ "$old" = "$file" ] || rm -f "$old"
    done
  fi
  if [[ $name == base-* ]]; then
    return 0
  fi
  docker tag "$tag" "${tags[0]}"
  if [ -n "$save" ]; then
    step "Writing $tag to $save" save_to "$save/${tag//[\/:]/-}.tar" "$file" "${tags[@]}"
  fi
  summary+=("$tag: $how, $(megabytes "$tag") MB, $((SECONDS - start)) s")
}

# Loads a file of the cache; one of an earlier version has the image under another name.
load() {
  local file=$1 tag=$2 loaded name
  loaded=$(docker load -q -i "$file" | sed -n 's/^Loaded image: //p')
  if [[ $'\n'$loaded$'\n' == *$'\n'"$tag"$'\n'* ]]; then
    return 0
  fi
  docker tag "${loaded%%$'\n'*}" "$tag"
  while read -r name; do
    docker image rm --no-prune "$name"
  done <<<"$loaded"
}

save_to_cache() {
  local file=$1
  shift
  mkdir -p "$cache/images"
  # Never half a file under its name.
  docker save -o "$cache/images/new" "$@" && mv "$cache/images/new" "$file"
}

save_to() {
  local target=$1 file=$2
  shift 2
  mkdir -p "$save"
  # What is up to date in the engine may have left the cache.
  cp "$file" "$target" 2>/dev/null || docker save -o "$target" "$@"
}

megabytes() { echo $(($(docker image inspect -f '{{.Size}}' "$1") / 1000000)); }

# Decides once where images start from.
decide_from() {
  if [ -z "$from" ]; then
    printf 'Looking for an image registry ... ' >&2
    if timeout 15 docker pull -q hello-world:linux >/dev/null 2>&1; then
      docker image rm hello-world:linux >/dev/null 2>&1 || true
      from=registry
    else
      from=debootstrap
    fi
    say "$([ $from = registry ] && echo reached || echo 'none; starting from debootstrap')"
  fi
}

# Sets `arguments` to those that tell a build where it starts from, given as ARG=BASE. Public images are the defaults of
# the Dockerfiles.
choose_bases() {
  local pair
  arguments=()
  for pair in "$@"; do
    if [[ $pair == BASE=* && -n $base ]]; then
      arguments+=(--build-arg "BASE=$base")
    else
      decide_from
      if [ "$from" = debootstrap ]; then
        provide "${pair#*=}"
        arguments+=(--build-arg "${pair%%=*}=$(tag_of "${pair#*=}")")
      fi
    fi
  done
}

build() {
  local name=$1 tag=$2 recipe=$3
  shift 3
  require pip gcc jdk
  [ -n "${GRADLE:-}" ] || require gradle
  mkdir -p "$work/$name"
  cp -R "$(folder_of "$name")/." "$work/$name"
  "prepare_$name" "$work/$name"
  step "Building $tag" docker build --force-rm -t "$tag" --label "berth.recipe=$recipe" \
    "${arguments[@]}" "$@" "$work/$name"
  rm -rf "${work:?}/$name"
}

make_tensorflow() {
  choose_bases BASE=base-python
  build "$@"
}
make_pytorch() { make_tensorflow "$@"; }

make_caffe() {
  if [ $variant = gpu ]; then
    choose_bases BASE=base-caffe-gpu
    build "$@" ${archs:+--build-arg "CUDA_ARCHITECTURES=$archs"}
  else
    choose_bases BASE=base-python BUILD_BASE=base-build
    build "$@"
  fi
}

make_berthd() {
  choose_bases BASE=base-java
  build "$@"
}
make_registry() { make_berthd "$@"; }

prepare_tensorflow() { fetch_python "$1"; }
prepare_pytorch() { fetch_python "$1"; }

prepare_caffe() {
  [ $variant = cpu ] || return 0
  fetch_python "$1"
  step "Fetching Caffe" "${GRADLE:-gradle}" --no-daemon -q caffeNative
  cp -R build/caffe "$1/native"
}

berth_built=false

prepare_berthd() {
  local home=build/install/berth
  if $installed; then
    home=.
  elif ! $berth_built; then
    step "Building Berth" "${GRADLE:-gradle}" --no-daemon -q installDist
    berth_built=true
  fi
  mkdir "$1/berth"
  cp -R "$home"/{bin,etc,lib,LICENSE,README.md} "$1/berth"
  # They would not fit the JVM of the image.
  rm -f "$1"/berth/lib/*.jsa
}
prepare_registry() { prepare_berthd "$1"; }

# Fetches Python packages for the Python of the images, which need not be that of this machine.
fetch_python() {
  local target=${1:?}/python requirements=$1/requirements.txt platform options
  [ $variant = cpu ] || requirements=$1/requirements-gpu.txt
  options=(--quiet --disable-pip-version-check --root-user-action ignore --no-compile --target "$target"
    --implementation cp --python-version 3.11 --only-binary :all: --cache-dir "$cache/pip" --retries 0)
  # What the C library of bookworm, 2.36, can load.
  for platform in 2_{36..5}; do
    options+=(--platform "manylinux_${platform}_x86_64")
  done
  options+=(--platform manylinux2014_x86_64 --platform manylinux2010_x86_64 --platform manylinux1_x86_64)
  options+=(-r "$requirements")
  step "Fetching Python packages for ${1##*/}" python3 -m pip install "${options[@]}" ||
    die "a package was not found$([ "${1##*/}" != pytorch ] || echo ". The CPU builds of PyTorch are in an index of its" \
      "own, whose address its pages on installing say: set PIP_EXTRA_INDEX_URL to it")"
  # Nothing of this is used by programs: headers and tools for extensions in C++, tests, a C parser, and symbols for
  # debuggers in the libraries where they are large. Scripts in bin would look for the Python of this machine.
  rm -rf "${target:?}"/{bin,clang,libclang-*,wheel,wheel-*} "$target"/tensorflow/include \
    "$target"/torch/{test,include,share} "$target"/torch/bin/{test_*,protoc*} "$target"/numpy/{,*/}tests
  find "$target" -maxdepth 3 -type f \( -name 'libtensorflow_*.so*' -o -name libtorch_cpu.so \) \
    -exec strip --strip-unneeded {} +
}

make_base() {
  local name=$1 tag=$2 recipe=$3 root=$work/root packages
  mapfile -t packages < <(packages_of "$name")
  [ "$(id -u)" -eq 0 ] || die "only root can make a Debian with debootstrap; --from registry needs no root"
  require debootstrap
  if $force || [ ! -e "$cache/bookworm.tar" ]; then
    step "Making a Debian bookworm" make_debian
  fi
  mkdir "$root"
  tar -C "$root" -xf "$cache/bookworm.tar"
  # A namespace of its own for the mount, which is gone with it whatever happens.
  # shellcheck disable=SC2016 # The inner shell expands it.
  step "Installing ${#packages[@]} packages in it" unshare --mount --pid --fork sh -ec '
    root=$1
    shift
    mount -t proc proc "$root/proc"
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    # Nothing is to be started in there.
    printf "#!/bin/sh\nexit 101\n" >"$root/usr/sbin/policy-rc.d"
    chmod +x "$root/usr/sbin/policy-rc.d"
    in_it() {
      env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive \
        ${http_proxy:+http_proxy="$http_proxy"} chroot "$root" "$@"
    }
    in_it apt-get update -q
    # Without a sync for every file.
    in_it apt-get upgrade -qy -o DPkg::Options::=--force-unsafe-io
    in_it apt-get install -qy --no-install-recommends -o DPkg::Options::=--force-unsafe-io "$@"
    in_it apt-get clean
    rm -rf "$root"/usr/sbin/policy-rc.d "$root"/etc/resolv.conf "$root"/var/lib/apt/lists/* "$root"/var/cache/*/* \
      "$root"/var/log/* "$root"/usr/share/doc/* "$root"/usr/share/man/* "$root"/usr/share/locale/* \
      "$root"/usr/share/info/* "$root"/tmp/*' sh "$root" "${packages[@]}"
  step "Importing $tag" import "$root" "$tag" "$recipe"
  rm -rf "$root"
}

import() {
  tar -C "$1" --numeric-owner -c . | docker import --change "LABEL berth.recipe=$3" \
    --change 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' \
    --change 'CMD ["bash"]' - "$2"
}

make_debian() {
  debootstrap --variant=minbase bookworm "$work/debian" &&
    sed -i 's|^\(deb .*/debian\) bookworm main|&\n\1 bookworm-updates main\n\1-security bookworm-security main|' \
      "$work/debian/etc/apt/sources.list" &&
    rm -rf "$work"/debian/var/cache/apt/archives/*.deb &&
    tar -C "$work/debian" --numeric-owner -cf "$cache/bookworm.tar.new" . &&
    mv "$cache/bookworm.tar.new" "$cache/bookworm.tar" &&
    rm -rf "$work/debian"
}

# The GPU variants as far as they can be built without CUDA.
check_gpu() {
  local name checked
  variant=gpu
  [ -n "$from" ] || from=debootstrap
  checked=$({
    for name in "${frameworks[@]}"; do recipe_of "$name"; done
    declare -f make_base check_gpu
  } | sha256sum)
  if ! $force && [ "$checked" = "$(cat "$cache/gpu-checked" 2>/dev/null)" ]; then
    say "The GPU variants were checked already, and nothing has changed"
    return 0
  fi
  for name in "${frameworks[@]}"; do
    if [ "$name" = caffe ]; then
      choose_bases BASE=base-caffe-gpu
    else
      choose_bases BASE=base-python
    fi
    step "Building the GPU variant of $name up to CUDA" docker build -q --force-rm --target before-cuda \
      "${arguments[@]}" "$(folder_of "$name")"
  done
  printf '%s\n' "$checked" >"$cache/gpu-checked"
}

if $installed && [ $variant = cpu ] && ! $check_gpu; then
  if [ ${#names[@]} -eq 0 ]; then
    names=(tensorflow pytorch berthd registry)
    say "Leaving out caffe, whose CPU variant can be built in the source tree only; see --help"
  elif [[ " ${names[*]} " == *' caffe '* ]]; then
    die "the CPU variant of caffe cannot be built in an installation, because Gradle fetches Caffe from Maven Central:" \
      "run 'scripts/build-images.sh --save DIR caffe' in the source tree, and 'docker load' the file here"
  fi
fi
require docker
[ -n "${names[*]}" ] || if [ $variant = gpu ]; then names=("${frameworks[@]}"); else names=("${all[@]}"); fi
if [[ $variant = gpu && " ${names[*]} " =~ \ (berthd|registry)\  ]]; then
  die "there is no GPU variant of ${BASH_REMATCH[1]}"
fi
timeout 20 docker version >/dev/null 2>&1 || die "no Docker engine answers at ${DOCKER_HOST:-the socket of this machine}"
mkdir -p "$cache"
# One at a time: the second finds what the first has built.
exec 8>"$cache/lock"
if ! flock -n 8; then
  say "Waiting for another build-images.sh to end ..."
  flock 8
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

if $check_gpu; then
  check_gpu
else
  for name in "${names[@]}"; do
    provide "$name"
  done
  printf '%s\n' "${summary[@]}" "Done in $SECONDS s" >&2
fi
