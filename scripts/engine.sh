#!/usr/bin/env bash
# A Docker engine for tests and benchmarks, beside one that this machine may run already.
#   scripts/engine.sh start DIR     start it, unless it runs; what the machine lacks is installed
#   scripts/engine.sh env DIR       print DOCKER_HOST=... for it
#   scripts/engine.sh restart DIR   stop the engine as its init system would, and start it again
#   scripts/engine.sh kill DIR      kill -9 the engine alone: its containers go on, until the next start
#   scripts/engine.sh copy DIR NEW  make the folder NEW of an engine that has the images of the one in DIR, which may
#                                   run, but must not get or lose images meanwhile; takes two seconds, and no space
#   scripts/engine.sh stop DIR      end it, its containers and all else that is in its network, and delete DIR
# Everything of the engine is in DIR: data, sockets and docker.log. It has a network of its own, DIR/netns, with
# nothing but loopback and Docker's bridge: "--network host" means that one (nsenter --net=DIR/netns COMMAND enters it),
# and no registry is reachable. It has the image berth-test/busybox:1. A stand-in for NVIDIA's hook appends a line to
# DIR/hook.log for each container started with --gpus: the container's id and its NVIDIA_* variables.
set -euo pipefail
caller=$PWD
cd "$(dirname "$0")/.."
. scripts/prerequisites.sh

usage() { sed -n 's/^# \{0,1\}//; 2,13p' "$0"; }

image=berth-test/busybox:1

