/*
 * The lease file and its locks: making, taking, reading, naming its holders
 * (region/lease.h). Locks are of open descriptions, so the kernel drops them when the last
 * process with the descriptor ends, however it ends.
 *
 * Its text is for people too. A reader of another version must find the state where it is:
 * what is added comes after the lines that there are.
 */
#include "region/lease.h"

#include <assert.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/private_files.h"
#include "region/directories.h"

#define TEXT_MAX (TB_PATH_MAX + 512)
#define HEAD "tierbench lease 1\nstate "
#define LOOKS 50 /* looks for the lock while killed processes are still ending: half a second */
#define LOOK_NS 10000000
#define NAMED_HOLDERS 3

/* all of one length, so that a change of state is one write in place */
static const char *const states[] = {"making", "living", "void  "};

static uint64_t inode_of(const char *path)
{
    struct stat st;
    return stat(path, &st) ? 0 : st.st_ino;
}

/* Their inodes, of half a word each, tell them from others on this node. A kernel without time namespaces has none to tell. */
static uint64_t both(const char *pid, const char *time)
{
    uint64_t numbers = inode_of(pid);
    return numbers ? inode_of(time) << 32 ^ numbers : 0;
}

/* 0: /proc is not there, and no two processes can be compared. */
uint64_t tb_pid_namespace(void)
{
    return both("/proc/self/ns/pid", "/proc/self/ns/time");
}

/* A new namespace of numbers without a process is in no file system. */
uint64_t tb_pid_namespace_of_children(void)
{
    return both("/proc/self/ns/pid_for_children", "/proc/self/ns/time_for_children");
}

/* Tells whether the node was started again since: then the region and memory tiers are gone. */
static void read_boot(char *out, size_t size)
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, out, size - 1);
    out[n < 0 ? 0 : n] = 0;
    out[strcspn(out, "\n")] = 0;
    if (fd >= 0)
        close(fd);
}

/* The id is random: two instances of one name are never taken for each other. */
void tb_lease_begin(struct tb_lease *lease)
{
    *lease = (struct tb_lease){.state = TB_LEASE_MAKING, .pid_namespace = tb_pid_namespace()};
    if (getrandom(&lease->id, sizeof(lease->id), 0) != sizeof(lease->id))
        lease->id = (uint64_t)getpid() << 32 ^ (uint64_t)time(NULL);
    read_boot(lease->boot, sizeof(lease->boot));
}

