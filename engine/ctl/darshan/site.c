/*
 * The application side by the site's own Darshan. Its runtime leaves one log for each MPI
 * job, and one for each process without MPI, in folders by date: they are fetched from
 * there, except for those of processes that don't count in our own log. That of ranks (the one
 * of most processes, the largest of several) becomes OUT.darshan, others OUT.2.darshan and so
 * on. If it leaves none, or none of a process that died, ours is written, which has all
 * processes; it is loaded after the site's for that case.
 */
#include "darshan/site.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "darshan/files.h"
#include "darshan/log.h"

#define LOGS 256

/* False where the name is too long; the site's Darshan is then not told of a folder. */
static bool site_folder(const struct ctl_trace *t, char *out, size_t size)
{
    return snprintf(out, size, "%s/site", t->folder) < (int)size;
}

/* SITE/YEAR/MONTH/DAY, of today and tomorrow. */
static void make_folders(const struct ctl_trace *t, const char *site)
{
    for (int day = 0; day < 2; day++) {
        char path[PATH_MAX];
        time_t when = t->start.tv_sec + day * 86400;
        struct tm date;
        localtime_r(&when, &date);
        int part[3] = {date.tm_year + 1900, date.tm_mon + 1, date.tm_mday}, n = snprintf(path, sizeof(path), "%s", site);
        mkdir(path, 0700);
        for (int i = 0; i < 3; i++) {
            n += snprintf(path + n, sizeof(path) - (size_t)n, "/%d", part[i]);
            mkdir(path, 0700);
        }
    }
}

/* Darshan leaves these out. */
static const char *const left_out[] = {"/etc/", "/dev/",  "/usr/", "/bin/",  "/boot/", "/lib/",
                                       "/opt/", "/sbin/", "/sys/", "/proc/", "/var/"};

static bool is_in(const char *path, const char *folder)
{
    return strncmp(path, folder, strlen(folder)) == 0;
}

/* All but the folders that hold what is ours: so runtimes before 3.4 are told. */
static void exclude(const struct ctl_trace *t)
{
    char list[256] = "";
    for (size_t i = 0; i < sizeof(left_out) / sizeof(left_out[0]); i++) {
        bool ours = false;
        for (uint32_t p = 0; p < t->job->n_prefixes; p++)
            ours |= is_in(t->job->prefixes[p], left_out[i]);
        if (!ours) {
            strcat(list, *list ? "," : "");
            strcat(list, left_out[i]);
        }
    }
    setenv("DARSHAN_EXCLUDE_DIRS", list, 0);
}

/* Any character for those that a pattern, or the file that holds it, takes for something else. */
static void write_pattern(FILE *out, const char *path)
{
    fputs("NAME_INCLUDE ^", out);
    for (; *path; path++)
        fputc(isalnum((unsigned char)*path) || strchr("/_-", *path) ? *path : '.', out);
    fputs("/ *\n", out);
}

/* What is ours, in folders that are left out: so runtimes from 3.4 on are told, by a file. */
static void include(const struct ctl_trace *t, const char *site)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof(path), "%s/names", site) >= (int)sizeof(path))
        return;
    FILE *out = fopen(path, "w");
    for (uint32_t p = 0; out && p < t->job->n_prefixes; p++)
        for (size_t i = 0; i < sizeof(left_out) / sizeof(left_out[0]); i++)
            if (is_in(t->job->prefixes[p], left_out[i]))
                write_pattern(out, t->job->prefixes[p]);
    if (out && fclose(out) == 0)
        setenv("DARSHAN_CONFIG_PATH", path, 0);
}

/*
 * Told to trace programs without MPI, Darshan takes ranks for such, each with a log of its own.
 * The trace adapter takes the variable away in ranks; those with a launcher that gives no variable
 * that tells them (Slurm without PMI, inside a Slurm job) are known by the command only.
 */
static bool starts_ranks(char *const *command)
{
    static const char *const launchers[] = {"mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun", "prun", "srun", "aprun", "jsrun"};
    for (; *command; command++) {
        const char *slash = strrchr(*command, '/'), *name = slash ? slash + 1 : *command;
        for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++)
            if (strcmp(name, launchers[i]) == 0)
                return true;
    }
    return false;
}

/*
 * Most variables are set only where the user has not: what a site chose stays. The folder for
 * the logs is always ours, since that is where they are looked for.
 */
