#!/usr/bin/env bash
# Installs Berth on this machine, or upgrades it; --help says more. Works in the source tree, which it builds first, and
# in a copy of build/install/berth, which it takes as it is.
#
# PREFIX/releases has a folder for each build, and PREFIX/current leads to one of them: what runs keeps its files until
# it ends, and the switch is a single rename.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
. "$here/scripts/prerequisites.sh"

usage() {
  cat <<'TEXT'
Usage: install-server.sh server   [OPTION]... [OPTION OF berthd]...
       install-server.sh registry [OPTION]... [OPTION OF berth-registry]...
       install-server.sh uninstall [--purge] [OPTION]...
Installs what is missing on this machine (a Java 17 runtime; for a server Docker and a static busybox), Berth below
/opt/berth, its commands in /usr/local/bin, and the daemon as a service of systemd, which it starts. Where Berth is
installed already, it is upgraded; runs continue meanwhile.
  --from DIR      install this folder, a copy of build/install/berth, rather than build one
  --prefix DIR    where Berth goes (default: /opt/berth)
  --root DIR      install below this folder without changing the running system: for packages and images
  --no-start      neither start nor restart anything
  --purge         uninstall configuration, runs and their output too
Options of the daemon, such as --listen, --insecure or --name, are written into /etc/berth/berthd.yaml or
/etc/berth/berth-registry.yaml. Only where that file does not exist yet: it is yours from then on, and an upgrade
never changes it.
Examples:
  install-server.sh registry --listen 0.0.0.0 --insecure
  install-server.sh server --listen 0.0.0.0 --insecure --registry gpu-registry
TEXT
}

role=
from=
prefix=/opt/berth
root=
start=true
purge=false
# The daemon's options as lines of its file.
settings=()

