/*
 * libc does the actions of posix_spawn in the child, past every wrapper, so those that have to
 * do with managed files are prepared here, when the child is about to be made, in their order.
 * A file is opened here, coherent: the engine sees that it is made, cut or refused, and the
 * child gets this descriptor. It is closed here after the spawn; the child counts as a
 * holder then. Directories are only followed, to know where a relative name begins.
 *
 * Where the child can't be given the descriptor (an action might close it first, it is to be
 * closed by the exec, a close would take record locks along) it opens the place of the file.
 *
 * Limits: what is opened here is opened although an action before it fails in the child for
 * a bad descriptor; the ids of POSIX_SPAWN_RESETIDS do not count for it.
 */
#include "wrap/spawn/plan.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/adapter.h"
#include "core/record_locks.h"
#include "wrap/spawn/actions.h"

/* The descriptor of this process that `fd` will be at action `i`; -1: none that is known. */
static int source_of(const struct tb_plan *p, size_t i, int fd)
{
    while (i-- > 0) {
        const struct tb_action *a = &p->of->list[i];
        if (a->kind == TB_ACTION_DUP && a->to == fd)
            fd = a->fd;
        else if (a->kind == TB_ACTION_OPEN && a->fd == fd)
            return p->mine[i];
        else if (a->kind == TB_ACTION_CLOSE && a->fd == fd)
            return -1;
    }
    return fd;
}

static void close_mine(int fd, struct tb_io *io)
{
    tb_fd_set(fd, NULL);
    if (io)
        TB_CALL(io, close, fd);
    else
        REAL(close)(fd);
}

/* The child finds the low numbers free that it finds outside. That of a marked file can't move: its locks would go. */
static int move_up(int fd, struct tb_io *io)
{
    int saved = errno, high = tb_locks_are_marked(fd) ? -1 : REAL(fcntl)(fd, F_DUPFD_CLOEXEC, tb_fd_own_from());
    if (high >= 0 && io)
        TB_CALL(io, dup, fd, high);
    if (high >= 0)
        close_mine(fd, io);
    errno = saved;
    return high >= 0 ? high : fd;
}

/* The program's other threads can't close it: its number is the engine's. */
static void keep(struct tb_plan *p, size_t i, int fd, struct tb_io *io)
{
    if (fd < 0)
        return;
    fd = move_up(fd, io);
    tb_fd_own(fd);
    tb_fd_set(fd, io);
    p->mine[i] = fd;
}

/* Nothing is opened by it but the place. Where it is no directory nothing is kept. */
static void keep_directory(struct tb_plan *p, size_t i, int at, const char *path)
{
    int saved = errno;
    keep(p, i, REAL(openat)(at, path, O_PATH | O_DIRECTORY | O_CLOEXEC), NULL);
    errno = saved;
}

/* The child opens it, where it really is. */
static int open_there(struct tb_plan *p, size_t i, const struct tb_action *a, int flags, unsigned use, struct tb_path *found)
{
    const char *path = a->path;
    int at = p->directory;
    if (found && !tb_path_real_of(&at, &path, use | (a->flags & O_NOFOLLOW ? TB_NAME_NOFOLLOW : 0), found))
        return errno;
    if (p->mine[i] < 0)
        keep_directory(p, i, at, path);
    return REAL(posix_spawn_file_actions_addopen)(&p->fresh, a->fd, path, flags, a->mode);
}

/* A regular file, or one that is made. Its number may be one that the child uses for something else before. */
static int open_here(struct tb_plan *p, size_t i, const struct tb_action *a, struct tb_path *found)
{
    keep(p, i, (int)TB_CALL(found->io, open, found->path, a->flags | O_CLOEXEC, a->mode), found->io);
    int fd = p->mine[i];
    if (fd < 0 || tb_fd_coherent(fd))
        return errno;
    if (fd > p->highest && !(a->flags & O_CLOEXEC) && !tb_locks_are_marked(fd))
        return REAL(posix_spawn_file_actions_adddup2)(&p->fresh, fd, a->fd);
    unsigned use = (a->flags & O_ACCMODE) == O_RDONLY ? TB_NAME_LOOK : TB_NAME_WRITE;
    return open_there(p, i, a, a->flags & ~(O_CREAT | O_EXCL | O_TRUNC), use, found);
}