/* Never waits. -EBUSY: another process has a lock against it. -ENOLCK: the file system has no such locks. */
static int lock(int fd, int command, short type, enum tb_lease_byte byte, struct flock *out)
{
    assert((type == F_RDLCK || type == F_WRLCK || type == F_UNLCK) && byte <= TB_LEASE_ENDING);
    *out = (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    if (fcntl(fd, command, out) == 0)
        return 0;
    return errno == EAGAIN || errno == EACCES ? -EBUSY : errno == EINVAL || errno == EOPNOTSUPP || errno == ENOSYS ? -ENOLCK : -errno;
}

/* What every user of the instance does. -EBUSY: a recovery has it alone. */
int tb_lease_share(int fd)
{
    struct flock l;
    return lock(fd, F_OFD_SETLK, F_RDLCK, TB_LEASE_USED, &l);
}

/*
 * Alone: no other process has it, shared or not. Each use has a byte of its own, so the daemon, the process that ends the
 * instance and its users can be told apart.
 */
int tb_lease_lock(int fd, enum tb_lease_byte byte)
{
    struct flock l;
    return lock(fd, F_OFD_SETLK, F_WRLCK, byte, &l);
}

void tb_lease_unlock(int fd, enum tb_lease_byte byte)
{
    struct flock l;
    lock(fd, F_OFD_SETLK, F_UNLCK, byte, &l);
}

/* Tries for half a second: a process that was just killed may still hold its lock. */
int tb_lease_take(int fd)
{
    int rc = tb_lease_lock(fd, TB_LEASE_USED);
    for (int look = 0; rc == -EBUSY && look < LOOKS; look++) {
        nanosleep(&(struct timespec){0, LOOK_NS}, NULL);
        rc = tb_lease_lock(fd, TB_LEASE_USED);
    }
    return rc;
}

/* Asks without taking: the answer may be old when it is used. */
bool tb_lease_is_locked(int fd, enum tb_lease_byte byte)
{
    struct flock l;
    return lock(fd, F_OFD_GETLK, F_WRLCK, byte, &l) == 0 && l.l_type != F_UNLCK;
}

/* Written in place, with one write and one sync: the states have the same length, so nothing else moves. */
int tb_lease_write(int fd, const struct tb_lease *lease)
{
    char text[TEXT_MAX];
    assert(lease->state <= TB_LEASE_VOID && strlen(states[lease->state]) == strlen(states[0]));
    int n = snprintf(text, sizeof(text), HEAD "%s\nid %016llx\ndigest %016llx\nfsync %d\npids %llu\nregion %llu %llu\nboot %s\nconfig %s\n",
                     states[lease->state], (unsigned long long)lease->id, (unsigned long long)lease->digest, (int)lease->fsync,
                     (unsigned long long)lease->pid_namespace, (unsigned long long)lease->region_device,
                     (unsigned long long)lease->region_inode, lease->boot[0] ? lease->boot : "-", lease->config);
    ssize_t w = pwrite(fd, text, (size_t)n, 0);
    return w == n && fsync(fd) == 0 ? 0 : w < 0 || w == n ? -errno : -EIO;
}

/* What cannot be understood leaves LIVING and zeros: such a lease may be of promised bytes, so it is kept. */
static void parse(const char *text, struct tb_lease *out)
{
    unsigned long long id, digest, pids, device, inode;
    char state[8] = "";
    int config = 0, promise;
    if (sscanf(text, HEAD "%7s id %llx digest %llx fsync %d pids %llu region %llu %llu boot %39s config %n", state, &id, &digest, &promise,
               &pids, &device, &inode, out->boot, &config) != 8 ||
        !config)
        return;
    for (int s = TB_LEASE_MAKING; s <= TB_LEASE_VOID; s++)
        if (strncmp(states[s], state, strlen(state)) == 0)
            out->state = (enum tb_lease_state)s;
    out->id = id;
    out->digest = digest;
    out->fsync = (enum tb_fsync)promise;
    out->pid_namespace = pids;
    out->region_device = device;
    out->region_inode = inode;
    snprintf(out->config, sizeof(out->config), "%.*s", (int)strcspn(text + config, "\n"), text + config);
}

/* A lease that cannot be understood is no error (parse); only one that cannot be read is. */
int tb_lease_read(int fd, struct tb_lease *out)
{
    char text[TEXT_MAX];
    *out = (struct tb_lease){.state = TB_LEASE_LIVING};
    ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
    if (n < 0)
        return -errno;
    text[n] = 0;
    parse(text, out);
    return 0;
}

/*
 * From this sync on all of the instance may be removed by any process. So it comes after the
 * last promised byte is on the PFS and synced there. If killed before it, recovery finds a
 * living lease, and does again what was done.
 */
int tb_lease_make_void(int fd)
{
    struct tb_lease lease;
    int rc = tb_lease_read(fd, &lease);
    lease.state = TB_LEASE_VOID;
    return rc ? rc : tb_lease_write(fd, &lease);
}

/*
 * Locked before it is written: an empty lease that is not locked was left by a maker that
 * died. If killed before the sync of the directory, the next start sweeps it.
 */
int tb_lease_make(int directory, const char *file, const struct tb_lease *lease)
{
    int fd = tb_private_make(directory, file, 0);
    int rc = fd < 0 ? fd : tb_lease_share(fd);
    if (!rc && !tb_file_is_linked(fd))
        rc = -EBUSY; /* another start took its maker for dead in between */
    rc = rc ? rc : tb_lease_write(fd, lease);
    if (!rc && fsync(directory))
        rc = -errno;
    if (rc && fd >= 0) {
        unlinkat(directory, file, 0);
        close(fd);
    }
    return rc ? rc : fd;
}

bool tb_lease_is_apart(const struct tb_config *c)
{
    return tb_journal_tier(c) != TB_NONE || c->deferred;
}

/* False: the region file itself is the lease. */
bool tb_lease_place(const struct tb_config *c, const char *host, const char *name, char *directory, size_t size, const char **file)
{
    uint32_t t = tb_journal_tier(c);
    *file = t == TB_NONE ? TB_LEASE_HIDDEN : TB_LEASE_FILE;
    if (t != TB_NONE)
        tb_tier_directory(&c->tiers[t], host, name, directory, size);
    else if (c->deferred)
        tb_waiting_directory(c, host, name, directory, size);
    return tb_lease_is_apart(c);
}

/* `region` becomes the lease, or is closed. */
int tb_lease_open(const struct tb_config *c, const char *host, const char *name, int region)
{
    char path[TB_PATH_MAX + 256];
    const char *file;
    if (!tb_lease_place(c, host, name, path, sizeof(path), &file))
        return region;
    if (region >= 0)
        close(region);
    int directory = tb_private_directory(path);
    int fd = directory < 0 ? directory : tb_private_file(directory, file, O_RDWR);
    if (directory >= 0)
        close(directory);
    return fd;
}

/* Does the process have the file open? By device and inode, whatever name it was opened by. Other users' cannot be looked into. */
static bool holds(int pid, const struct stat *lease)
{
    char path[64];
    struct stat st;
    bool found = false;
    snprintf(path, sizeof(path), "/proc/%d/fd", pid);
    DIR *fds = opendir(path);
    for (struct dirent *d; fds && !found && (d = readdir(fds));)
        found = isdigit((unsigned char)d->d_name[0]) && fstatat(dirfd(fds), d->d_name, &st, 0) == 0 && st.st_dev == lease->st_dev &&
                st.st_ino == lease->st_ino;
    if (fds)
        closedir(fds);
    return found;
}

/* As it calls itself; "" where it has ended since. */
static void program_of(int pid, char *out, size_t size)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/comm", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, out, size - 1);
    out[n < 0 ? 0 : n] = 0;
    out[strcspn(out, "\n")] = 0;
    if (fd >= 0)
        close(fd);
}

/* For messages only: open descriptors as far as this process may see them in /proc. */
void tb_lease_holders(int fd, char *out, size_t size)
{
    struct stat lease;
    char name[32];
    int n = 0, at = 0;
    DIR *proc = fstat(fd, &lease) ? NULL : opendir("/proc");
    for (struct dirent *d; proc && (d = readdir(proc));) {
        int pid = atoi(d->d_name);
        if (pid <= 0 || pid == getpid() || !holds(pid, &lease) || n++ >= NAMED_HOLDERS)
            continue;
        program_of(pid, name, sizeof(name));
        at += snprintf(out + at, (size_t)at < size ? size - (size_t)at : 0, "%sprocess %d (%s)", at ? ", " : "", pid, name);
    }
    if (proc)
        closedir(proc);
    if (n > NAMED_HOLDERS)
        snprintf(out + at, (size_t)at < size ? size - (size_t)at : 0, " and %d more", n - NAMED_HOLDERS);
    if (!n)
        snprintf(out, size, "a process of another namespace");
}
