#!/bin/busybox sh
# A guest's first process: a node with a kernel, a /dev/shm and a disk of its own. The kernel hands over $node (its name), $address (on
# the network of the nodes) and $place (the folder that all nodes see, at the path that it has on the host). A real sshd runs what it is told.
/bin/busybox --install -s /bin
export PATH=/bin HOME=/root
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm /dev/pts "$place"
mount -t tmpfs shm /dev/shm
mount -t devpts pts /dev/pts
while read -r module; do insmod "/modules/$module"; done < /modules/order
hostname "$node"
ip link set lo up
ip addr add 10.0.2.15/24 dev eth0 # of qemu's own network, which leads to the host
ip addr add "$address/24" dev eth1
ip link set eth0 up
ip link set eth1 up
mount -t virtiofs shared "$place" && mount -t ext4 -o errors=panic /dev/vda "$place/nvme" || echo "wrong: no file systems"
echo "up: $node"
/bin/dropbear -F -E -s -r /root/host_key -p 22
poweroff -f
