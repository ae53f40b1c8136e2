#!/usr/bin/env bash
# Runs a command of this checkout on a bare Debian or Ubuntu: in a chroot that has the smallest set of packages, no
# environment and no locale. Prints how long the command took, and exits as it did. Only as root; not part of the tests.
#   scripts/bare-machine.sh SUITE COMMAND...
#   scripts/bare-machine.sh trixie scripts/demo.sh
# SUITE is bookworm, trixie or another one of Debian, or noble or another one of Ubuntu that debootstrap and its keys know.
# The chroot has processes and mounts of its own. It sees the committed state of the checkout, this machine's network, its
# certificate authorities and its settings of apt, Maven and Gradle, so that it reaches the packages that the machine
# reaches. It is deleted afterwards.
#   MIRROR=URL        where the packages of SUITE are (default: the first source of apt)
#   KEYRING=FILE      the keys that have signed them (default: those that debootstrap knows)
#   BARE_CACHE=DIR    keep the installed bare system there as a tar for the next time (default: ~/.cache/berth-bare)
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/prerequisites.sh

usage() { sed -n 's/^# \{0,1\}//; 2,12p' "$0"; }

case ${1:-} in
  --help | -h)
    usage
    exit 0
    ;;
esac
if [ $# -lt 2 ]; then
  usage >&2
  exit 2
fi
[ "$(id -u)" -eq 0 ] || die "only root can make a chroot"
suite=$1
shift
[[ $suite =~ ^[a-z]+$ ]] || die "not a suite: '$suite'"

cache=${BARE_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/berth-bare}
bare=$(mktemp -d "${TMPDIR:-/tmp}/berth-bare.XXXXXX")
root=$bare/root

# The first address of packages in the settings of apt, in its old or its new format.
machine_mirror() {
  cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null |
    sed -nE 's/^URIs: *([^ ]+).*/\1/p; s/^deb (\[[^]]*\] )?([^ ]+) .*/\2/p' | head -n 1
}

# Ends the command, as a terminal would at first, so that it can end its engines and remove their control groups. What is
# left dies with the namespace of its processes, and the mounts with the last process.
clean_up() {
  local tries=0 first
  trap '' INT TERM
  if [ -n "${machine:-}" ] && kill -0 "$machine" 2>/dev/null; then
    read -r first _ <"/proc/$machine/task/$machine/children" || true
    [ -z "${first:-}" ] || kill -TERM "$first" 2>/dev/null || true
    while kill -0 "$machine" 2>/dev/null && [ "$tries" -lt 300 ]; do
      tries=$((tries + 1))
      sleep 0.1
    done
    kill -KILL "$machine" 2>/dev/null || true
    wait "$machine" || true
  fi
  rm -rf --one-file-system "$bare"
}

# Installs the bare system, or unpacks the one of the last time.
install_system() {
  local archive=$cache/$suite.tar mirror=${MIRROR:-$(machine_mirror)} options=(--variant=minbase) arguments
  mkdir -p "$root"
  if [ -e "$archive" ]; then
    tar -C "$root" -xf "$archive"
    return
  fi
  [ -n "$mirror" ] || die "apt has no source of packages; set MIRROR"
  [ -z "${KEYRING:-}" ] || options+=("--keyring=$KEYRING")
  # Ubuntu has Gradle and Docker in the second one.
  [[ $mirror != *ubuntu* ]] || options+=('--components=main,universe')
  arguments=("$suite" "$root" "$mirror")
  # A release that is newer than this debootstrap: they have all been installed alike for long.
  [ -e "/usr/share/debootstrap/scripts/$suite" ] || arguments+=(gutsy)
  debootstrap "${options[@]}" "${arguments[@]}"
  rm -rf "$root"/var/cache/apt/archives/*.deb
  mkdir -p "$cache"
  tar -C "$root" -cf "$archive.new" .
  mv "$archive.new" "$archive"
}

# What the machine needs to reach packages, its own certificate authorities among it.
copy_settings() {
  local home=${HOME:-/root} file
  cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
  mkdir -p "$root/usr/local/share/ca-certificates"
  if [ -e /etc/ssl/certs/ca-certificates.crt ]; then
    # One file for each, as the package ca-certificates wants them when it is installed.
    awk -v folder="$root/usr/local/share/ca-certificates" '
      /BEGIN CERTIFICATE/ { file = sprintf("%s/machine-%03d.crt", folder, ++number) }
      file { print >file }
      /END CERTIFICATE/ { close(file); file = "" }' /etc/ssl/certs/ca-certificates.crt
  fi
  grep -hsE '^ *Acquire::' /etc/apt/apt.conf /etc/apt/apt.conf.d/* | grep -v IndexTargets \
    >"$root/etc/apt/apt.conf.d/90machine" || true
  cp -R /etc/apt/auth.conf.d "$root/etc/apt/" 2>/dev/null || true
  for file in .m2/settings.xml .gradle/gradle.properties .gradle/init.gradle .gradle/init.d; do
    if [ -e "$home/$file" ]; then
      mkdir -p "$root/root/${file%/*}"
      cp -R "$home/$file" "$root/root/$file"
    fi
  done
}

# The mounts of the bare system, in a namespace of their own. Its root is one too: containers start only below one.
mount_system() {
  local name
  mount --bind "$root" "$root"
  mount -t proc proc "$root/proc"
  mount -t sysfs sysfs "$root/sys"
  mount -t tmpfs -o mode=755 dev "$root/dev"
  mkdir "$root/dev/pts" "$root/dev/shm"
  mount -t devpts -o newinstance,ptmxmode=666,mode=620 devpts "$root/dev/pts"
  mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
  mount -t tmpfs -o mode=755 run "$root/run"
  for name in null zero full random urandom tty; do
    cp -a "/dev/$name" "$root/dev/$name"
  done
  ln -s pts/ptmx "$root/dev/ptmx"
  ln -s /proc/self/fd "$root/dev/fd"
  ln -s fd/0 "$root/dev/stdin"
  ln -s fd/1 "$root/dev/stdout"
  ln -s fd/2 "$root/dev/stderr"
}

# Is the first process of the bare system: mounts what it needs, runs the command, and passes a SIGTERM on to it.
run_system() {
  local command status=0
  set -euo pipefail
  mount_system
  chroot "$root" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb \
    /bin/sh -c 'cd /root/berth && exec "$@"' sh "$@" </dev/null &
  command=$!
  trap 'kill "$command" 2>/dev/null' TERM
  # A signal ends the waiting, but not the command.
  while kill -0 "$command" 2>/dev/null; do
    status=0
    wait "$command" || status=$?
  done
  exit "$status"
}

trap clean_up EXIT
trap 'exit 130' INT TERM
require debootstrap
step "Installing a bare $suite" install_system
copy_settings
git clone -q --no-hardlinks . "$root/root/berth"

start=$SECONDS
status=0
export root
export -f mount_system run_system
# In the background, so that an interrupt is not put off until it ends.
unshare --mount --propagation private --pid --fork --kill-child bash -c 'run_system "$@"' bash "$@" &
machine=$!
wait "$machine" || status=$?
say "$suite: $* ended with $status after $((SECONDS - start)) s"
(exit "$status")
