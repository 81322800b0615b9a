/*
 * A process's part in a trace: which folder, its own file there, its rank, its
 * clock; what happens to it at fork and at the end.
 *
 * The file is as long as all it may ever hold, and mapped whole; pages that
 * nothing was written to cost nothing.  The file is not kept open: a program may
 * close every descriptor, and the next file of that number is not ours.
 *
 * Tracing never fails a program: what cannot be recorded is counted as missing, and
 * a process that cannot make its file is not traced. errno is as it was before.
 */
#include <tierbench/trace.h>

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "trace/clock.h"
#include "trace/records.h"

const char *const tb_trace_rank_variable[TB_TRACE_LAUNCHERS] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"};
const char *const tb_trace_ranks_variable[TB_TRACE_LAUNCHERS] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"};

/* By enum tb_trace_side. They live as long as the process: a call may come until its last instruction. */
static struct tb_trace sides[2];
static _Atomic int state[2]; /* 0 not tried, 1 trying, 2 recording, 3 none */
static const struct tb_trace_job *_Atomic job;

/* Mapped, or NULL. O_NOFOLLOW: the folder may be in a place where other users make links. */
static void *map_file(const char *path, int flags, size_t size, int protection)
{
    int fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
    void *at = MAP_FAILED;
    if (fd >= 0 && (!(flags & O_CREAT) || ftruncate(fd, (off_t)size) == 0))
        at = mmap(NULL, size, protection, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    return at == MAP_FAILED ? NULL : at;
}

/*
 * The job is mapped read-only: a traced program cannot damage it. Both sides share it, and
 * the clock begins with it, so the times of both are of one second 0.
 */
static bool find_job(const char *folder)
{
    char path[TB_TRACE_PATH];
    if (job)
        return true;
    if (snprintf(path, sizeof(path), "%s/job", folder) >= (int)sizeof(path))
        return false;
    struct tb_trace_job *j = map_file(path, O_RDONLY, sizeof(*j), PROT_READ);
    if (j && j->magic == TB_TRACE_MAGIC) {
        tb_trace_clock_begin(j);
        job = j;
    }
    return job != NULL;
}

/*
 * A variable that tierctl has itself is inherited, and does not tell the rank of this process. Slurm gives its variables to
 * batch scripts too; in another step they are this process's own.
 */
static bool is_inherited(int launcher)
{
    const char *step = getenv("SLURM_STEP_ID");
    return job->stranger[launcher] && (launcher != TB_TRACE_SLURM || strcmp(step ? step : "", job->slurm_step) == 0);
}

/* From the first launcher that gives a rank. -1: none does. */
static void find_rank(struct tb_trace_file *f)
{
    f->rank = -1;
    for (int i = 0; i < TB_TRACE_LAUNCHERS; i++) {
        const char *rank = getenv(tb_trace_rank_variable[i]), *ranks = getenv(tb_trace_ranks_variable[i]);
        if (!rank || !ranks || is_inherited(i))
            continue;
        long r = strtol(rank, NULL, 10), n = strtol(ranks, NULL, 10);
        if (r < 0 || r >= n || n > INT_MAX)
            continue;
        f->rank = (int)r;
        f->ranks = (int)n;
        return;
    }
}

/*
 * From /proc, since a library does not get the program's arguments. Arguments are apart by
 * NUL; the last byte stays 0, so what is longer is cut.
 */
static void find_command(struct tb_trace_file *f)
{
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, f->command, sizeof(f->command) - 1);
    if (fd >= 0)
        close(fd);
    for (ssize_t i = 0; i + 1 < n; i++)
        if (f->command[i] == 0 || f->command[i] == '\n' || f->command[i] == '\t')
            f->command[i] = ' '; /* a new line ends the command in a log */
}

/*
 * The head is allocated at once: later stores to it must not fail for lack of room, which
 * would be a SIGBUS in the program. The number at the end of the name grows: after an exec
 * the process has the same id, and its first file is kept.
 */
static struct tb_trace_file *make_file(struct tb_trace *t)
{
    struct tb_trace_file *f = NULL;
    for (int n = 0; !f && n < 10000; n++) {
        snprintf(t->path, sizeof(t->path), "%s/%c.%ld.%d", t->folder, t->side == TB_TRACE_STORAGE ? 's' : 'a', (long)getpid(), n);
        f = map_file(t->path, O_RDWR | O_CREAT | O_EXCL, sizeof(*f), PROT_READ | PROT_WRITE);
        if (!f && errno != EEXIST)
            return NULL;
    }
    int fd = f ? open(t->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW) : -1;
    bool whole = fd >= 0 && posix_fallocate(fd, 0, offsetof(struct tb_trace_file, posix)) == 0;
    if (fd >= 0)
        close(fd);
    if (f && !whole) {
        munmap(f, sizeof(*f));
        unlink(t->path);
        return NULL;
    }
    memset(t->given, 0, sizeof(t->given));
    memset(t->full, 0, sizeof(t->full));
    return f;
}

