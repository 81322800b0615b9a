/*
 * The copies' way to the PFS (save.h): by their names, which are believed if they lead to the same file. One thread at a time saves.
 *
 * The lost node may live and be cut off, and what its flush has under way may come before these bytes or after them, and may be older:
 * so at the end they are put there once more. What it says of the file after the first time counts no more, so no program there is told
 * that newer bytes are safe.
 */
#include "copies/save.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "copies/store.h"
#include "io/identity.h"
#include "io/whole.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t n_rounds;
static uint64_t missed_ns[TB_NET_NODES_MAX]; /* since when; 0: it lives */

/* The name came from another node: it may lead nowhere but below the PFS's path. */
static bool is_below(const tb_engine *e, const char *path)
{
    const char *pfs = e->header->config.pfs.path;
    size_t n = strlen(pfs);
    return strncmp(path, pfs, n) == 0 && path[n] == '/' && !strstr(path, "/../");
}

/* Never waits, if a fifo has the name now. */
static int open_it(tb_engine *e, const struct copies_job *job)
{
    struct tb_identity id;
    struct tb_io *io = e->pfs;
    int fd = is_below(e, job->path) ? TB_IO(io, open, job->path, O_WRONLY | O_NONBLOCK | O_CLOEXEC | TB_IO_OWN, 0) : -EINVAL;
    if (fd < 0 || (tb_identity_of_fd(fd, &id) == 0 && id.inode == job->file.inode && id.birth_ns == job->file.birth_ns))
        return fd;
    TB_IO(io, close, fd);
    return -ESTALE;
}

/* Safe when it returns 0: bytes, then the file's fsync. After an error the copies stay, and a later round writes all of them again. */
static int write_all(tb_engine *e, const struct copies_job *job)
{
    int fd = open_it(e, job), rc = fd < 0 ? fd : 0;
    for (uint32_t i = 0; i < job->n && !rc; i++)
        rc = tb_io_write_all(e->pfs, fd, job->part[i].bytes, job->part[i].hi - job->part[i].lo, job->part[i].lo);
    rc = rc ? rc : TB_IO(e->pfs, fsync, fd, true);
    int closed = fd < 0 ? 0 : TB_IO(e->pfs, close, fd);
    return rc ? rc : closed;
}

static void say(const struct tb_net *net, const struct copies_job *job, int rc)
{
    const char *node = tb_net_name(net, job->node);
    if (rc)
        fprintf(stderr, "tierd: %s: what node %s, which is lost, committed is here and not on the PFS: %s\n", job->path, node,
                strerror(-rc));
    else
        fprintf(stderr, "tierd: %s: the PFS has what node %s, which is lost, committed\n", job->path, node);
}

/* One file at a time, so that a PFS that is slow keeps up the changes of one file only. An error of one does not stop the others. */
static int save_of(tb_engine *e, const struct tb_net *net, uint32_t node, bool lost)
{
    struct copies_job job;
    int rc = 0;
    pthread_mutex_lock(&lock);
    n_rounds++;
    while (copies_begin_job(node, lost, n_rounds, &job)) {
        int one = write_all(e, &job);
        say(net, &job, one);
        copies_end_job(&job, !one);
        rc = rc ? rc : one;
    }
    pthread_mutex_unlock(&lock);
    return rc || copies_of(node, lost) ? -EIO : 0;
}

void copies_look(tb_engine *e, const struct tb_net *net)
{
    uint64_t now = tb_now_ns();
    for (unsigned i = 0; i < tb_net_count(net); i++) {
        bool lives = tb_net_is_alive(net, i);
        missed_ns[i] = lives ? 0 : missed_ns[i] ? missed_ns[i] : now;
        if (!lives && now - missed_ns[i] > COPIES_SECONDS * 1000000000ull && copies_of(i, true))
            save_of(e, net, i, true);
    }
}

int copies_save(tb_engine *e, const struct tb_net *net, bool again)
{
    int rc = 0;
    for (unsigned i = 0; i < tb_net_count(net); i++) {
        bool lost = !tb_net_is_alive(net, i);
        if (again)
            copies_doubt(i);
        if (copies_of(i, lost) && save_of(e, net, i, lost))
            rc = -EIO;
    }
    return rc;
}

uint64_t copies_unsaved(const struct tb_net *net)
{
    uint64_t n = 0;
    for (unsigned i = 0; i < tb_net_count(net); i++)
        n += copies_of(i, !tb_net_is_alive(net, i));
    return n;
}