parse() {
  case ${1:-} in
    server | registry | uninstall) role=$1 ;;
    --help | -h)
      usage
      exit 0
      ;;
    *)
      usage >&2
      exit 2
      ;;
  esac
  shift
  while [ $# -gt 0 ]; do
    case $1 in
      --help | -h)
        usage
        exit 0
        ;;
      --from | --prefix | --root)
        [ -n "${2:-}" ] || die "$1 needs a folder"
        declare -g "${1#--}=$2"
        shift
        ;;
      --no-start) start=false ;;
      --purge) purge=true ;;
      --*)
        [ "$role" != uninstall ] || die "unknown option $1"
        if [[ $1 == *=* ]]; then
          add_setting "${1%%=*}" "${1#*=}"
        elif [ $# -gt 1 ] && [[ $2 != --* ]]; then
          add_setting "$1" "$2"
          shift
        else
          add_setting "$1" true
        fi
        ;;
      *) die "unexpected argument '$1'; see --help" ;;
    esac
    shift
  done
  ! $purge || [ "$role" = uninstall ] || die "--purge is for uninstall"
  [[ $prefix == /* ]] || die "--prefix needs an absolute path, not '$prefix'"
  [[ $prefix =~ ^[A-Za-z0-9/._-]+$ ]] || die "--prefix may not have such characters: '$prefix'"
  if [ -n "$root" ]; then
    mkdir -p "$root"
    root=$(cd "$root" && pwd -P)
    [ "$root" != / ] || die "--root / is this machine itself: leave it out"
    start=false
  else
    [ "$(id -u)" -eq 0 ] || die "only root can install Berth; --root DIR installs below a folder"
  fi
}

# Notes an option of the daemon. One that is given again adds to its value.
add_setting() {
  local key=${1#--} value=$2 i quote="'"
  [[ $key =~ ^[a-z][a-z-]*$ ]] || die "'$1' is not an option"
  [[ $value != *[[:cntrl:]]* ]] || die "the value of $1 has a control character"
  for i in "${!settings[@]}"; do
    if [[ ${settings[i]} == "$key: "* ]]; then
      [[ ${settings[i]}$value =~ ^[A-Za-z0-9_./:,=@\ -]+$ ]] || die "$1 can be given only once with such values"
      settings[i]=${settings[i]},$value
      return
    fi
  done
  [[ $value =~ ^[A-Za-z0-9/][A-Za-z0-9_./:,=@-]*$ && $value != *: ]] || value=$quote${value//$quote/$quote$quote}$quote
  settings+=("$key: $value")
}

# The value of one of the daemon's options, if it was given.
setting() {
  local one
  for one in "${settings[@]}"; do
    if [[ $one == "$1: "* ]]; then
      printf '%s\n' "${one#*: }"
      return
    fi
  done
}

# Refuses addresses that the daemon would refuse once it is installed. A file that exists may say `insecure` itself.
check_addresses() {
  local key address host
  if [[ $(setting insecure) == true || -e $root/etc/berth/$daemon.yaml ]]; then
    return
  fi
  for key in listen http; do
    address=$(setting $key)
    address=${address//\'/}
    case $address in
      \[*) host=${address%%]*} host=${host#[} ;;
      *:*:*) host=$address ;;
      *) host=${address%:*} ;;
    esac
    if [[ $host != '' && $key,$host != http,none ]] && ! is_loopback "$host"; then
      die "--$key $address is beyond loopback, where calls are neither encrypted nor authenticated: add --insecure if" \
        "you trust everyone who reaches this machine, or leave --$key out. Nothing was installed"
    fi
  done
}

is_loopback() {
  [[ $1 =~ ^127\. || $1 == ::1 || $1 == localhost || $(getent ahosts "$1") =~ ^(127\.|::1 ) ]]
}

# Sets $from to a folder with Berth's commands.
find_installation() {
  if [ -z "$from" ] && [ -x "$here/bin/berthd" ]; then
    from=$here
  elif [ -z "$from" ]; then
    require jdk gradle
    step "Building Berth" in_source gradle --no-daemon -q installDist
    from=$here/build/install/berth
  fi
  [[ -x $from/bin/berthd && -d $from/lib/systemd ]] || die "$from is not an installation of Berth"
  from=$(cd "$from" && pwd)
}

in_source() { (cd "$here" && "$@"); }

# Refuses options that the daemon does not have, or that its file, which is not ours to change, lacks.
check_settings() {
  local setting key example=$from/etc/$daemon.yaml file=$root/etc/berth/$daemon.yaml
  for setting in "${settings[@]}"; do
    key=${setting%%: *}
    grep -q "^#$key: " "$example" || die "$daemon has no option --$key; see $from/bin/$daemon --help"
    if [ -e "$file" ] && ! grep -qxF -- "$setting" "$file"; then
      die "$file exists without '$setting': change it there, or leave --$key out"
    fi
  done
}

require_packages() {
  local parts=(jre)
  if [[ $role == server && " ${settings[*]} " != *' runtime: process '* ]] &&
    ! grep -qs '^runtime: *process' /etc/berth/berthd.yaml; then
    parts+=(docker busybox)
  fi
  require "${parts[@]}"
}

# Copies the installation to a folder of its own, and sets $release to it. The same files with the same Java are the same
# release, for which there is nothing to do.
copy_release() {
  local version id
  version=$(JAVA_HOME=$jre "$from/bin/berthd" --version) || die "$from/bin/berthd does not run"
  id=$(release_files | sha256sum | cut -c 1-12)
  release=$prefix/releases/${version##* }-$id
  if [ -e "$root$release/.complete" ]; then
    return
  fi
  say "Copying Berth to $root$release"
  rm -rf "$root$release" "$root$release.new"
  mkdir -p "$root$release.new"
  tar -C "$from" --exclude '*.jsa' --exclude ./jre --exclude ./.complete -c . |
    tar -C "$root$release.new" --no-same-owner -x
  chmod -R go-w,a+rX "$root$release.new"
  ln -s "$jre" "$root$release.new/jre"
  mv -T "$root$release.new" "$root$release"
  # An archive is good for one place only, and below another root this is not the place.
  if [ -z "$root" ]; then
    JAVA_HOME=$jre step "Archiving classes, so that the commands start fast" \
      "$release/scripts/class-archive.sh" "$release"
  fi
  touch "$root$release/.complete"
}

release_files() {
  cd "$from"
  find . -type f ! -name '*.jsa' ! -name .complete -print0 | sort -z | xargs -0 sha256sum
  "$jre/bin/java" -version 2>&1
  echo "$jre"
}

# Leads everybody who starts a command from now on to the release.
switch() {
  local name
  replace_link "releases/${release##*/}" "$root$prefix/current"
  mkdir -p "$root/usr/local/bin"
  for name in "${commands[@]}"; do
    replace_link "$prefix/current/bin/$name" "$root/usr/local/bin/$name"
  done
}