/* Room for the first file and its first transfers: a program's first call must not take longer than the next. */
static void make_room(struct tb_trace *t)
{
    tb_trace_room(t, TB_TRACE_POSIX, 1);
    tb_trace_room(t, TB_TRACE_AREA_NAMES, 1);
    tb_trace_room(t, TB_TRACE_AREA_SEGMENTS, 1);
}

/* The magic is stored last: a reader believes only complete files. If killed before, tierctl takes the file for none. */
static void begin_file(struct tb_trace *t, struct tb_trace_file *f, bool forked)
{
    f->bytes = sizeof(*f);
    f->side = t->side;
    f->pid = (int)getpid();
    f->forked = forked;
    f->start = tb_trace_now();
    f->names_used = f->segments_used = 1; /* place 0 means none */
    assert(!f->magic && t->job);
    find_rank(f);
    gethostname(f->host, sizeof(f->host) - 1);
    find_command(f);
    make_room(t);
    atomic_thread_fence(memory_order_release);
    f->magic = TB_TRACE_MAGIC;
}

/*
 * The table of descriptors is reserved whole and costs memory only where it is used. So a
 * look-up is one load, without a lock and without a question how large the table is.
 */
static bool begin(struct tb_trace *t, const char *folder)
{
    if (strlen(folder) >= sizeof(t->folder) || !find_job(folder))
        return false;
    strcpy(t->folder, folder);
    t->job = job;
    t->fds = mmap(NULL, TB_TRACE_FDS * sizeof(*t->fds), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if ((void *)t->fds == MAP_FAILED)
        return false;
    struct tb_trace_file *f = make_file(t);
    t->file = f;
    if (f)
        begin_file(t, f, false);
    return f != NULL;
}

/*
 * The child gets a file of its own: parent and child must not count in one record. Another
 * thread of the parent may have held the lock at the fork; there is one thread now. The
 * parent's mapping is let go last, because names and offsets are read from it.
 */
static void in_child(void)
{
    for (int side = 0; side < 2; side++) {
        struct tb_trace *t = &sides[side];
        struct tb_trace_file *parent = t->file;
        if (state[side] != 2 || !parent)
            continue;
        tb_tracing = 2;
        t->lock = 0;
        struct tb_trace_file *f = make_file(t);
        t->file = f;
        if (f)
            begin_file(t, f, true);
        tb_trace_adopt(t, parent);
        munmap(parent, sizeof(*parent));
        tb_tracing = 0;
    }
}

/*
 * Tried once for each side. A process without the variable is never traced, nor is a
 * set-user program, in which secure_getenv finds none. While it is tried, this thread's own
 * calls come here again and are left out.
 */
tb_trace *tb_trace_of(enum tb_trace_side side)
{
    assert(side == TB_TRACE_STORAGE || side == !TB_TRACE_STORAGE);
    int untried = 0;
    if (state[side] >= 2)
        return state[side] == 2 ? &sides[side] : NULL;
    if (!atomic_compare_exchange_strong(&state[side], &untried, 1))
        return NULL; /* another thread is at it; or we are, and this is our own file's call */
    int saved = errno;
    const char *folder = secure_getenv(TB_TRACE_VARIABLE);
    sides[side].side = side;
    tb_tracing += 2;
    bool made = folder && *folder && begin(&sides[side], folder);
    if (made && !state[!side])
        pthread_atfork(NULL, NULL, in_child);
    tb_tracing -= 2;
    errno = saved;
    state[side] = made ? 2 : 3;
    return made ? &sides[side] : NULL;
}

bool tb_trace_is_rank(const tb_trace *t)
{
    return t && t->file && t->file->rank >= 0;
}

/*
 * An aborted rank stays RUNS, so that its log says that it did not end well. exec replaces
 * the program: the file ends, and goes on if the exec fails.
 */
void tb_trace_ends(tb_trace *t, enum tb_trace_end how)
{
    struct tb_trace_file *f = t ? t->file : NULL;
    if (!f)
        return;
    bool aborted = how == TB_TRACE_QUITS && f->rank >= 0 && !f->forked;
    f->end = tb_trace_now();
    f->state = how == TB_TRACE_GOES_ON || (aborted && f->state == TB_TRACE_RUNS) ? TB_TRACE_RUNS : TB_TRACE_ENDED;
}

static __attribute__((destructor)) void at_exit(void)
{
    for (int side = 0; side < 2; side++)
        if (state[side] == 2)
            tb_trace_ends(&sides[side], TB_TRACE_EXITS);
}
