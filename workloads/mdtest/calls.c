/*
 * The system calls of items, or with -a DUMMY none: what a phase takes then is the driver's own work, MPI's, and the waits
 * that were asked for in the place of a file system. errno is that of the call.
 */
#include "tb_mdtest.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* Of DUMMY: a wait in the place of the call, of all ranks or of rank 0 alone. */
static void wait_us(const struct tb_run *r, int microseconds)
{
    if (microseconds && (!r->options->dummy.only_rank0 || r->rank == 0))
        usleep((useconds_t)microseconds);
}

/* All calls from here on: the system's, or with -a DUMMY nothing, which always succeeds. */
int tb_mkdir(const struct tb_run *r, const char *path)
{
    return r->options->dummy.chosen ? 0 : mkdir(path, 0775);
}

int tb_rmdir(const struct tb_run *r, const char *path)
{
    return r->options->dummy.chosen ? 0 : rmdir(path);
}

/* Nowhere all is there already. */
bool tb_exists(const struct tb_run *r, const char *path)
{
    return r->options->dummy.chosen || !access(path, F_OK);
}

int tb_unlink(const struct tb_run *r, const char *path)
{
    return r->options->dummy.chosen ? 0 : unlink(path);
}

int tb_mknod(const struct tb_run *r, const char *path)
{
    return r->options->dummy.chosen ? 0 : mknod(path, S_IFREG | 0400, 0);
}

int tb_stat(const struct tb_run *r, const char *path)
{
    struct stat st;
    return r->options->dummy.chosen ? 0 : stat(path, &st);
}

int tb_rename(const struct tb_run *r, const char *from, const char *to)
{
    return r->options->dummy.chosen ? 0 : rename(from, to);
}

/* Any number above -1 does: it is given to no system call. */
int tb_open(const struct tb_run *r, const char *path, int flags)
{
    if (!r->options->dummy.chosen)
        return open(path, flags | (r->options->direct ? O_DIRECT : 0), 0664);
    wait_us(r, flags & O_CREAT ? r->options->dummy.create_us : 0);
    return 0;
}

/* Errors of a close are the caller's: on network file systems they tell of lost bytes. */
int tb_close(const struct tb_run *r, int fd)
{
    if (!r->options->dummy.chosen)
        return close(fd);
    wait_us(r, r->options->dummy.close_us);
    return 0;
}

/* A transfer that writes less than all ends the run, as in mdtest. */
void tb_write(const struct tb_run *r, const struct tb_posix_file *f, int64_t bytes)
{
    if (!r->options->dummy.chosen)
        tb_posix_write(f, r->data, (size_t)bytes, 0);
    else
        wait_us(r, r->options->dummy.transfer_us);
}

void tb_read(const struct tb_run *r, const struct tb_posix_file *f, int64_t bytes)
{
    if (!r->options->dummy.chosen)
        tb_posix_read(f, r->data, (size_t)bytes, 0);
    else
        wait_us(r, r->options->dummy.transfer_us);
}

int tb_fsync(const struct tb_run *r, int fd)
{
    return r->options->dummy.chosen ? 0 : fsync(fd);
}

/* -Y */
void tb_sync(const struct tb_run *r)
{
    if (r->options->dummy.chosen)
        wait_us(r, r->options->dummy.sync_us);
    else
        sync();
}