/* Pipes and devices are the child's to wait for; directories, and files without buffers, are the kernel's. */
static int add_open(struct tb_plan *p, size_t i, const struct tb_action *a)
{
    struct tb_path found;
    struct stat st;
    if (!tb_path_find(p->directory, a->path, &found))
        return open_there(p, i, a, a->flags, TB_NAME_LOOK, NULL);
    int saved = errno, rc = (int)TB_CALL(found.io, stat, found.path, &st, a->flags & O_NOFOLLOW ? AT_SYMLINK_NOFOLLOW : 0);
    errno = saved;
    bool other = rc == 0 && !S_ISREG(st.st_mode);
    if (other || found.mode == TB_MODE_BYPASS || a->flags & O_PATH)
        return open_there(p, i, a, a->flags, other && S_ISDIR(st.st_mode) ? TB_NAME_ENTER : TB_NAME_LOOK, &found);
    return open_here(p, i, a, &found);
}

/* The copy is inherited, whatever becomes of the descriptor itself. */
static int add_dup(struct tb_plan *p, size_t i, const struct tb_action *a)
{
    if (tb_fd_coherent(source_of(p, i, a->fd)))
        return errno;
    return REAL(posix_spawn_file_actions_adddup2)(&p->fresh, a->fd, a->to);
}

static int add_chdir(struct tb_plan *p, size_t i, const struct tb_action *a)
{
    struct tb_path found;
    const char *path = a->path;
    int at = p->directory;
    if (!tb_path_real(&at, &path, TB_NAME_ENTER, &found))
        return errno;
    keep_directory(p, i, at, path);
    p->directory = p->mine[i]; /* -1: the child ends there */
    return REAL(posix_spawn_file_actions_addchdir_np)(&p->fresh, path);
}

static int add_fchdir(struct tb_plan *p, size_t i, const struct tb_action *a)
{
    p->directory = source_of(p, i, a->fd);
    return REAL(posix_spawn_file_actions_addfchdir_np)(&p->fresh, a->fd);
}

static int add(struct tb_plan *p, size_t i)
{
    const struct tb_action *a = &p->of->list[i];
    switch (a->kind) {
    case TB_ACTION_OPEN: return add_open(p, i, a);
    case TB_ACTION_DUP: return add_dup(p, i, a);
    case TB_ACTION_CHDIR: return add_chdir(p, i, a);
    case TB_ACTION_FCHDIR: return add_fchdir(p, i, a);
    case TB_ACTION_CLOSE: return REAL(posix_spawn_file_actions_addclose)(&p->fresh, a->fd);
    case TB_ACTION_CLOSE_FROM: return REAL(posix_spawn_file_actions_addclosefrom_np)(&p->fresh, a->fd);
    case TB_ACTION_TERMINAL: return REAL(posix_spawn_file_actions_addtcsetpgrp_np)(&p->fresh, a->fd);
    }
    return EINVAL;
}

/* An action that closes all from a number on may close any of ours. */
static int highest_of(const struct tb_actions *of)
{
    int highest = -1;
    for (size_t i = 0; i < of->n; i++) {
        const struct tb_action *a = &of->list[i];
        int fd = a->kind == TB_ACTION_CLOSE_FROM ? INT_MAX : a->to > a->fd ? a->to : a->fd;
        highest = fd > highest ? fd : highest;
    }
    return highest;
}

int tb_plan_make(struct tb_plan *p, const posix_spawn_file_actions_t *given)
{
    const struct tb_actions *of = given && !tb_inside ? tb_actions_of(given) : NULL;
    *p = (struct tb_plan){.given = given, .of = of, .directory = AT_FDCWD};
    if (!of)
        return 0;
    p->highest = highest_of(of);
    p->mine = malloc(of->n * sizeof(*p->mine));
    int rc = p->mine ? REAL(posix_spawn_file_actions_init)(&p->fresh) : ENOMEM;
    for (size_t i = 0; p->mine && i < of->n; i++)
        p->mine[i] = -1;
    for (size_t i = 0; !rc && i < of->n; i++)
        rc = add(p, i);
    if (rc)
        tb_plan_end(p);
    return rc;
}

const posix_spawn_file_actions_t *tb_plan_actions(const struct tb_plan *p)
{
    return p->of ? &p->fresh : p->given;
}

const char *tb_plan_program(const struct tb_plan *p, const char *path, char *room)
{
    struct tb_path found;
    if (p->directory == AT_FDCWD || !tb_path_find(p->directory, path, &found))
        return path;
    return strcpy(room, found.path);
}

void tb_plan_end(struct tb_plan *p)
{
    int saved = errno;
    if (!p->of)
        return;
    for (size_t i = 0; p->mine && i < p->of->n; i++)
        if (p->mine[i] >= 0) {
            tb_fd_disown(p->mine[i]);
            close_mine(p->mine[i], tb_fd_io(p->mine[i]));
        }
    if (p->mine)
        REAL(posix_spawn_file_actions_destroy)(&p->fresh);
    free(p->mine);
    errno = saved;
}
