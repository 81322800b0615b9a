/*
 * The application side by the site's own Darshan. Its runtime leaves one log for each MPI
 * job, and one for each process without MPI, in folders by date: they are fetched from
 * there. The one of most processes (the largest of several) becomes OUT.darshan, others
 * OUT.2.darshan and so on. If it leaves none, ours is written; it is loaded after the
 * site's for that case.
 */
#include "darshan/site.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "darshan/log.h"

#define LOGS 256

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

/* What Darshan leaves out, but for the folders that hold what is ours. */
static void exclude(const struct ctl_trace *t)
{
    static const char *const folders[] = {"/etc/", "/dev/",  "/usr/", "/bin/",  "/boot/", "/lib/",
                                          "/opt/", "/sbin/", "/sys/", "/proc/", "/var/"};
    char list[256] = "";
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        bool ours = false;
        for (uint32_t p = 0; p < t->job->n_prefixes; p++)
            ours |= strncmp(t->job->prefixes[p], folders[i], strlen(folders[i])) == 0;
        if (!ours) {
            strcat(list, *list ? "," : "");
            strcat(list, folders[i]);
        }
    }
    setenv("DARSHAN_EXCLUDE_DIRS", list, 0);
}

/* Told to trace programs without MPI, Darshan takes ranks for such, each with a log of its own. */
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
}

struct found {
    char path[PATH_MAX];
    int64_t nprocs, bytes;
};

/* The job's record is the first zlib stream. */
static int64_t processes_of(const char *path)
{
    unsigned char zipped[8192];
    struct log_job job = {0};
    FILE *f = fopen(path, "r");
    size_t n = f && fseek(f, 1328, SEEK_SET) == 0 ? fread(zipped, 1, sizeof(zipped), f) : 0;
    z_stream zip = {.next_in = zipped, .avail_in = (uInt)n, .next_out = (Bytef *)&job, .avail_out = sizeof(job)};
    if (f)
        fclose(f);
    if (inflateInit(&zip) != Z_OK)
        return 0;
    inflate(&zip, Z_SYNC_FLUSH);
    inflateEnd(&zip);
    return zip.avail_out == 0 ? job.nprocs : 0;
}

static void find(const char *folder, int depth, struct found *all, int *n)
{
    DIR *d = depth > 4 ? NULL : opendir(folder);
    for (struct dirent *entry; d && (entry = readdir(d));) {
        struct found *f = &all[*n];
        struct stat st;
        const char *suffix = strrchr(entry->d_name, '.');
        if (entry->d_name[0] == '.' || *n == LOGS || snprintf(f->path, sizeof(f->path), "%s/%s", folder, entry->d_name) >= PATH_MAX)
            continue;
        if (lstat(f->path, &st) == 0 && S_ISREG(st.st_mode) && suffix && strcmp(suffix, ".darshan") == 0) {
            f->nprocs = processes_of(f->path);
            f->bytes = st.st_size;
            (*n)++;
        } else if (S_ISDIR(st.st_mode)) {
            char path[PATH_MAX];
            snprintf(path, sizeof(path), "%s", f->path);
            find(path, depth + 1, all, n);
        }
    }
    if (d)
        closedir(d);
}

static int largest_first(const void *a, const void *b)
{
    const struct found *x = a, *y = b;
    if (x->nprocs != y->nprocs)
        return x->nprocs > y->nprocs ? -1 : 1;
    return x->bytes > y->bytes ? -1 : x->bytes < y->bytes;
}

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

bool trace_site_fetch(const struct ctl_trace *t, int *rc)
{
    char site[PATH_MAX], to[PATH_MAX + 16];
    struct found *all = calloc(LOGS + 1, sizeof(*all));
    int n = 0;
    if (all && site_folder(t, site, sizeof(site)))
        find(site, 0, all, &n);
    if (n == 0)
        fprintf(stderr, "tierctl: trace: %s left no log (it has none of a run that is killed or calls MPI_Abort): ours follows\n",
                t->site_lib);
    else
        qsort(all, (size_t)n, sizeof(*all), largest_first);
    for (int i = 0; i < n && !*rc; i++) {
        snprintf(to, sizeof(to), "%s", t->out);
        if (i)
            snprintf(to, sizeof(to), "%.*s.%d.darshan", (int)(strlen(t->out) - strlen(".darshan")), t->out, i + 1);
        *rc = copy(all[i].path, to);
        if (!*rc)
            fprintf(stderr, "tierctl: trace: %s: %lld processes, by %s\n", to, (long long)all[i].nprocs, t->site_lib);
    }
    free(all);
    return n > 0;
}
