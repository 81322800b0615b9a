/*
 * The folder of a trace, and what it tells the processes: the clock, the mounts, what is
 * always recorded. It is made before the first process of the run starts, because each of them
 * looks for it once, at its start.
 */
#include "common/ctl.h"
#include "darshan/job.h"
#include "darshan/site.h"
#include "region/lease.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <mntent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#define SUFFIX ".darshan"
#define CALIBRATION_NS 10000000u
#define LUSTRE_MAGIC 0x0BD00BD0
#define LUSTRE_BLOCK (1 << 20) /* its statfs says 4096, its stripes are larger */

/* Before anything runs: a run of hours must not find at its end that its log has no place. */
int ctl_trace_check(struct ctl_trace *t)
{
    if (!t->out)
        return 0;
    size_t n = strlen(t->out), suffix = strlen(SUFFIX);
    if (n <= suffix || strcmp(t->out + n - suffix, SUFFIX) != 0 || n + 16 > PATH_MAX)
        return ctl_fail("--trace %s: allowed: a file name that ends in %s", t->out, SUFFIX);
    if (ctl_check_output("--trace", t->out))
        return EXIT_BAD_INPUT;
    snprintf(t->storage_out, sizeof(t->storage_out), "%.*s.storage%s", (int)(n - suffix), t->out, SUFFIX);
    t->site_lib = getenv("DARSHAN_LIB");
    if (t->site_lib && !*t->site_lib)
        t->site_lib = NULL;
    if (t->site_lib && access(t->site_lib, R_OK))
        return ctl_fail("DARSHAN_LIB %s: %s; allowed: the path of a libdarshan.so, or unset", t->site_lib, strerror(errno));
    return 0;
}

/* Over what has passed since then, at least so long that the rate is right to 1e-5. */
double ctl_trace_rate(struct tb_trace_moment began)
{
    uint64_t ns = tb_now_ns() - began.ns;
    if (ns < CALIBRATION_NS)
        nanosleep(&(struct timespec){0, (long)(CALIBRATION_NS - ns)}, NULL);
    return tb_trace_seconds_a_tick(began, tb_trace_moment());
}

/* The list is Darshan's own, so that mount tables are the same. */
static bool is_left_out(const char *type)
{
    static const char *const types[] = {"tmpfs",      "proc", "sysfs", "devpts",     "binfmt_misc", "fusectl", "debugfs",
                                        "securityfs", "nfsd", "none",  "rpc_pipefs", "hugetlbfs",   "cgroup"};
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (strcmp(type, types[i]) == 0)
            return true;
    return false;
}

/* Longest first: the first mount that holds a path is the right one. */
static int by_length(const void *a, const void *b)
{
    const struct tb_trace_mount *x = a, *y = b;
    return (int)strlen(y->path) - (int)strlen(x->path);
}

/* A mount that was mounted over is listed once, by its first entry. */
static void add_mount(struct tb_trace_job *j, const struct mntent *entry)
{
    struct tb_trace_mount *m = &j->mounts[j->n_mounts];
    struct statfs st;
    for (uint32_t i = 0; i < j->n_mounts; i++)
        if (strcmp(j->mounts[i].path, entry->mnt_dir) == 0)
            return;
    if (strlen(entry->mnt_dir) >= sizeof(m->path))
        return;
    strcpy(m->path, entry->mnt_dir);
    snprintf(m->type, sizeof(m->type), "%s", entry->mnt_type);
    m->block = statfs(entry->mnt_dir, &st) ? 4096 : st.f_type == LUSTRE_MAGIC ? LUSTRE_BLOCK : (int64_t)st.f_bsize;
    j->n_mounts++;
}

/* As Darshan's runtime lists them: what holds files that stay. */
static void list_mounts(struct tb_trace_job *j)
{
    FILE *table = setmntent("/proc/self/mounts", "r");
    for (struct mntent *entry; table && j->n_mounts < TB_TRACE_MOUNTS && (entry = getmntent(table));)
        if (!is_left_out(entry->mnt_type))
            add_mount(j, entry);
    if (table)
        endmntent(table);
    qsort(j->mounts, j->n_mounts, sizeof(j->mounts[0]), by_length);
}

/* In memory, by user and instance, so that two users or two runs never share one. */
void ctl_trace_folder(const char *instance, char *out, size_t size)
{
    snprintf(out, size, "/dev/shm/tierbench.%u.%s.trace", (unsigned)getuid(), instance);
}

