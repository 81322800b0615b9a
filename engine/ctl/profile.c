/*
 * profile: measure the places of a configuration as they are, whatever models it
 * names, and write a device file for each, which `profile:` (for predictions) or
 * `model:` of a configuration reads.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/private_files.h"
#include "borrowed.h"
#include "commands.h"
#include "common/ctl.h"
#include "common/measure.h"
#include "config/check.h"
#include "text/sizes.h"

#define SECONDS 10.0 /* a place, unless told otherwise */

struct options {
    const char *config, *output;
    double seconds;
};

/* The time is for each place. An hour is a limit against typing errors. */
static int take(void *into, char key, const char *value)
{
    struct options *o = into;
    char *end;
    if (key == 'o') {
        o->output = value;
        return 0;
    }
    o->seconds = strtod(value, &end);
    if (*end || !(o->seconds > 0 && o->seconds <= 3600))
        return ctl_fail("profile: --seconds: %s: allowed is a number of seconds above 0, up to 3600", value);
    return 0;
}

/* Without -o the folder is named after the configuration, in the working directory. */
static int parse(const struct ctl_command *self, int argc, char **argv, struct options *o)
{
    *o = (struct options){.seconds = SECONDS};
    int rc = ctl_parse(self, argc, argv, take, o);
    o->config = argv[optind];
    return rc || o->config ? rc : ctl_misused(self, "needs a configuration");
}

struct place {
    const char *name, *key, *path;     /* path NULL: memory, */
    const struct measure_calls *calls; /* or, where these are there, other nodes' */
};

/* For people. */
static const char *where(const struct place *p)
{
    return p->calls ? "other nodes' memory" : p->path ? p->path : "memory";
}

static volatile bool stopped;
static volatile sig_atomic_t stopped_by;

/* In a signal handler: it only notes the signal; the number becomes the exit status, 128 + N. */
static void stop(int sig)
{
    stopped_by = sig;
    stopped = true;
}

