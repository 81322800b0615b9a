/*
 * The lease of an instance: which processes use it, as the kernel knows.
 *
 * Problem: a region may be out of sight, or the daemon dead, and the instance still in
 * use. Its clients may live, or all of it may live in another mount namespace. A process
 * that takes it for dead and replays its journal destroys what is alive.
 *
 * Idea: every process that uses an instance holds a lock on one file of it, the lease. The
 * kernel drops the lock when the process ends, however it ends. Every process that sees
 * the file sees the lock, across mount, PID and user namespaces. The locks are of open
 * descriptions (fcntl, F_OFD_SETLK): fork shares them, and closing another descriptor does
 * not drop them.
 *
 *   byte 0  shared: uses the instance. Exclusive: recovers it, alone.
 *   byte 1  exclusive: is its daemon
 *   byte 2  exclusive: ends it (stop)
 *
 * The lease is made first of all, and removed last. It is in the directory of the
 * journal's tier; without a directory tier, in the hidden directory of deferred names;
 * without both, the region file itself is locked, for then there is nothing else.
 *
 * The text of the file is for a process that finds it: which instance, which
 * configuration, and whether anything was ever promised in it.
 *
 * Every process that uses an instance also holds byte 0 of its region file. If a tier's
 * directory was removed with the lease in it, that lock says whether a process is left
 * (recovery/recover.c).
 *
 * Limit: a file system without such locks cannot hold a lease.
 */
#ifndef TB_LEASE_H
#define TB_LEASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "region/handle.h"

enum tb_lease_state {
    TB_LEASE_MAKING, /* it was never ready: nothing was promised */
    TB_LEASE_LIVING,
    TB_LEASE_VOID, /* all of it is on the PFS, or was given up: what is left is rubbish */
};

struct tb_lease {
    enum tb_lease_state state;
    uint64_t id;            /* random: an instance that has the same name later has another one */
    uint64_t digest;        /* of the configuration */
    uint64_t pid_namespace; /* of its processes */
    enum tb_fsync fsync;    /* what an fsync promises in it */
    uint64_t region_device, region_inode;
    char boot[40]; /* of the kernel, until it starts again */
    char config[TB_PATH_MAX];
};

#define TB_LEASE_FILE "lease"
#define TB_LEASE_HIDDEN ".lease" /* among names that wait */

enum tb_lease_byte { TB_LEASE_USED, TB_LEASE_DAEMON, TB_LEASE_ENDING };

/* Fills in what this process and this boot give: id, namespace, boot. */
void tb_lease_begin(struct tb_lease *lease);

/*
 * The lease of an instance of `config`: its descriptor.  `region` is the descriptor of its region, which
 * is closed or is the lease itself.  -ENOENT there is none.
 */
int tb_lease_open(const struct tb_config *config, const char *host, const char *name, int region);
/* It is a file of its own, and has a text; false: it is the region. */
bool tb_lease_is_apart(const struct tb_config *config);
/* The directory it is in and its name there; false: it is the region. */
bool tb_lease_place(const struct tb_config *config, const char *host, const char *name, char *directory, size_t size, const char **file);

/* A new file with that record, in use by the caller: its descriptor.  -EEXIST; -ENOLCK the file system has no locks. */
int tb_lease_make(int directory, const char *file, const struct tb_lease *lease);
int tb_lease_write(int fd, const struct tb_lease *lease);
/* From here on all of it may be removed, by any process that holds it alone. */
int tb_lease_make_void(int fd);
/* A lease that is empty or not understood may be of promised bytes: it reads as `living`, and the rest is 0. */
int tb_lease_read(int fd, struct tb_lease *out);

/* Locks: 0, or -EBUSY if another process has a lock against it. None of them waits. */
int tb_lease_share(int fd);
int tb_lease_lock(int fd, enum tb_lease_byte byte);
void tb_lease_unlock(int fd, enum tb_lease_byte byte);
/* As tb_lease_lock on TB_LEASE_USED, but gives processes that were just killed a moment to be gone. */
int tb_lease_take(int fd);
bool tb_lease_is_locked(int fd, enum tb_lease_byte byte);

/* "process 12 (python3)" or several: the processes that hold the file open, as far as this one can see. */
void tb_lease_holders(int fd, char *out, size_t size);

/*
 * The namespaces of process numbers and of the times at which processes started, by which a number that is used again is told: 0
 * where /proc does not say. The second is that of the children that this process will make.
 */
uint64_t tb_pid_namespace(void);
uint64_t tb_pid_namespace_of_children(void);

#endif