void trace_site_environment(const struct ctl_trace *t, char *const *command)
{
    char site[PATH_MAX];
    if (!site_folder(t, site, sizeof(site)))
        return;
    make_folders(t, site);
    setenv("DARSHAN_LOGPATH", site, 1);
    if (!starts_ranks(command))
        setenv("DARSHAN_ENABLE_NONMPI", "1", 0);
    setenv("DXT_ENABLE_IO_TRACE", "1", 0);
    exclude(t);
    include(t, site);
}

/* Whether the site's runtime wrote a process's log can be told by the process's number alone. */
struct found {
    char path[PATH_MAX];
    int64_t nprocs, bytes;
    double start, end; /* s since the run's start */
    int pid;           /* of rank 0 or of the only process; 0: not known */
    bool of_ranks, counts;
};

/* The job's record is the first zlib stream. */
static void read_job(const struct ctl_trace *t, struct found *f)
{
    unsigned char zipped[8192];
    struct log_job job = {0};
    FILE *log = fopen(f->path, "r");
    size_t n = log && fseek(log, 1328, SEEK_SET) == 0 ? fread(zipped, 1, sizeof(zipped), log) : 0;
    z_stream zip = {.next_in = zipped, .avail_in = (uInt)n, .next_out = (Bytef *)&job, .avail_out = sizeof(job)};
    if (log)
        fclose(log);
    if (inflateInit(&zip) != Z_OK)
        return;
    inflate(&zip, Z_SYNC_FLUSH);
    inflateEnd(&zip);
    if (zip.avail_out)
        return;
    f->nprocs = job.nprocs;
    f->start = (double)(job.start_s - t->start.tv_sec) + (double)(job.start_ns - t->start.tv_nsec) / 1e9;
    f->end = (double)(job.end_s - t->start.tv_sec) + (double)(job.end_ns - t->start.tv_nsec) / 1e9;
}

/* USER_PROGRAM_idJOB-PID_...; runtimes before 3.4 don't say the process. */
static int pid_in(const char *name)
{
    int pid = 0;
    for (const char *at = name; (at = strstr(at, "_id")); at++)
        sscanf(at, "_id%*d-%d_", &pid);
    return pid;
}

/* As our own log has it: launchers and helpers that don't count there have no log here. */
static void find_process(const struct job *job, struct found *f)
{
    f->counts = job->n == 0 || !f->pid;
    f->of_ranks = f->nprocs > 1;
    for (size_t i = 0; f->pid && i < job->n; i++)
        if (job->process[i].file->pid == f->pid) {
            f->counts |= !job->process[i].left_out;
            f->of_ranks |= job->process[i].is_mpi;
        }
}

/* At most LOGS logs and four levels of folders (year, month, day); more are not looked at. */
static void find(const struct ctl_trace *t, const char *folder, int depth, struct found *all, int *n)
{
    DIR *d = depth > 4 ? NULL : opendir(folder);
    for (struct dirent *entry; d && (entry = readdir(d));) {
        struct found *f = &all[*n];
        struct stat st;
        const char *suffix = strrchr(entry->d_name, '.');
        if (entry->d_name[0] == '.' || *n == LOGS || snprintf(f->path, sizeof(f->path), "%s/%s", folder, entry->d_name) >= PATH_MAX)
            continue;
        if (lstat(f->path, &st) == 0 && S_ISREG(st.st_mode) && suffix && strcmp(suffix, ".darshan") == 0) {
            f->bytes = st.st_size;
            f->pid = pid_in(entry->d_name);
            read_job(t, f);
            (*n)++;
        } else if (S_ISDIR(st.st_mode)) {
            char path[PATH_MAX];
            snprintf(path, sizeof(path), "%s", f->path);
            find(t, path, depth + 1, all, n);
        }
    }
    if (d)
        closedir(d);
}

/* What counts before what does not, ranks before single processes. */
static int largest_first(const void *a, const void *b)
{
    const struct found *x = a, *y = b;
    if (x->counts != y->counts)
        return x->counts ? -1 : 1;
    if (x->of_ranks != y->of_ranks)
        return x->of_ranks ? -1 : 1;
    if (x->nprocs != y->nprocs)
        return x->nprocs > y->nprocs ? -1 : 1;
    return x->bytes > y->bytes ? -1 : x->bytes < y->bytes;
}

