# Runs a program in a root folder that has the system's programs and libraries, the listed files in
# /client, and nothing else. The shell is in new user, mount, PID, network, IPC and UTS namespaces.
# Arguments: an empty folder; `proc` or `no-proc`; pairs of a file or folder and its name in
# /client; `--`; the program and its arguments.
set -e
root=$1
proc=$2
shift 2
mount -t tmpfs container "$root"
mkdir "$root/client" "$root/proc" "$root/outside"
for folder in /usr /bin /lib /lib64; do
    if [ -e "$folder" ]; then
        mkdir "$root$folder"
        mount --rbind "$folder" "$root$folder"
    fi
done
# Inside of another container only its own /proc may be seen.
mount -t proc proc "$root/proc" 2>/dev/null || mount --rbind /proc "$root/proc"
while [ "$1" != -- ]; do
    if [ -d "$1" ]; then mkdir "$root/client/$2"; else touch "$root/client/$2"; fi
    mount --bind "$1" "$root/client/$2"
    shift 2
done
shift
cd "$root"
pivot_root . outside
umount -l outside
# Unmounting reads /proc.
if [ "$proc" = no-proc ]; then umount -l proc; fi
# The shell stays as the process with the number 1, and the program is its child.
"$@" || exit $?
