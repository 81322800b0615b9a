/*
 * The records of one process's trace: found by descriptor, stream or name, made at their
 * first use, in a mapped file that outlives the process.
 * Locked by the record; names, numbers and room have a lock of their own, which is taken
 * after it.
 */
#include "text/text.h"
#include "trace/records.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "trace/id.h"
#include "trace/settle.h"

#if !defined(MADV_POPULATE_WRITE)
#define MADV_POPULATE_WRITE 23
#endif

/* bytes; so much is promised before the program's first transfer */
#define SEGMENTS_AT_FIRST (16u << 10)

_Thread_local int tb_tracing __attribute__((tls_model("initial-exec")));

/*
 * Calls of a signal handler inside a recorded call are counted and left out: the record's
 * lock may be this thread's own. The library's own calls (above 1) are not worth a count.
 */
bool tb_trace_enter_again(struct tb_trace *t)
{
    struct tb_trace_file *f = t ? t->file : NULL;
    if (f && tb_tracing == 1)
        f->interrupted++;
    return false;
}

/*
 * A spin lock: it is held for some stores only. After a while the processor is given up,
 * in case the holder does not run.
 */
void tb_trace_wait(_Atomic uint32_t *lock)
{
    for (int i = 0; atomic_exchange_explicit(lock, 1, memory_order_acquire); i++)
        if (i >= 100)
            sched_yield();
}

/* `number` is of a record that was made: what comes from a file of a killed process is checked by its reader. */
struct tb_trace_slot *tb_trace_slot_of(struct tb_trace_file *f, enum tb_trace_module module, int number)
{
    assert(number >= 0 && number < (int)TB_TRACE_FILES);
    switch (module) {
    case TB_TRACE_POSIX: return &f->posix[number].slot;
    case TB_TRACE_STDIO: return &f->stdio[number].slot;
    default: return &f->mpiio[number].slot;
    }
}

static uint64_t *id_of(struct tb_trace_file *f, enum tb_trace_module module, int number)
{
    switch (module) {
    case TB_TRACE_POSIX: return &f->posix[number].record.id;
    case TB_TRACE_STDIO: return &f->stdio[number].record.id;
    default: return &f->mpiio[number].record.id;
    }
}

const char *tb_trace_name_of(struct tb_trace_file *f, enum tb_trace_module module, int number)
{
    return f->names + tb_trace_slot_of(f, module, number)->name;
}

/*
 * Areas of the file that grow while the process runs; each is reserved whole and allocated in
 * steps. Areas begin at pages, so that what is promised for one is not of the next.
 */
static const struct area {
    uint64_t offset, size, record;
    uint64_t step; /* bytes at once, at most: an open must not take long, and transfers must not do it often */
} areas[TB_TRACE_AREAS] = {
#define AREA(member, step)                                                                                                                \
    {offsetof(struct tb_trace_file, member), sizeof(((struct tb_trace_file *)0)->member), sizeof(((struct tb_trace_file *)0)->member[0]), \
     step}
    [TB_TRACE_POSIX] = AREA(posix, 4096),
    [TB_TRACE_STDIO] = AREA(stdio, 4096),
    [TB_TRACE_MPIIO] = AREA(mpiio, 4096),
    [TB_TRACE_AREA_NAMES] = AREA(names, 4096),
    [TB_TRACE_AREA_SEGMENTS] = AREA(segments, 256u << 10),
};