/* Copied, not renamed: the log may be on another file system than --trace. */
static int copy(const char *from, const char *to)
{
    char bytes[65536];
    size_t n;
    FILE *in = fopen(from, "r"), *out = in ? fopen(to, "w") : NULL;
    bool bad = !out;
    while (!bad && (n = fread(bytes, 1, sizeof(bytes), in)) > 0)
        bad = fwrite(bytes, 1, n, out) != n;
    bad = bad || ferror(in);
    if (in)
        fclose(in);
    if (out && fclose(out))
        bad = true;
    return bad ? ctl_fail("--trace %s: cannot write: %s", to, strerror(errno)) : 0;
}

static int logs_of(int pid, const struct found *all, int n)
{
    int logs = 0;
    for (int i = 0; i < n; i++)
        logs += all[i].pid == pid;
    return logs;
}

/*
 * Two nodes may give two processes one number, and a log does not say of which node it is. A process that died left none, so
 * the logs of its number are first those of processes on other nodes that ended by themselves.
 */
static int others_of(const struct process *p, const struct job *job)
{
    int others = 0;
    for (size_t i = 0; i < job->n; i++) {
        const struct tb_trace_file *f = job->process[i].file;
        others += f->pid == p->file->pid && job->process[i].complete && strcmp(f->host, p->file->host) != 0;
    }
    return others;
}

/* Ranks of one job share a log, which has the number of rank 0: it is theirs if they ran while it was made. */
static bool has_log(const struct process *p, const struct job *job, const struct found *all, int n)
{
    bool rank_0_died = p->rank == 0 && !p->complete && !p->file->forked;
    if (logs_of(p->file->pid, all, n) > (p->complete ? 0 : others_of(p, job)))
        return true;
    for (int i = 0; i < n; i++) {
        const struct found *f = &all[i];
        bool meets = p->file->start <= f->end && (!p->complete || p->file->end >= f->start);
        if (p->is_mpi && f->of_ranks && meets && !rank_0_died)
            return true;
    }
    return false;
}

/*
 * A process that counts and died has no log, and neither has a rank that is no MPI program.
 * What ended by itself without a log (by a system call, say) is what the site's runtime leaves out.
 */
static const struct process *find_missing(const struct ctl_trace *t, const struct job *job, const struct found *all, int n)
{
    for (size_t i = 0; i < job->n; i++) {
        const struct process *p = &job->process[i];
        bool should = !p->left_out && (!p->complete || (p->is_mpi && trace_touched_ours(t, p->file)));
        if (should && !has_log(p, job, all, n))
            return p;
    }
    return NULL;
}

static void say_missing(const struct ctl_trace *t, const struct process *p)
{
    if (p)
        fprintf(stderr, "tierctl: trace: %s left no log of process %d (%.200s): ours of all processes follows\n", t->site_lib,
                (int)p->file->pid, p->file->command);
    else
        fprintf(stderr, "tierctl: trace: %s left no log (it has none of a run that is killed or calls MPI_Abort): ours follows\n",
                t->site_lib);
}

/* The first even if it does not count: then none does. */
static int copy_all(const struct ctl_trace *t, const struct found *all, int n)
{
    char to[PATH_MAX + 16];
    int rc = 0;
    for (int i = 0; i < n && !rc && (i == 0 || all[i].counts); i++) {
        snprintf(to, sizeof(to), "%s", t->out);
        if (i)
            snprintf(to, sizeof(to), "%.*s.%d.darshan", (int)(strlen(t->out) - strlen(".darshan")), t->out, i + 1);
        rc = copy(all[i].path, to);
        if (!rc)
            fprintf(stderr, "tierctl: trace: %s: %lld processes, by %s\n", to, (long long)all[i].nprocs, t->site_lib);
    }
    return rc;
}

bool trace_site_fetch(const struct ctl_trace *t, int *rc)
{
    char site[PATH_MAX];
    struct found *all = calloc(LOGS + 1, sizeof(*all));
    struct job job;
    int n = 0;
    if (!trace_load(t, TB_TRACE_APPLICATION, &job))
        trace_unload(&job); /* then every log counts, and none is missed */
    if (all && site_folder(t, site, sizeof(site)))
        find(t, site, 0, all, &n);
    for (int i = 0; i < n; i++)
        find_process(&job, &all[i]);
    const struct process *missing = n ? find_missing(t, &job, all, n) : NULL;
    bool whole = n && !missing;
    if (whole) {
        qsort(all, (size_t)n, sizeof(*all), largest_first);
        *rc = copy_all(t, all, n);
    } else {
        say_missing(t, missing);
    }
    trace_unload(&job);
    free(all);
    return whole;
}
