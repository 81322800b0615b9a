#!/bin/busybox sh
# The guest's first process: sets up the machine and runs the job that the host left on the last disk.
# What it says to the host goes to three ports: what clients acknowledge to 3, states to 4, the files of the PFS to 5.
# The tiers' file system is at /mnt, and in it that of the PFS.
/bin/busybox --install -s /bin
export PATH=/bin HOME=/ DM_DISABLE_UDEV=1
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm
mount -t tmpfs shm /dev/shm
while read -r module; do insmod "/modules/$module"; done < /modules/order
hostname guest
exec 3>"$(echo /dev/vport*p1)" 4>"$(echo /dev/vport*p2)" 5>"$(echo /dev/vport*p3)"

say() { echo "$*" >&4; }

sectors() { blockdev --getsz "$1"; }

# slice NAME DISK FIRST LENGTH: part of a disk, in sectors, as /dev/mapper/NAME.
slice() { dmsetup create "$1" --table "0 $4 linear $2 $3" || say "wrong: no device $1"; }

# Two devices, from two disks or from the halves of one.
on_two_disks() {
    slice tiers "$1" 0 "$(sectors "$1")"
    slice pfs "$2" 0 "$(sectors "$2")"
}
on_one_disk() {
    half=$(($(sectors "$1") / 2))
    slice tiers "$1" 0 $half
    slice pfs "$1" $half $half
}

# ext4 with a journal that an I/O error aborted fails one fsync and returns 0 from the later ones, whatever is lost
# (seen on Linux 6.1): it is told to stop the machine instead, which is a power cut.
mount_all() {
    OPTIONS=rw
    [ "$FS" != ext4 ] || OPTIONS=errors=panic
    mount -t "$FS" -o "$OPTIONS" /dev/mapper/tiers /mnt || say "wrong: the tiers' $FS can't be mounted"
    mkdir -p /mnt/pfs
    mount -t "$FS" -o "$OPTIONS" /dev/mapper/pfs /mnt/pfs || say "wrong: the PFS' $FS can't be mounted"
}

unmount_all() {
    umount /mnt/pfs
    umount /mnt
    dmsetup remove tiers
    dmsetup remove pfs
}

# The folders that configurations name, empty.
clean() {
    rm -rf /mnt/pfs/data /mnt/nvme /mnt/bb
    mkdir -p /mnt/nvme /mnt/bb /mnt/pfs/data
    sync
}

# recover NAME: twice, and the second one must find nothing. Then all files of the PFS go to the host, after a mark.
recover() {
    say "recovering $1"
    for n in 1 2; do
        tierctl recover -c /job/old.yaml > /tmp/out 2>&1
        say "recover $n exit $?"
        sed "s/^/recover $n: /" /tmp/out >&4
    done
    find /mnt/nvme /mnt/bb -mindepth 1 | sed 's/^/left: /' >&4
    touch "/tmp/tree.$1"
    tar -C /tmp -cf - "tree.$1" >&5
    tar -C /mnt/pfs/data -cf - . >&5
    say "recovered $1"
}

# load SEED CLIENTS: an instance and its clients, which go on until the end of the guest.
load() {
    tierctl start -c /job/new.yaml -i power > /tmp/out 2>&1 || say "wrong: start: $(cat /tmp/out)"
    for client in $(seq 1 "$2"); do
        LD_PRELOAD=/lib/libtierbench_preload.so TIERBENCH_INSTANCE=power \
            /python -I -S /client/power_client.py /mnt/pfs/data "c$client" "$1" >&3 2>/dev/console &
    done
    say loading
    until [ "$(ls /tmp | grep -c '^begun')" = "$2" ]; do
        sleep 0.1
    done
}

# change DEVICE DISK FEATURE: from now on its writes fail (error_writes) or are lost (drop_writes); with "none" they are done.
change() {
    table="0 $(sectors "$2") flakey $2 0 0 1000 1 $3"
    [ "$3" != none ] || table="0 $(sectors "$2") linear $2 0"
    dmsetup load "$1" --table "$table" && dmsetup suspend --nolockfs "$1" && dmsetup resume "$1" || say "wrong: no $3"
}

# Both devices lose all writes from one moment on, while both hold still.
drop_all() {
    dmsetup load tiers --table "0 $(sectors /dev/vda) flakey /dev/vda 0 0 1000 1 drop_writes"
    dmsetup load pfs --table "0 $(sectors /dev/vdb) flakey /dev/vdb 0 0 1000 1 drop_writes"
    echo "P drop" >&3
    dmsetup suspend --nolockfs tiers && dmsetup suspend --nolockfs pfs || say "wrong: no drop"
    echo "Q drop" >&3
    dmsetup resume tiers && dmsetup resume pfs || say "wrong: no drop"
}

# log_writes DISK LOG: what is written to /dev/loop0 goes to the disk and into a log (log_writes.py says why by a loop device).
log_writes() {
    dmsetup create log --table "0 $(sectors "$1") log-writes $1 $2" && losetup /dev/loop0 /dev/mapper/log || say "wrong: no log"
}

# Marks in the log of writes, each between two lines for the checker.
mark_log() {
    n=0
    while true; do
        n=$((n + 1))
        echo "P $n" >&3
        dmsetup message log 0 mark $n
        echo "Q $n" >&3
        sleep 0.1
    done
}

# The job may come later: a machine that was saved here goes on with other disks, and must not believe what it has read.
job="/dev/$(ls /sys/block | grep '^vd' | tail -1)"
say "waiting for a job"
until tar -xf "$job" -C /job 2>/dev/null && [ -f /job/job.sh ]; do
    sleep 0.1
    blockdev --flushbufs "$job"
done
for disk in /dev/vd*; do
    blockdev --flushbufs "$disk"
done
. /job/job.sh
sync
say end
poweroff -f
