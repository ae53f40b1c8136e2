# Installs what a script needs and the machine lacks; nothing is installed that is there already. To be sourced:
#   . scripts/prerequisites.sh
#   require jdk gradle docker ...
# Sets JAVA_HOME to a JDK that builds Berth if one is asked for, and jre to the home of a Java that runs it if that is. Works on
# Debian and Ubuntu, as root or with sudo; elsewhere it says what to install.
# shellcheck shell=bash

say() { printf '%s\n' "$*" >&2; }

die() {
  say "${0##*/}: $*"
  exit 1
}

# The packages of which at least one part is missing here.
missing_packages=()

require() {
  local part
  missing_packages=()
  for part in "$@"; do
    case $part in
      jdk) find_jdk || missing_packages+=(openjdk-17-jdk-headless) ;;
      jre) find_jre || missing_packages+=(openjdk-17-jre-headless) ;;
      gradle) have gradle || missing_packages+=(gradle) ;;
      # Newer releases have the client in a package of its own, which is only recommended.
      docker) have dockerd && have docker || missing_packages+=(docker.io docker-cli) ;;
      etcd) have etcd || missing_packages+=(etcd-server) ;;
      busybox) is_static /bin/busybox || missing_packages+=(busybox-static) ;;
      iproute2) have ip || missing_packages+=(iproute2) ;;
      iptables) have iptables || missing_packages+=(iptables) ;;
      gcc) have gcc && [ -e /usr/include/stdlib.h ] || missing_packages+=(gcc libc6-dev) ;;
      debootstrap) have debootstrap || missing_packages+=(debootstrap debian-archive-keyring) ;;
      pip) python3 -m pip --version >/dev/null 2>&1 || missing_packages+=(python3-pip) ;;
      chromium) have chromium && have chromedriver || missing_packages+=(chromium chromium-driver fonts-dejavu-core) ;;
      npm) have npm || missing_packages+=(npm) ;;
      shellcheck) have shellcheck || missing_packages+=(shellcheck) ;;
      # Not systemd-sysv: the machine's init stays what it is.
      systemd-analyze) have systemd-analyze || missing_packages+=(systemd) ;;
      procps) have ps || missing_packages+=(procps) ;;
      python3-grpcio) python_has grpc google.protobuf || missing_packages+=(python3-grpcio python3-protobuf) ;;
      python3-rpyc) python_has rpyc || missing_packages+=(python3-rpyc) ;;
      python3-fasteners) python_has fasteners || missing_packages+=(python3-fasteners) ;;
      *) die "cannot install '$part': unknown part" ;;
    esac
  done
  if [ ${#missing_packages[@]} -gt 0 ]; then
    install_packages
  fi
  if [[ " $* " == *' jdk '* ]]; then
    find_jdk || die "no JDK 17, 21 or 25 under /usr/lib/jvm, and JAVA_HOME is none"
  fi
  if [[ " $* " == *' jre '* ]]; then
    find_jre || die "there is no Java 17 or later under /usr/lib/jvm, nor is JAVA_HOME one"
  fi
}

have() { command -v "$1" >/dev/null 2>&1; }

# Whether a program is there and needs no library of this machine.
is_static() { [ -x "$1" ] && [[ $(ldd "$1" 2>/dev/null) != *'=>'* ]]; }

# The system's own Python: another one on the PATH would not see the system's packages.
python_has() {
  local module
  for module in "$@"; do
    /usr/bin/python3 -c "import $module" >/dev/null 2>&1 || return 1
  done
}

# The releases of Java with which Berth is built and tested, the preferred one first. All of them run Gradle 4.4.1.
java_releases=(17 21 25)

# JAVA_HOME if that is one of them, else the preferred one that is installed.
find_jdk() {
  local home release
  for release in "${java_releases[@]}"; do
    # An empty one would name /bin/javac, and JAVA_HOME would stay unset.
    if [ -n "${JAVA_HOME:-}" ] && is_jdk "$JAVA_HOME" "$release"; then
      return 0
    fi
  done
  for release in "${java_releases[@]}"; do
    for home in /usr/lib/jvm/java-"$release"-openjdk-* /usr/lib/jvm/*"$release"*; do
      if is_jdk "$home" "$release"; then
        export JAVA_HOME=$home
        return 0
      fi
    done
  done
  return 1
}

is_jdk() { [ -x "$1/bin/javac" ] && [[ $("$1/bin/javac" -version 2>&1) =~ (^|$'\n')"javac $2"($|[^0-9]) ]]; }

# Java 17 if there is one, else a later one.
find_jre() {
  local home
  for home in ${JAVA_HOME:+"$JAVA_HOME"} /usr/lib/jvm/java-17-openjdk-* /usr/lib/jvm/*17* \
    "$(readlink -f "$(command -v java)" | sed 's|/bin/java$||')" /usr/lib/jvm/*; do
    if [ -x "$home/bin/java" ] &&
      [[ $("$home/bin/java" -version 2>&1) =~ 'version "'(1[7-9]|[2-9][0-9])($|[^0-9]) ]]; then
      # shellcheck disable=SC2034 # It is for the script that asked.
      jre=$home
      return 0
    fi
  done
  return 1
}

install_packages() {
  have apt-get || die "please install: ${missing_packages[*]} (this machine has no apt-get)"
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    have sudo || die "please install: ${missing_packages[*]} (you are not root and there is no sudo)"
    as_root=(sudo)
  fi
  local log
  log=$(mktemp)
  if ! "${as_root[@]}" apt-get update -qq >"$log" 2>&1 ||
    ! name_packages ||
    ! say "Installing ${missing_packages[*]} ..." ||
    ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
      apt-get install -y -qq --no-install-recommends "${missing_packages[@]}" >>"$log" 2>&1; then
    tail -n 20 "$log" >&2
    rm -f "$log"
    die "could not install ${missing_packages[*]}"
  fi
  rm -f "$log"
  if [[ " ${missing_packages[*]} " == *' etcd-server '* ]]; then
    leave_etcd_stopped "${as_root[@]}"
  fi
}

# The package starts an etcd, now and with every start of the machine; tests start their own.
leave_etcd_stopped() {
  "$@" service etcd stop >/dev/null 2>&1 || true
  "$@" update-rc.d etcd disable >/dev/null 2>&1 || true
}

# Replaces what the releases of Debian and Ubuntu name differently by what this one has.
name_packages() {
  local package known=()
  for package in "${missing_packages[@]}"; do
    case $package in
      openjdk-17-*) known+=("$(java_package "${package#openjdk-17}")") ;;
      # Older releases have no such package: there docker.io brings the client.
      docker-cli) ! is_packaged docker-cli || known+=(docker-cli) ;;
      *) known+=("$package") ;;
    esac
  done
  missing_packages=("${known[@]}")
}

# The package openjdk-RELEASE$1 of the preferred release that can be installed here.
java_package() {
  local release
  for release in "${java_releases[@]}"; do
    if is_packaged "openjdk-$release$1"; then
      echo "openjdk-$release$1"
      return 0
    fi
  done
  # apt-get will say that there is none.
  echo "openjdk-${java_releases[0]}$1"
}

# Whether apt-get could install a package. "apt-cache show" also knows packages that are only mentioned.
# Matched only when all of its output is there: apt-cache fails if its reader ends before it does.
is_packaged() {
  local policy
  policy=$(LC_ALL=C apt-cache policy "$1") && [[ $policy == *$'\n  Candidate: '[^\(]* ]]
}

# Runs a command and says how long it took; its output is shown only if it fails.
step() {
  local what=$1 log start
  shift
  log=$(mktemp)
  start=$SECONDS
  printf '%s ... ' "$what" >&2
  if "$@" >"$log" 2>&1; then
    say "$((SECONDS - start)) s"
    rm -f "$log"
  else
    say "failed"
    grep -v 'Malformed class file' "$log" >&2
    rm -f "$log"
    return 1
  fi
}