/* One that the caller ignores (nohup) stays ignored. */
static void stop_by(int sig)
{
    struct sigaction before, act = {.sa_handler = stop};
    if (sigaction(sig, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(sig, &act, NULL);
}

struct progress {
    const char *name;
    double since;
};

/* A place takes seconds: from the first on, progress is said. */
static void tick(void *arg, int step, int steps)
{
    struct progress *p = arg;
    char what[128];
    snprintf(what, sizeof(what), "measuring %.64s", p->name);
    ctl_progress(&p->since, what, (uint64_t)step, (uint64_t)steps);
}

/* Rates in MiB/s by threads and size; the median, in microseconds, is of one operation of 4 KiB. */
static void print_table(FILE *out, const char *lead, const char *what, const struct measure_cell cell[MEASURE_SIZES][MEASURE_THREADS])
{
    fprintf(out, "%s%-8s threads", lead, what);
    for (int s = 0; s < MEASURE_SIZES; s++)
        fprintf(out, "%6zu KiB", measure_size(s) / 1024);
    fprintf(out, "   median of 4 KiB\n");
    for (int t = 0; t < MEASURE_THREADS; t++) {
        fprintf(out, "%s%-8s %7d", lead, "MiB/s", measure_threads(t));
        for (int s = 0; s < MEASURE_SIZES; s++)
            fprintf(out, "%10.1f", cell[s][t].rate / TB_MIB);
        fprintf(out, "%15.2f us\n", cell[0][t].median * 1e6);
    }
}

static void print_tables(FILE *out, const char *lead, const struct measure *m)
{
    print_table(out, lead, "write", m->write);
    print_table(out, lead, "read", m->read);
}

/*
 * The tables go into comments: a reader of the device file sees later what the numbers were
 * fitted to.
 */
static void write_device(FILE *out, const struct place *p, const struct measure *m, const char *config, double seconds)
{
    struct tb_device d;
    struct utsname machine;
    char date[32];
    time_t now = time(NULL);
    measure_fit(m, &d);
    uname(&machine);
    strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
    fprintf(out, "# Measured by tierctl profile on %s (%s %s, %ld CPUs), %s.\n# %s of %s: %s; %g seconds; %s.\n", machine.nodename,
            machine.sysname, machine.release, sysconf(_SC_NPROCESSORS_ONLN), date, p->key, config, where(p), seconds, m->how);
    print_tables(out, "# ", m);
    fprintf(out, "name: \"%s\"\nsource: measured by tierctl profile (%s)\n", p->name, m->how);
    fprintf(out, "read_bandwidth: %.4fMiB/s\nwrite_bandwidth: %.4fMiB/s\n", d.read_bandwidth / TB_MIB, d.write_bandwidth / TB_MIB);
    fprintf(out, "read_latency: %.3fus\nwrite_latency: %.3fus\n", d.read_latency * 1e6, d.write_latency * 1e6);
    fprintf(out, "sync_time: %.3fus\nopen_time: %.3fus\nmetadata_time: %.3fus\nchannels: %u\n", d.sync_time * 1e6, d.open_time * 1e6,
            d.metadata_time * 1e6, d.channels);
}

/*
 * To a name of its own first, and read back as a configuration would: a file that is refused
 * later is of no use.
 */
static int save(const struct place *p, const struct measure *m, const struct tb_config *c, const struct options *o)
{
    char path[PATH_MAX + 64], part[PATH_MAX + 96];
    struct tb_device device;
    struct tb_error err = {""};
    snprintf(path, sizeof(path), "%.4000s/%.40s.yaml", o->output, p->name);
    FILE *out = tb_part_open(path, part, sizeof(part));
    if (!out)
        return ctl_fail("profile: %s: cannot write: %s", path, strerror(errno));
    write_device(out, p, m, c->file, o->seconds);
    if (fclose(out) || rename(part, path))
        return ctl_fail("profile: %s: cannot write: %s", path, strerror(errno));
    if (tb_device_read(path, &device, &err)) /* what cannot be read back is of no use */
        return ctl_fail("profile: %s", err.text);
    printf("%s: %s (%s), in %s\n", p->name, where(p), m->how, path);
    print_tables(stdout, "  ", m);
    printf("  read %.1f MiB/s, %.2f us; write %.1f MiB/s, %.2f us; sync %.2f us; create %.2f us; other metadata %.2f us; channels %u\n\n",
           device.read_bandwidth / TB_MIB, device.read_latency * 1e6, device.write_bandwidth / TB_MIB, device.write_latency * 1e6,
           device.sync_time * 1e6, device.open_time * 1e6, device.metadata_time * 1e6, device.channels);
    fflush(stdout);
    return 0;
}

/* A signal ends everything: the files of the places before this one stay. */
static int profile_place(const struct place *p, const struct tb_config *c, const struct options *o)
{
    struct measure m;
    struct progress progress = {p->name, 0};
    fprintf(stderr, "tierctl: measuring %s (%s)\n", p->name, where(p));
    int rc = p->calls ? measure_by_calls(p->calls, o->seconds, &stopped, tick, &progress, &m)
                      : measure_place(p->path, o->seconds, &stopped, tick, &progress, &m);
    if (rc == -EINTR)
        return 128 + stopped_by;
    return rc ? ctl_fail("%s: %s: %s: cannot measure: %s", c->file, p->key, where(p), strerror(-rc)) : save(p, &m, c, o);
}

/* Before anything is measured: minutes of work are not lost to a wrong -o. */
static int make_folder(const struct options *o)
{
    struct stat st;
    if ((mkdir(o->output, 0777) && errno != EEXIST) || access(o->output, W_OK | X_OK) || stat(o->output, &st))
        return ctl_fail("profile: -o %s: %s; allowed: a directory that may be written, or a new one", o->output, strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return ctl_fail("profile: -o %s: is no directory; allowed: a directory that may be written, or a new one", o->output);
    return 0;
}

/* A node alone has no other nodes' memory: that tier is measured in a run. */
static int profile_all(const struct tb_config *c, const struct options *o)
{
    char key[32];
    int rc = 0;
    for (uint32_t t = 0; t < c->n_tiers && !rc; t++) {
        const struct tb_config_tier *tier = &c->tiers[t];
        snprintf(key, sizeof(key), "tiers[%u]", t);
        if (tier->medium != TB_MEDIUM_REMOTE)
            rc = profile_place(&(struct place){.name = tier->name, .key = key, .path = tier->path[0] ? tier->path : NULL}, c, o);
    }
    rc = rc ? rc : profile_place(&(struct place){.name = "pfs", .key = "pfs", .path = c->pfs.path}, c, o);
    if (!rc && tb_config_remote_tier(c) < c->n_tiers)
        fprintf(stderr,
                "tierctl: %s is other nodes' memory, and is measured in a run: tierctl run -c %s --per-node LAUNCH -- tierctl profile %s "
                "-o %s\n",
                c->tiers[tb_config_remote_tier(c)].name, o->config, o->config, o->output);
    return rc;
}

/* As a program of a run: the other places are a program's there, and not what they are. */
static int profile_remote(const struct tb_config *c, const struct options *o, const char *instance)
{
    uint32_t t = tb_config_remote_tier(c);
    struct measure_calls calls;
    char key[32];
    int rc = ctl_borrow_begin(instance, c->tiers[t].name, &calls);
    if (rc)
        return rc;
    snprintf(key, sizeof(key), "tiers[%u]", t);
    rc = profile_place(&(struct place){.name = c->tiers[t].name, .key = key, .calls = &calls}, c, o);
    ctl_borrow_end(&calls);
    return rc;
}

/* A signal stops the measuring between two steps, so that what was made is removed. */
static int profile(const struct tb_config *c, const struct options *o)
{
    const char *instance = getenv("TIERBENCH_INSTANCE");
    bool in_run = instance && *instance && tb_config_remote_tier(c) < c->n_tiers;
    stop_by(SIGINT);
    stop_by(SIGTERM);
    stop_by(SIGHUP);
    int rc = make_folder(o);
    return rc ? rc : in_run ? profile_remote(c, o, instance) : profile_all(c, o);
}

/* The paths are checked without room for a region (0 bytes), since none is made. */
int tb_profile_command(const struct ctl_command *self, int argc, char **argv)
{
    struct options o;
    struct tb_error err = {""};
    char output[PATH_MAX], name[64];
    int rc = parse(self, argc, argv, &o);
    struct tb_config *c = rc ? NULL : calloc(1, sizeof(*c));
    if (!c)
        return rc ? rc : ctl_fail("no memory");
    rc = tb_config_read(o.config, c, &err);
    if (!rc)
        rc = tb_config_check_paths(c, 0, &err);
    if (rc)
        return free(c), ctl_fail("%s", err.text[0] ? err.text : strerror(-rc));
    ctl_default_name(o.config, name, sizeof(name));
    snprintf(output, sizeof(output), "%s.profile", name);
    if (!o.output)
        o.output = output;
    rc = profile(c, &o);
    free(c);
    return rc;
}