/* Locked until this process ends: the logs are made after the instance is gone, and a gc must leave the folder until then. */
struct tb_trace_job *ctl_trace_make_job(const char *folder)
{
    char path[PATH_MAX + 8];
    struct tb_trace_job *job = MAP_FAILED;
    snprintf(path, sizeof(path), "%s/job", folder);
    if (mkdir(folder, 0700))
        return ctl_fail("--trace: cannot make %s: %s", folder, strerror(errno)), NULL;
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0 && tb_lease_share(fd) == 0 && posix_fallocate(fd, 0, sizeof(*job)) == 0)
        job = mmap(NULL, sizeof(*job), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (job == MAP_FAILED) {
        if (fd >= 0)
            close(fd);
        unlink(path);
        rmdir(folder);
        return ctl_fail("--trace: cannot write %s", path), NULL;
    }
    list_mounts(job);
    return job;
}

/* Second 0 is now, of all clocks. */
static int begin_job(struct ctl_trace *t)
{
    const char *step = getenv("SLURM_STEP_ID");
    t->job = ctl_trace_make_job(t->folder);
    if (!t->job)
        return EXIT_BAD_INPUT;
    clock_gettime(CLOCK_REALTIME, &t->start);
    t->began = tb_trace_moment();
    t->job->start_ns = t->began.ns;
    t->job->start_ticks = t->began.ticks;
    t->job->start_date_ns = (int64_t)t->start.tv_sec * 1000000000 + (int64_t)t->start.tv_nsec;
    for (int i = 0; i < TB_TRACE_LAUNCHERS; i++)
        t->job->stranger[i] = getenv(tb_trace_rank_variable[i]) != NULL;
    snprintf(t->job->slurm_step, sizeof(t->job->slurm_step), "%s", step ? step : "");
    t->job->magic = TB_TRACE_MAGIC;
    return 0;
}

/* The variable is set last: a program that sees it finds the folder and the job's clock. */
int ctl_trace_begin(struct ctl_trace *t, const char *instance)
{
    if (!t->out)
        return 0;
    ctl_trace_folder(instance, t->folder, sizeof(t->folder));
    int rc = begin_job(t);
    if (!rc)
        setenv(TB_TRACE_VARIABLE, t->folder, 1);
    return rc;
}

/* A path that is too long, or one too many, is left out: its files are then not taken for ours. */
static void add_prefix(struct tb_trace_job *j, const char *path)
{
    if (*path && strlen(path) < TB_TRACE_PATH && j->n_prefixes < TB_TRACE_PREFIXES)
        strcpy(j->prefixes[j->n_prefixes++], path);
}

/*
 * Once the configuration is known. Calibrated here, because some time must have passed since
 * the run began.
 */
void ctl_trace_tell(struct ctl_trace *t, const struct tb_config *c)
{
    if (!t->out)
        return;
    add_prefix(t->job, c->pfs.path);
    for (uint32_t i = 0; i < c->n_prefixes; i++)
        add_prefix(t->job, c->prefixes[i].prefix);
    t->job->seconds_a_tick = ctl_trace_rate(t->began);
}

/*
 * The folder is beside the log, where all nodes see it. The name that the processes are given is the same on each node,
 * and leads to the node's own.
 */
int ctl_trace_begin_nodes(struct ctl_trace *t, const char *instance, const struct tb_config *c)
{
    char own[128];
    if (!t->out)
        return 0;
    t->of_nodes = true;
    if (snprintf(t->folder, sizeof(t->folder), "%s.nodes", t->out) >= PATH_MAX - 300)
        return ctl_fail("--trace %s: the name is too long", t->out);
    int rc = begin_job(t);
    if (rc)
        return rc;
    ctl_trace_tell(t, c);
    tb_trace_clock_begin(t->job);
    ctl_trace_folder(instance, own, sizeof(own));
    setenv(TB_TRACE_VARIABLE, own, 1);
    return 0;
}

/* The site's runtime comes before ours in the order of libraries. */
void ctl_trace_environment(const struct ctl_trace *t, char *const *command, char *libraries, size_t size)
{
    char library[PATH_MAX];
    libraries[0] = 0;
    if (!t->out)
        return;
    ctl_sibling("../lib/libtierbench_trace.so", library, sizeof(library));
    snprintf(libraries, size, "%s%s%s:", t->site_lib ? t->site_lib : "", t->site_lib ? ":" : "", library);
    if (t->site_lib)
        trace_site_environment(t, command);
}
