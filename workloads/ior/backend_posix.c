/*
 * Transfers by system calls, and how many bytes a file holds. Every rank opens the file for
 * itself; MPI is not asked, so a shared file is shared by the file system alone.
 */
#include "tb_ior.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* As the options ask for, before a stonewall; it is no look at the file. */
int64_t tb_file_bytes(const struct tb_options *o, const struct tb_world *w)
{
    return o->file_per_process ? o->block * o->segments : tb_aggregate(o, w);
}

static const char *no_version(void)
{
    return "";
}

/* Never O_TRUNC: with -E the old bytes stay, and else the old file is gone already. */
static void posix_open(struct tb_file *f, bool create, bool shared)
{
    (void)shared;
    const struct tb_options *o = f->options;
    int flags = (create ? O_RDWR | O_CREAT : O_RDONLY) | (o->direct ? O_DIRECT : 0);
    f->posix = (struct tb_posix_file){.path = f->path,
                                      .fd = open(f->path, flags, 0664),
                                      .single_attempt = o->single_attempt,
                                      .range_locks = o->range_locks,
                                      .direct = o->direct};
    if (f->posix.fd < 0)
        tb_fail(f->path, "open", -1, strerror(errno));
}

static void posix_write(struct tb_file *f, const void *data, size_t bytes, int64_t offset)
{
    tb_posix_write(&f->posix, data, bytes, offset);
}

static void posix_read(struct tb_file *f, void *data, size_t bytes, int64_t offset)
{
    tb_posix_read(&f->posix, data, bytes, offset);
}

/* Each rank syncs its own descriptor, also of a shared file. */
static void posix_sync(struct tb_file *f)
{
    if (fsync(f->posix.fd))
        tb_fail(f->path, "fsync", -1, strerror(errno));
}

/* IOR 4.0.0 syncs twice after each write; a stand-in that did it once would be twice as fast where a sync costs. */
static void posix_sync_transfer(struct tb_file *f)
{
    posix_sync(f);
    posix_sync(f);
}

/* An error of a close ends the run: on network file systems it tells of lost bytes. */
static void posix_close(struct tb_file *f)
{
    if (close(f->posix.fd))
        tb_fail(f->path, "close", -1, strerror(errno));
}

const struct tb_backend tb_posix = {"POSIX",    no_version,          false,       posix_open, posix_write, posix_read,
                                    posix_sync, posix_sync_transfer, posix_close, false};
