#!/bin/sh
# Runs a command as a user of a root folder, which has its own processes, devices and mounts.
#   unshare --mount --pid --fork --kill-child sh enter.sh ROOT UID HOME GRACE COMMAND [HOST_FOLDER FOLDER]...
# HOST_FOLDER appears at FOLDER. Processes that are still running GRACE seconds after the command are listed, and make
# it fail.
set -e
root=$1 user=$2 home=$3 grace=$4 command=$5
shift 5
path=$PATH
PATH=/usr/sbin:/usr/bin:/sbin:/bin

mount --make-rprivate /
mount --bind "$root" "$root"
cd "$root"
mount -t proc proc proc
mount --rbind /sys sys
mount -t tmpfs -o mode=755 tmpfs dev
for device in null zero full random urandom tty; do
  : >"dev/$device"
  mount --bind "/dev/$device" "dev/$device"
done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts dev/pts
mount -t tmpfs -o mode=1777 tmpfs dev/shm
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
ln -s fd/0 dev/stdin
ln -s fd/1 dev/stdout
ln -s fd/2 dev/stderr
while [ $# -gt 0 ]; do
  mkdir -p "./$2"
  mount --bind "$1" "./$2"
  shift 2
done
# Uses pivot_root rather than chroot, because the kernel allows no new user namespaces below a chroot.
mkdir -p .host
pivot_root . .host
umount -l .host
rmdir .host

# CI or a special terminal may have set these variables. On a person's machine they are not set.
unset CI CONTINUOUS_INTEGRATION
cd "$home/flashcore"
status=0
PATH=$path setpriv --reuid "$user" --regid "$user" --clear-groups sh -c "$command" || status=$?

# Uses only shell builtins, because it would also list a program that it starts.
list() {
  left=
  for process in /proc/[0-9]*; do
    name= state=
    while read -r key value rest; do
      case $key in Name:) name=$value ;; State:) state=$value ;; esac
    done 2>/dev/null <"$process/status" || continue
    case $process:$state in /proc/1:* | *:Z | *:) ;; *) left="$left ${process#/proc/}:$name" ;; esac
  done
}
list
while [ -n "$left" ] && [ "$grace" -gt 0 ]; do
  sleep 1
  grace=$((grace - 1))
  list
done
if [ -n "$left" ]; then
  echo "left running:$left"
  [ "$status" -ne 0 ] || status=98
fi
# The first line is the shell's own time. `times` is not in a pipe, because there it would run in a subshell without
# children.
times >/dev/shm/times
{ read -r own && read -r cpu; } </dev/shm/times
echo "processor time, user and system: $cpu"
exit "$status"