replace_link() {
  [ ! -e "$2" ] || [ -L "$2" ] || die "$2 is in the way: it is not a link of ours"
  ln -sfn "$1" "$2.new"
  mv -T "$2.new" "$2"
}

# Old releases that nobody runs any more. The class path of a process names its release.
remove_old_releases() {
  local old
  for old in "$root$prefix/releases"/*; do
    if [ "$old" != "$root$release" ] && is_release "$old" && [ -z "$(processes_with "$old/lib/")" ]; then
      rm -rf "$old"
    fi
  done
}

# Whether a folder is a release of Berth: others may have folders with such names too.
is_release() { [ -e "$1/.complete" ] && [ -e "$1/bin/berthd" ]; }

# The processes whose commands contain a text; it is not in the arguments of grep, which has a command too.
processes_with() {
  local all=(/proc/[0-9]*/cmdline)
  printf '%s\n' "$1" | grep -lsF --file=- "${all[@]}" | cut -d / -f 3 | xargs || true
}

write_configuration() {
  local etc=$root/etc/berth
  mkdir -p "$etc"
  if [ "$role" = server ]; then
    [ -e "$etc/services.yaml" ] || install -m 644 "$from/etc/services.yaml" "$etc/services.yaml"
    if grep -qE '^[^#]*image: *["'\'']?((index\.)?docker\.io/)?berth/' "$etc/services.yaml"; then
      say "$etc/services.yaml names images berth/..., which are never pulled: build them with scripts/build-images.sh," \
        "and name them berth.invalid/... there"
    fi
    grep -q '^services:' <<<"$(printf '%s\n' "${settings[@]}")" || settings+=("services: /etc/berth/services.yaml")
  fi
  if [ -e "$etc/$daemon.yaml" ]; then
    say "$etc/$daemon.yaml is unchanged"
  else
    make_configuration >"$etc/$daemon.yaml.new"
    mv "$etc/$daemon.yaml.new" "$etc/$daemon.yaml"
    chmod 644 "$etc/$daemon.yaml"
  fi
}

# The example, with each setting in place of the line that explains it.
make_configuration() {
  local line setting
  while IFS= read -r line; do
    for setting in "${settings[@]}"; do
      [[ $line != "#${setting%%: *}: "* ]] || line=$setting
    done
    printf '%s\n' "$line"
  done <"$from/etc/$daemon.yaml"
}

install_units() {
  mkdir -p "$root$units" "$root$tmpfiles"
  sed "s|@PREFIX@|$prefix|" "$from/lib/systemd/$daemon.service" >"$root$units/$daemon.service"
  chmod 644 "$root$units/$daemon.service"
  if [ "$role" = server ]; then
    install -m 644 "$from/lib/systemd/berth.tmpfiles.conf" "$root$tmpfiles/berth.conf"
  fi
}

systemd_runs() { [ -z "$root" ] && [ -d /run/systemd/system ]; }

start_daemons() {
  local other
  if ! systemd_runs; then
    [ -n "$root" ] || say "systemd does not run here. To start it by hand: $daemon --config /etc/berth/$daemon.yaml"
    return
  fi
  systemctl daemon-reload
  $start || return 0
  systemctl enable --quiet "$daemon"
  restart_if_old "$daemon"
  for other in berthd berth-registry; do
    if [ "$other" != "$daemon" ] && systemctl --quiet is-active "$other"; then
      restart_if_old "$other"
    fi
  done
}