# Sets the names of everything that belongs to the engine in the folder $1.
locate() {
  local id
  dir=$(cd "$caller" && realpath -m -- "$1")
  id=$(printf %s "$dir" | sha1sum | cut -c 1-12)
  cgroup=berth-engine-$id
  # The path of a socket has room for 107 characters, and Docker adds some. Then there is a link in DIR.
  run=$dir
  if [ ${#dir} -gt 60 ]; then
    run=/run/$cgroup
  fi
  host=unix://$run/docker.sock
}

# The processes in this engine's network whose names match a pattern. Pid files would not do: they outlive their
# process, whose number somebody else may have by now.
processes_named() {
  local process comm
  mountpoint -q "$dir/netns" || return 0
  for process in /proc/[0-9]*; do
    read -r comm 2>/dev/null <"$process/comm" || continue
    # shellcheck disable=SC2053 # It is a pattern.
    if [[ $comm == $1 && $process/ns/net -ef $dir/netns ]]; then
      echo "${process#/proc/}"
    fi
  done
}

all_processes() {
  processes_named '*'
  container_processes
}

# Waits until a process is gone, or is a zombie without threads, which may stay for long.
await_end() {
  local pid=$1 tries=0 tasks
  while [ -d "/proc/$pid" ]; do
    tasks=("/proc/$pid/task"/*)
    if [ ${#tasks[@]} -le 1 ] && grep -qs '^State:.Z' "/proc/$pid/status"; then
      return 0
    fi
    tries=$((tries + 1))
    [ $tries -le 1200 ] || die "the process $pid of the engine in $dir does not end"
    sleep 0.05
  done
}

# The control groups of the engine's containers, the inner ones first.
cgroups() {
  find /sys/fs/cgroup -maxdepth 2 -type d -name "$cgroup" -exec find {} -depth -type d \; 2>/dev/null || true
}

container_processes() {
  local folder
  while read -r folder; do
    cat "$folder/cgroup.procs" 2>/dev/null || true
  done < <(cgroups) | sort -u
}

answers() { timeout 10 docker -H "$host" version >/dev/null 2>&1; }

mount_cgroups() {
  local controller
  if [ -n "$(ls -A /sys/fs/cgroup)" ]; then
    return 0
  fi
  mount -t tmpfs -o mode=755 cgroup /sys/fs/cgroup
  while read -r controller; do
    mkdir "/sys/fs/cgroup/$controller"
    mount -t cgroup -o "$controller" cgroup "/sys/fs/cgroup/$controller" 2>/dev/null ||
      rmdir "/sys/fs/cgroup/$controller"
  done < <(awk '!/^#/ && $4 == 1 { print $1 }' /proc/cgroups)
  # A kernel without the old memory controller has the new one.
  if [ ! -d /sys/fs/cgroup/memory ]; then
    umount /sys/fs/cgroup/* 2>/dev/null || true
    umount /sys/fs/cgroup
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
  fi
}

# overlay2 where the file system can carry an overlay, else vfs.
storage_driver() {
  local probe=$dir/probe driver=vfs
  mkdir -p "$probe"/{lower,upper,work,merged}
  if mount -t overlay -o "lowerdir=$probe/lower,upperdir=$probe/upper,workdir=$probe/work" overlay "$probe/merged" \
    2>/dev/null; then
    umount "$probe/merged"
    driver=overlay2
  fi
  rm -rf "$probe"
  echo $driver
}

# What Docker makes outside of its folders; what is missing now is removed by stop.
outside=(/etc/docker/key.json /etc/docker /opt/containerd /run/containerd /run/docker)

remember_outside() {
  local path
  [ ! -e "$dir/made" ] || return 0
  for path in "${outside[@]}"; do
    [ -e "$path" ] || echo "$path"
  done >"$dir/made"
}

remove_outside() {
  local path
  [ -e "$dir/made" ] || return 0
  # Another engine that came later uses them too.
  while read -r path; do
    # Zombies have no program any more.
    [ ! -e "${path%comm}exe" ] || return 0
  done < <(grep -slx dockerd /proc/[0-9]*/comm)
  while read -r path; do
    if [ -d "$path" ]; then
      # The copy of this engine may be ending too, and do the same.
      find "$path" -depth -type d -empty -delete 2>/dev/null || true
    else
      rm -f "$path"
    fi
  done <"$dir/made"
}

write_hook() {
  mkdir -p "$dir/bin"
  cat >"$dir/bin/nvidia-container-runtime-hook" <<'HOOK'
#!/bin/sh
# Stands in for NVIDIA's hook: notes which GPUs a container was given. The container's state comes on stdin.
state=$(tr -d '\n')
bundle=$(printf %s "$state" | sed -n 's/.*"bundle" *: *"\([^"]*\)".*/\1/p')
id=$(printf %s "$state" | sed -n 's/.*"id" *: *"\([^"]*\)".*/\1/p')
variables=$(grep -o '"NVIDIA_[A-Z_]*=[^"]*"' "$bundle/config.json" | tr -d '"' | tr '\n' ' ')
printf '%s %s\n' "$id" "${variables% }" >>"${0%/bin/*}/hook.log"
exit 0
HOOK
  chmod +x "$dir/bin/nvidia-container-runtime-hook"
}

make_image() {
  local root=$dir/image applet
  if docker -H "$host" image inspect "$image" >/dev/null 2>&1; then
    return 0
  fi
  mkdir -p "$root"/{bin,etc,proc,sys,dev,root,home/user,usr/bin,var} "$root/tmp"
  chmod 1777 "$root/tmp"
  chown 1000:1000 "$root/home/user"
  cp /bin/busybox "$root/bin/busybox"
  while read -r applet; do
    [ -e "$root/bin/$applet" ] || ln -s busybox "$root/bin/$applet"
  done < <(/bin/busybox --list)
  ln -s /bin/env "$root/usr/bin/env"
  printf '%s\n' 'root:x:0:0:root:/root:/bin/sh' 'user:x:1000:1000:user:/home/user:/bin/sh' >"$root/etc/passwd"
  printf '%s\n' 'root:x:0:' 'user:x:1000:' >"$root/etc/group"
  tar -C "$root" -c . | docker -H "$host" import --change 'ENV PATH=/bin:/usr/bin' --change 'CMD ["sh"]' - "$image" \
    >/dev/null
  rm -rf "$root"
}

start() {
  local tries=0
  require docker busybox iproute2 iptables
  if [ -e "$dir" ] && [ ! -e "$dir/netns" ] && [ -n "$(ls -A "$dir")" ]; then
    die "$dir is no folder of an engine, nor is it empty"
  fi
  mkdir -p "$dir"
  exec 9<"$dir"
  flock 9
  engine=$(processes_named dockerd)
  [ -n "$engine" ] || launch
  until answers; do
    tries=$((tries + 1))
    if [ $tries -gt 600 ] || ! kill -0 "$engine" 2>/dev/null; then
      tail -n 20 "$dir/docker.log" >&2
      die "the engine in $dir did not start"
    fi
    sleep 0.1
  done
  make_image
}

# Starts dockerd, whose pid is $engine then.
launch() {
  local options
  # The first file, since it tells the folder of an engine from others.
  [ -e "$dir/netns" ] || : >"$dir/netns"
  remember_outside
  mount_cgroups
  write_hook
  if [ "$run" != "$dir" ]; then
    mkdir -p "$run"
    ln -sfn "$run/exec" "$run/docker.sock" "$dir"
  fi
  if ! mountpoint -q "$dir/netns"; then
    unshare --net="$dir/netns" ip link set lo up
  fi
  # Left by a killed engine: dockerd would take whoever has these numbers now for itself and for its containerd.
  rm -f "$dir/docker.pid"
  [ -n "$(processes_named containerd)" ] || rm -f "$run/exec/containerd/containerd.pid"
  # The machine's own settings in /etc/docker/daemon.json are not for this engine.
  [ -e "$dir/daemon.json" ] || echo '{}' >"$dir/daemon.json"
  options=(
    --config-file "$dir/daemon.json" --host "$host" --pidfile "$dir/docker.pid"
    --data-root "$dir/data" --exec-root "$run/exec" --storage-driver "$(storage_driver)"
    --cgroup-parent "/$cgroup" --exec-opt native.cgroupdriver=cgroupfs
  )
  # Docker passes its environment on to the hook, whose NVIDIA_* must be the container's alone.
  setsid nsenter --net="$dir/netns" env -i PATH="$dir/bin:$PATH" HOME=/root dockerd "${options[@]}" \
    >>"$dir/docker.log" 2>&1 </dev/null 9<&- &
  engine=$!
}

# Layers of images are never written again, also not by the containers on them, so the engines can share the files. What
# else Docker keeps stays this engine's own, but for the files that say which images there are.
copy() {
  local new driver images file layers links
  new=$(cd "$caller" && realpath -m -- "$1")
  [ -d "$dir/data/image" ] || die "$dir is no folder of an engine that has run"
  [ -z "$(ls -A "$new" 2>/dev/null)" ] || die "$new is not empty"
  mkdir -p "$new/data"
  [ "$(stat -c %d "$dir/data")" = "$(stat -c %d "$new")" ] || die "$new is in another file system than $dir"
  : >"$new/netns"
  # Whichever of the two is stopped last removes it.
  cp "$dir/made" "$new/made"
  for images in "$dir"/data/image/*; do
    driver=${images##*/}
    mkdir -p "$new/data/image/$driver/layerdb"
    cp -a "$images"/{imagedb,distribution,repositories.json} "$new/data/image/$driver"
    cp -a "$images/layerdb/sha256" "$new/data/image/$driver/layerdb"
    layers=() links=()
    for file in "$images"/layerdb/sha256/*/cache-id; do
      case $driver in
        vfs) layers+=("dir/$(cat "$file")") ;;
        *)
          layers+=("$(cat "$file")")
          links+=("l/$(cat "$dir/data/$driver/${layers[-1]}/link")")
          ;;
      esac
    done
    mkdir "$new/data/$driver"
    # Docker mounts its folder onto itself, and no link leads out of a mount. It is unmounted only in here.
    # shellcheck disable=SC2016 # The inner shell expands it.
    unshare --mount sh -ec '
      for folder in "$1/$2" "$1"; do
        ! mountpoint -q "$folder" || umount -l "$folder"
      done
      cd "$1/$2"
      shift 2
      cp -al --parents "$@"' sh "$dir/data" "$driver" "${layers[@]}" "${links[@]}" "$new/data/$driver"
  done
}

# Sends the engine a signal, and waits for its end.
signal_engine() {
  engine=$(processes_named dockerd)
  if [ -n "$engine" ]; then
    kill "-$1" "$engine"
    await_end "$engine"
  fi
}

# The shims of all engines have their sockets in one folder, and a killed shim leaves its own there. The kernel lists a
# socket in the network of its process for as long as it lives.
remove_dead_sockets() {
  local living socket
  living=$(stat -L -c '%i %n' /proc/[0-9]*/ns/net 2>/dev/null | sort -u -k 1,1 | sed 's|.* \(.*\)/ns/net|\1/net/unix|' |
    xargs -r cat 2>/dev/null || true)
  for socket in /run/containerd/s/*; do
    if [[ $socket -nt $dir/daemon.json && $living != *"$socket"* ]]; then
      rm -f "$socket"
    fi
  done
}

# Only SIGKILL, so that it is the same whatever happened before.
stop() {
  local pids pid path tries=0
  if [ ! -e "$dir" ]; then
    return 0
  fi
  if [ ! -e "$dir/netns" ]; then
    rmdir "$dir" 2>/dev/null || die "$dir is no folder of an engine"
    return 0
  fi
  exec 9<"$dir"
  flock 9
  while pids=$(all_processes) && [ -n "$pids" ]; do
    tries=$((tries + 1))
    [ $tries -le 200 ] || die "these processes of the engine in $dir cannot be killed: ${pids//$'\n'/ }"
    # shellcheck disable=SC2086 # One word for each process.
    kill -9 $pids 2>/dev/null || true
    for pid in $pids; do
      await_end "$pid"
    done
  done
  remove_dead_sockets
  while read -r path; do
    path=$(printf %b "$path")
    if [[ $path == "$dir"/* || $path == "$run"/* ]]; then
      umount "$path" 2>/dev/null || umount -l "$path"
    fi
  done < <(awk '{ print $5 }' /proc/self/mountinfo | tac)
  cgroups | xargs -r rmdir
  remove_outside
  rm -rf --one-file-system "$run" "$dir"
}

case ${1:-} in
  start | stop | restart | kill | env)
    [[ $# -eq 2 && -n $2 ]] || die "$1 needs the engine's folder, and nothing else"
    ;;
  copy)
    [[ $# -eq 3 && -n $2 && -n $3 ]] || die "copy needs the engine's folder and a new one, and nothing else"
    ;;
  --help | -h)
    usage
    exit 0
    ;;
  *)
    usage >&2
    exit 2
    ;;
esac
[ "$1" = env ] || [ "$(id -u)" -eq 0 ] || die "only root can $1 an engine"
locate "$2"
case $1 in
  start) start ;;
  stop) stop ;;
  restart)
    signal_engine TERM
    start
    ;;
  kill) signal_engine KILL ;;
  copy) copy "$3" ;;
  env) echo "DOCKER_HOST=$host" ;;
esac
