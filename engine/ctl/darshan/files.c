/*
 * The files that a job's processes left, and which rank of the log each is. A rank of MPI
 * keeps its number, and so do the processes it makes. All others are numbered after the
 * ranks in order of their start, if they moved bytes or touched a file of ours. In an MPI
 * job, where launchers do I/O of their own, only the latter count. On the storage side the
 * daemon and tierctl are among them.
 */
#include "darshan/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trace/records.h"
#include "trace/settle.h"

/* What a killed process left is believed as far as it makes sense. */
static bool makes_sense(const struct tb_trace_file *f, enum tb_trace_side side)
{
    for (int m = 0; m < TB_TRACE_MODULES; m++)
        if (f->n[m] > TB_TRACE_FILES)
            return false;
    return f->magic == TB_TRACE_MAGIC && f->bytes == sizeof(*f) && f->side == side && f->names_used <= TB_TRACE_NAMES &&
           f->segments_used <= TB_TRACE_SEGMENTS && !isnan(f->start) && f->rank >= -1 && (f->rank < 0 || f->rank < f->ranks) &&
           memchr(f->command, 0, sizeof(f->command)) && memchr(f->host, 0, sizeof(f->host));
}

/* Values are counted at their places: all must lead to one place, and one place stays free. */
static bool is_countable(const struct tb_trace_common *c)
{
    uint32_t taken = 0;
    for (size_t i = 0; i < sizeof(c->place); i++) {
        if (c->place[i] > TB_TRACE_COMMON) /* one more than `n` is right: a kill in between leaves it */
            return false;
        taken += c->place[i] != 0;
    }
    return c->n <= TB_TRACE_COMMON && taken <= TB_TRACE_COMMON;
}

/* What the process had not counted yet.  Sizes and strides that make no sense are begun again. */
static void settle(struct tb_trace_file *f, struct tb_trace_posix *p)
{
    if (!is_countable(&p->sizes))
        memset(&p->sizes, 0, sizeof(p->sizes));
    if (!is_countable(&p->strides))
        memset(&p->strides, 0, sizeof(p->strides));
    tb_trace_settle(f, p);
}

/* A copy on write: a process may still run. */
static const struct tb_trace_file *map_file(const char *path, enum tb_trace_side side)
{
    struct tb_trace_file *f = MAP_FAILED;
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size == (off_t)sizeof(*f))
        f = mmap(NULL, sizeof(*f), PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    if (fd >= 0)
        close(fd);
    if (f == MAP_FAILED)
        return NULL;
    if (makes_sense(f, side)) {
        for (uint32_t i = 0; i < f->n[TB_TRACE_POSIX]; i++)
            settle(f, &f->posix[i]);
        return f;
    }
    munmap(f, sizeof(*f));
    return NULL;
}

/* By name: a path under one of the prefixes, or the prefix itself; /pfs2 is not under /pfs. */
bool trace_is_ours(const struct ctl_trace *t, const char *name)
{
    for (uint32_t i = 0; i < t->job->n_prefixes; i++) {
        size_t n = strlen(t->job->prefixes[i]);
        if (strncmp(name, t->job->prefixes[i], n) == 0 && (name[n] == '/' || name[n] == 0))
            return true;
    }
    return false;
}

/* A killed process may leave a place of a name that is out of range: such a slot is not looked at. */
bool trace_touched_ours(const struct ctl_trace *t, const struct tb_trace_file *f)
{
    for (uint32_t i = 0; i < f->n[TB_TRACE_POSIX]; i++)
        if (f->posix[i].slot.active && f->posix[i].slot.name < TB_TRACE_NAMES && trace_is_ours(t, f->names + f->posix[i].slot.name))
            return true;
    for (uint32_t i = 0; i < f->n[TB_TRACE_STDIO]; i++)
        if (f->stdio[i].slot.active && f->stdio[i].slot.name < TB_TRACE_NAMES && trace_is_ours(t, f->names + f->stdio[i].slot.name))
            return true;
    return false;
}

/* Calls count, not bytes: a read at the end of a file is one too. */
static bool moved_bytes(const struct tb_trace_file *f)
{
    for (uint32_t i = 0; i < f->n[TB_TRACE_POSIX]; i++)
        if (f->posix[i].record.counters[POSIX_READS] || f->posix[i].record.counters[POSIX_WRITES])
            return true;
    for (uint32_t i = 0; i < f->n[TB_TRACE_STDIO]; i++)
        if (f->stdio[i].record.counters[STDIO_READS] || f->stdio[i].record.counters[STDIO_WRITES])
            return true;
    return f->n[TB_TRACE_MPIIO] > 0;
}

