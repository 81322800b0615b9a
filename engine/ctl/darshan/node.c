/*
 * The records of a node's processes are in the node's memory, as on one node; only the coordinating `tierctl run` sees
 * all nodes' folders, on a file system that they share. So each node's records are copied there at the end, as the files
 * that they are, and one log is made of all. Times fit since every node counts from the run's second 0, by its own date.
 */
#include "darshan/node.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/remove_tree.h"

#define PIECE (1 << 20)

void trace_is_no_rank(void)
{
    for (int i = 0; i < TB_TRACE_LAUNCHERS; i++)
        unsetenv(tb_trace_rank_variable[i]);
}

/* The run's own job, read-only; NULL. */
static const struct tb_trace_job *look_at(const char *shared)
{
    char path[PATH_MAX];
    const struct tb_trace_job *run = MAP_FAILED;
    snprintf(path, sizeof(path), "%s/job", shared);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0)
        run = mmap(NULL, sizeof(*run), PROT_READ, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    return run != MAP_FAILED && run->magic == TB_TRACE_MAGIC ? run : NULL;
}

/* The node's clocks at the run's second 0, which is in the past. */
static void set_back(struct ctl_trace *t, int64_t start_date_ns)
{
    struct timespec date;
    clock_gettime(CLOCK_REALTIME, &date);
    t->began = tb_trace_moment();
    int64_t passed = (int64_t)date.tv_sec * 1000000000 + (int64_t)date.tv_nsec - start_date_ns;
    double rate = ctl_trace_rate(t->began);
    t->job->start_ns = t->began.ns - (uint64_t)passed;
    t->job->start_ticks = rate > 0 ? t->began.ticks - (uint64_t)(int64_t)((double)passed * 1e-9 / rate) : t->began.ticks;
    t->job->seconds_a_tick = rate;
    t->job->start_date_ns = start_date_ns;
}

/* The magic number is stored last: a process that sees it sees all that was copied from the run. */
int trace_node_begin(struct ctl_trace *t, const char *shared, const char *instance)
{
    const struct tb_trace_job *run = look_at(shared);
    if (!run)
        return ctl_fail("--trace: this node does not see %s/job, which the run has made", shared);
    ctl_trace_folder(instance, t->folder, sizeof(t->folder));
    t->job = ctl_trace_make_job(t->folder);
    if (!t->job)
        return EXIT_BAD_INPUT;
    t->out = t->folder;
    memcpy(t->job->stranger, run->stranger, sizeof(run->stranger));
    memcpy(t->job->slurm_step, run->slurm_step, sizeof(run->slurm_step));
    memcpy(t->job->prefixes, run->prefixes, sizeof(run->prefixes));
    t->job->n_prefixes = run->n_prefixes;
    set_back(t, run->start_date_ns);
    t->job->magic = TB_TRACE_MAGIC;
    munmap((void *)run, sizeof(*run));
    return 0;
}

/* From one hole to the next: a process's file is 25 MiB, and most of it was never written. */
static bool copy_data(int from, int to, off_t end, char *piece)
{
    for (off_t at = 0, hole; (at = lseek(from, at, SEEK_DATA)) >= 0 && at < end; at = hole) {
        hole = lseek(from, at, SEEK_HOLE);
        for (off_t next = at; next < hole;) {
            size_t n = hole - next < PIECE ? (size_t)(hole - next) : PIECE;
            ssize_t got = pread(from, piece, n, next);
            if (got <= 0 || pwrite(to, piece, (size_t)got, next) != got)
                return false;
            next += got;
        }
    }
    return ftruncate(to, end) == 0;
}

/* Only a regular name in the folder is opened, no link; a copy that is not whole is told by the caller. */
static bool copy_file(int from_folder, int to_folder, const char *name, char *piece)
{
    struct stat st;
    int from = openat(from_folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    int to = openat(to_folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool whole = from >= 0 && to >= 0 && fstat(from, &st) == 0 && copy_data(from, to, st.st_size, piece);
    if (from >= 0)
        close(from);
    if (to >= 0)
        whole &= close(to) == 0;
    return whole;
}

/* All files of processes; the job's own is the same as the run's. */
static bool copy_all(const char *folder, const char *to)
{
    char *piece = malloc(PIECE);
    DIR *d = opendir(folder);
    int into = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool whole = piece && d && into >= 0;
    for (struct dirent *entry; whole && (entry = readdir(d));)
        if ((entry->d_name[0] == 'a' || entry->d_name[0] == 's') && entry->d_name[1] == '.')
            whole = copy_file(dirfd(d), into, entry->d_name, piece);
    if (d)
        closedir(d);
    if (into >= 0)
        close(into);
    free(piece);
    return whole;
}

/* Under a name of its own until it is whole: what did not come is then missed. */
int trace_node_end(struct ctl_trace *t, const char *shared)
{
    char host[64] = "", to[PATH_MAX], part[PATH_MAX + 8];
    gethostname(host, sizeof(host) - 1);
    int n = snprintf(to, sizeof(to), "%s/%s", shared, host);
    snprintf(part, sizeof(part), "%s/.%s", shared, host);
    bool whole = n < (int)sizeof(to) && mkdir(part, 0700) == 0 && copy_all(t->folder, part) && rename(part, to) == 0;
    int error = errno;
    munmap(t->job, sizeof(*t->job));
    tb_remove_tree(t->folder, NULL);
    return whole ? 0 : ctl_fail("--trace: what node %s recorded could not be written to %s: %s", host, to, strerror(error));
}