# Restarts a daemon and waits until it listens, unless it is one of this release that never failed.
restart_if_old() {
  local tries=0 log
  if [ "$(property NRestarts "$1")" = 0 ] &&
    grep -qsF -- "$release/lib/" "/proc/$(property MainPID "$1")/cmdline"; then
    say "$1 already has this release; unchanged"
    return
  fi
  systemctl reset-failed "$1" 2>/dev/null || true
  systemctl restart "$1"
  until log=$(log "_SYSTEMD_INVOCATION_ID=$(property InvocationID "$1")") && [[ $log == *' listens on '* ]]; do
    tries=$((tries + 1))
    if [ $tries -gt 300 ] || [ "$(property NRestarts "$1")" != 0 ]; then
      log --unit "$1" --lines 5 >&2
      die "$1 does not start; above is the end of its log"
    fi
    sleep 0.1
  done
  say "$1 listens on ${log##* listens on }"
}

property() { systemctl show --property "$1" --value "$2"; }

log() { journalctl --quiet --no-pager --output cat "$@"; }

# Whether there is anything that uninstall would remove.
is_installed() {
  local name
  for name in berthd berth-registry; do
    [ ! -e "$root$units/$name.service" ] || return 0
  done
  for name in "$root$prefix/releases"/*; do
    ! is_release "$name" || return 0
  done
  for name in "${commands[@]}"; do
    [ "$(readlink "$root/usr/local/bin/$name")" != "$prefix/current/bin/$name" ] || return 0
  done
  $purge && [[ -e $root/etc/berth || -e $root/var/lib/berth ]]
}

uninstall() {
  local name going_on was_active=false
  is_installed || die "nothing to uninstall: Berth is not installed in $root$prefix"
  # Nothing new may start between the look and the purge.
  if $purge && systemd_runs && systemctl --quiet is-active berthd; then
    was_active=true
    systemctl --quiet stop berthd
  fi
  going_on=$(processes_with "$root/var/lib/berth/")
  if $purge && [ -n "$going_on" ]; then
    ! $was_active || systemctl --quiet start berthd
    die "--purge would remove running runs or clusters (processes $going_on); cancel them first"
  fi
  for name in berthd berth-registry; do
    if [ -e "$root$units/$name.service" ]; then
      ! systemd_runs || systemctl --quiet disable --now "$name"
      rm -f "$root$units/$name.service"
    fi
  done
  rm -f "$root$tmpfiles/berth.conf"
  ! systemd_runs || systemctl daemon-reload
  for name in "${commands[@]}"; do
    if [ "$(readlink "$root/usr/local/bin/$name")" = "$prefix/current/bin/$name" ]; then
      rm "$root/usr/local/bin/$name"
    fi
  done
  if [ -L "$root$prefix/current" ] && is_release "$root$prefix/releases/$(basename "$(readlink "$root$prefix/current")")"; then
    rm "$root$prefix/current"
  fi
  for name in "$root$prefix/releases"/*; do
    # The supervisors of clusters go on, and need their files.
    ! is_release "$name" || [ -n "$(processes_with "$name/lib/")" ] || rm -rf "$name"
  done
  for name in "$root$prefix/releases" "$root$prefix"; do
    [ ! -d "$name" ] || rmdir --ignore-fail-on-non-empty "$name"
  done
  if $purge; then
    rm -rf "$root/etc/berth" "$root/var/lib/berth"
    say "Berth is uninstalled, with its configuration, runs and their output"
  else
    say "Berth is uninstalled; configuration and runs are still in $root/etc/berth and $root/var/lib/berth"
    [ -z "$going_on" ] || say "Runs and clusters continue (processes $going_on) and hold their GPUs until they end"
  fi
}

# Not /etc, which is for the administrator's own changes.
units=/usr/local/lib/systemd/system
tmpfiles=/usr/local/lib/tmpfiles.d
commands=(berth berthd berth-registry)

parse "$@"
case $role in
  server) daemon=berthd ;;
  registry) daemon=berth-registry ;;
  uninstall)
    uninstall
    exit 0
    ;;
esac
check_addresses
find_installation
check_settings
if [ -z "$root" ]; then
  require_packages
else
  find_jre || die "there is no Java 17 or later on this machine"
fi
copy_release
write_configuration
switch
install_units
start_daemons
remove_old_releases
say "Berth ${release##*/} is installed${root:+ below $root}"