/* A process that says on one side that it ended well has ended on both: `_exit` passes the engine by. */
static bool ended(const char *folder, const struct tb_trace_file *f)
{
    char path[PATH_MAX + 64];
    bool found = false, well = true;
    if (f->state == TB_TRACE_ENDED || f->side == TB_TRACE_APPLICATION)
        return f->state == TB_TRACE_ENDED;
    for (int n = 0; n < 10000; n++) {
        snprintf(path, sizeof(path), "%s/a.%d.%d", folder, f->pid, n);
        const struct tb_trace_file *other = map_file(path, TB_TRACE_APPLICATION);
        if (!other)
            break;
        found = true;
        well &= other->state == TB_TRACE_ENDED;
        munmap((void *)other, sizeof(*other));
    }
    return found && well;
}

static bool add(const char *folder, struct job *job, const struct tb_trace_file *f)
{
    struct process *all = realloc(job->process, (job->n + 1) * sizeof(*all));
    if (!all)
        return false;
    job->process = all;
    all[job->n++] = (struct process){.file = f, .rank = f->rank, .is_mpi = f->rank >= 0, .complete = ended(folder, f)};
    if (f->rank >= 0 && f->ranks > job->ranks)
        job->ranks = f->ranks;
    return true;
}

/* Ranks first, then by start. */
static int by_rank(const void *a, const void *b)
{
    const struct process *x = a, *y = b;
    if (x->is_mpi != y->is_mpi)
        return x->is_mpi ? -1 : 1;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return x->file->start < y->file->start ? -1 : x->file->start > y->file->start;
}

/* A process that is left out cannot make the job incomplete. */
static void number(const struct ctl_trace *t, struct job *job, enum tb_trace_side side)
{
    int64_t next = job->ranks, seen = 0, last = -1;
    if (job->n)
        qsort(job->process, job->n, sizeof(job->process[0]), by_rank);
    for (size_t i = 0; i < job->n; i++) {
        struct process *p = &job->process[i];
        if (p->is_mpi) {
            seen += p->rank != last;
            last = p->rank;
        } else {
            bool beside = job->ranks && side == TB_TRACE_APPLICATION;
            p->left_out = !trace_touched_ours(t, p->file) && (beside || !moved_bytes(p->file));
            p->rank = p->left_out ? -1 : next++;
        }
        job->incomplete |= !p->left_out && !p->complete;
    }
    job->incomplete |= side == TB_TRACE_APPLICATION && seen < job->ranks; /* a rank that never came as far as here */
    job->nprocs = next > 0 ? next : 1;
}

/*
 * False where the folder cannot be read or there is no memory; a file that makes no sense is
 * passed over.
 */
static bool load_folder(const char *name, enum tb_trace_side side, struct job *out)
{
    char path[PATH_MAX + 300];
    DIR *folder = opendir(name);
    bool whole = folder != NULL;
    for (struct dirent *entry; whole && (entry = readdir(folder));) {
        if (entry->d_name[0] != (side == TB_TRACE_STORAGE ? 's' : 'a') || entry->d_name[1] != '.')
            continue;
        snprintf(path, sizeof(path), "%s/%s", name, entry->d_name);
        const struct tb_trace_file *f = map_file(path, side);
        whole = !f || add(name, out, f);
    }
    if (folder)
        closedir(folder);
    return whole;
}

/* Of several nodes there is a folder each; one that begins with a dot did not come whole, and the job says so. */
static bool load_nodes(const struct ctl_trace *t, enum tb_trace_side side, struct job *out)
{
    char path[PATH_MAX + 300];
    DIR *nodes = opendir(t->folder);
    bool whole = nodes != NULL;
    for (struct dirent *entry; whole && (entry = readdir(nodes));) {
        if (entry->d_name[0] == '.' || strcmp(entry->d_name, "job") == 0 || strcmp(entry->d_name, "site") == 0)
            continue;
        snprintf(path, sizeof(path), "%s/%s", t->folder, entry->d_name);
        whole = load_folder(path, side, out);
    }
    if (nodes)
        closedir(nodes);
    return whole;
}

/* False: some file could not be read. What was loaded is kept, so trace_unload follows in any case. */
bool trace_load(const struct ctl_trace *t, enum tb_trace_side side, struct job *out)
{
    *out = (struct job){.incomplete = t->lacks_a_node};
    bool whole = t->of_nodes ? load_nodes(t, side, out) : load_folder(t->folder, side, out);
    if (whole)
        number(t, out, side);
    return whole;
}

void trace_unload(struct job *job)
{
    for (size_t i = 0; i < job->n; i++)
        munmap((void *)job->process[i].file, sizeof(*job->process[i].file));
    free(job->process);
    *job = (struct job){0};
}