/* Pages in one go cost a fraction of a fault each.  Kernels before 5.14 can't; there the file system's promise has to do. */
static bool promise(struct tb_trace *t, uint64_t offset, uint64_t n)
{
    int saved = errno;
    bool given = madvise((char *)t->file + offset, n, MADV_POPULATE_WRITE) == 0;
    if (!given && errno == EINVAL) {
        tb_tracing++;
        int fd = open(t->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        given = fd >= 0 && posix_fallocate(fd, (off_t)offset, (off_t)n) == 0;
        if (fd >= 0)
            close(fd);
        tb_tracing--;
    }
    errno = saved;
    return given;
}

/*
 * Room is promised by the file system before it is used: a full disk must not kill the
 * program by SIGBUS. An area that was refused once stays full: asking again for each call
 * would slow the program down, and a log with holes in its middle is worth less.
 */
bool tb_trace_room(struct tb_trace *t, int area, uint64_t bytes)
{
    const struct area *a = &areas[area];
    assert(area >= 0 && area < TB_TRACE_AREAS && t->given[area] <= a->size);
    if (bytes <= t->given[area])
        return true;
    if (bytes > a->size || t->full[area])
        return false;
    uint64_t step = t->given[area] > SEGMENTS_AT_FIRST ? t->given[area] : SEGMENTS_AT_FIRST; /* twice as much each time */
    uint64_t upto = (bytes + (step < a->step ? step : a->step) + 4095) & ~UINT64_C(4095);    /* whole pages, as areas are */
    upto = upto < a->size ? upto : a->size;
    bool given = promise(t, a->offset + t->given[area], upto - t->given[area]);
    if (given)
        t->given[area] = upto;
    t->full[area] = !given;
    return given;
}

/* As Darshan has names: absolute, "//" and "/./" gone; "..", symlinks and a "/." at the end are as they were. */
static const char *clean(const char *path, char *out)
{
    size_t n = 0;
    if (path[0] == '<')
        return path; /* no file: a standard stream */
    if (path[0] != '/') {
        int saved = errno;
        const char *folder = getcwd(out, PATH_MAX);
        errno = saved;
        if (!folder)
            return NULL;
        n = strlen(out);
        if (n > 1)
            out[n++] = '/';
    }
    for (; *path; path++) {
        bool slash = *path == '/' && n && out[n - 1] == '/';
        bool dot = *path == '.' && path[1] == '/' && n && out[n - 1] == '/';
        if (slash || dot)
            continue;
        if (n + 1 >= PATH_MAX)
            return NULL;
        out[n++] = *path;
    }
    out[n] = 0;
    return out;
}

static bool begins(const char *path, const char *prefix)
{
    return strncmp(path, prefix, strlen(prefix)) == 0;
}

static bool is_ours(const struct tb_trace *t, const char *path)
{
    for (uint32_t i = 0; i < t->job->n_prefixes && i < TB_TRACE_PREFIXES; i++)
        if (strlen(t->job->prefixes[i]) > 1 && tb_path_is_under(path, t->job->prefixes[i])) /* "/" has all that is left out */
            return true;
    return false;
}

/* What Darshan leaves out, except where the job's own places are.  The storage side has only those. */
static bool is_left_out(const struct tb_trace *t, const char *path)
{
    static const char *const folders[] = {"/etc/", "/dev/",  "/usr/", "/bin/",  "/boot/", "/lib/",
                                          "/opt/", "/sbin/", "/sys/", "/proc/", "/var/"};
    bool left_out = false;
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
        left_out |= begins(path, folders[i]);
    return left_out && t->side == TB_TRACE_APPLICATION && !is_ours(t, path);
}

/* The first mount of the list that holds the path: the longest is first. -1: unknown, as Darshan writes it. */
static int64_t block_of(const struct tb_trace_job *job, const char *path)
{
    for (uint32_t i = 0; i < job->n_mounts && i < TB_TRACE_MOUNTS; i++)
        if (begins(path, job->mounts[i].path))
            return job->mounts[i].block;
    return -1;
}

/* Its place among the names, or 0 where they are full. The use is stored after the name, so a reader finds whole ones. */
static uint32_t keep_name(struct tb_trace *t, struct tb_trace_file *f, const char *name)
{
    uint32_t n = (uint32_t)strlen(name) + 1, at = f->names_used;
    if (!tb_trace_room(t, TB_TRACE_AREA_NAMES, (uint64_t)at + n)) {
        f->dropped_names++;
        return 0;
    }
    memcpy(f->names + at, name, n);
    f->names_used = at + n;
    return at;
}

static size_t size_of(enum tb_trace_module module)
{
    return areas[module].record;
}

static void set_up(struct tb_trace *t, struct tb_trace_file *f, enum tb_trace_module module, int number, const char *name)
{
    if (module != TB_TRACE_POSIX)
        return;
    f->posix[number].record.counters[POSIX_MEM_ALIGNMENT] = 8;
    f->posix[number].record.counters[POSIX_FILE_ALIGNMENT] = block_of(t->job, name);
}

/*
 * Published by the count of records, so that a reader finds whole ones. If killed before
 * that, a name is kept that no record has.
 */
static int add(struct tb_trace *t, struct tb_trace_file *f, enum tb_trace_module module, uint64_t id, const char *name)
{
    uint32_t number = f->n[module];
    assert(number <= TB_TRACE_FILES);
    if (number >= TB_TRACE_FILES || !tb_trace_room(t, module, (number + 1) * size_of(module)))
        return -1;
    uint32_t at = keep_name(t, f, name);
    if (!at)
        return -1;
    tb_trace_slot_of(f, module, (int)number)->name = at;
    *id_of(f, module, (int)number) = id;
    set_up(t, f, module, (int)number, name);
    f->n[module] = number + 1;
    return (int)number;
}

/* Its record, or the place in the index where it would be. The index has twice as many places as records, so one is free. */
static int look_up(struct tb_trace *t, struct tb_trace_file *f, enum tb_trace_module module, uint64_t id, uint32_t *at)
{
    const uint16_t *index = t->index[module];
    _Static_assert(TB_TRACE_INDEX >= 2 * TB_TRACE_FILES, "a look-up ends at a free place");
    uint32_t i = (uint32_t)id % TB_TRACE_INDEX;
    for (; index[i]; i = (i + 1) % TB_TRACE_INDEX)
        if (*id_of(f, module, index[i] - 1) == id)
            return index[i] - 1;
    *at = i;
    return -1;
}

static int find(struct tb_trace *t, struct tb_trace_file *f, enum tb_trace_module module, uint64_t id, const char *name)
{
    uint32_t at;
    int number = look_up(t, f, module, id, &at);
    if (number >= 0)
        return number;
    number = add(t, f, module, id, name);
    if (number >= 0)
        t->index[module][at] = (uint16_t)(number + 1); /* half of them stay free: there are twice as many as records */
    else
        f->dropped[module]++;
    return number;
}

int tb_trace_find_clean(struct tb_trace *t, enum tb_trace_module module, const char *name)
{
    uint64_t id = tb_trace_id(name);
    tb_trace_take(&t->lock);
    int number = find(t, t->file, module, id, name);
    tb_trace_drop(&t->lock);
    return number;
}

int tb_trace_find(struct tb_trace *t, enum tb_trace_module module, const char *path)
{
    char buf[PATH_MAX];
    const char *name = clean(path, buf);
    return name && !is_left_out(t, name) ? tb_trace_find_clean(t, module, name) : -1;
}

/* Only looks: a file that was never used gets no record. */
int tb_trace_known(struct tb_trace *t, enum tb_trace_module module, const char *path)
{
    char buf[PATH_MAX];
    const char *name = clean(path, buf);
    uint32_t at;
    if (!name)
        return -1;
    tb_trace_take(&t->lock);
    int number = look_up(t, t->file, module, tb_trace_id(name), &at);
    tb_trace_drop(&t->lock);
    return number;
}

void tb_trace_count_name(struct tb_trace *t, enum tb_trace_name_call call, const char *path, struct tb_trace_time time)
{
    struct tb_trace_name_calls *c = &t->file->name_calls[call];
    char buf[PATH_MAX];
    const char *name = clean(path, buf);
    if (!name || !is_ours(t, name))
        return;
    if (c->count++ == 0)
        c->first = time.start;
    if (time.end > c->last)
        c->last = time.end;
}

/* A store without a lock: a program that uses one number in two threads at once has no order either. */
void tb_trace_set_fd(struct tb_trace *t, int fd, int number)
{
    if ((unsigned)fd >= TB_TRACE_FDS || (number < 0 && !t->fds[fd]))
        return;
    t->fds[fd] = (uint16_t)(number + 1);
    int high = t->highest;
    while (number >= 0 && fd > high && !atomic_compare_exchange_weak(&t->highest, &high, fd))
        ;
}

/*
 * Where transfers of the child go on is where the parent was: a child's write after the
 * parent's last byte is sequential, as it is for the file.
 */
static void adopt_fd(struct tb_trace *t, struct tb_trace_file *parent, int fd)
{
    int was = tb_trace_of_fd(t, fd);
    if (was < 0)
        return;
    int now = t->file ? tb_trace_find_clean(t, TB_TRACE_POSIX, tb_trace_name_of(parent, TB_TRACE_POSIX, was)) : -1;
    tb_trace_set_fd(t, fd, now);
    if (now < 0)
        return;
    struct tb_trace_posix *p = &t->file->posix[now], *from = &parent->posix[was];
    p->offset = from->offset;
    for (int access = 0; access < 2; access++)
        p->last_byte[access] = tb_trace_last_byte(parent, from, (enum tb_trace_access)access);
}

/* The child goes on with the descriptors and streams of its parent, in its own records. */
void tb_trace_adopt(struct tb_trace *t, struct tb_trace_file *parent)
{
    memset(t->index, 0, sizeof(t->index));
    for (int fd = 0; fd <= t->highest; fd++)
        adopt_fd(t, parent, fd);
    for (uint32_t i = 0; i < TB_TRACE_STREAMS; i++) {
        struct tb_trace_stream *s = &t->streams[i];
        if (!s->stream || !s->file)
            continue;
        int was = (int)s->file - 1;
        int now = t->file ? tb_trace_find_clean(t, TB_TRACE_STDIO, tb_trace_name_of(parent, TB_TRACE_STDIO, was)) : -1;
        s->file = (uint32_t)(now + 1);
        if (now >= 0)
            t->file->stdio[now].offset = parent->stdio[was].offset;
    }
}
