/*
 * tierd: the daemon of one instance. It makes the region and the tiers, then works in the
 * background (flush, repair, samples) until SIGTERM, SIGINT, SIGHUP or SIGQUIT. At its end
 * it drains, unless another process does. It never drops what is dirty: the instance stays
 * until `tierctl stop` removes it. If `tierctl run` owns the instance and was killed, the
 * daemon removes it (owner.h).
 *
 * Without CONFIG it replaces Hermes' daemon: the configuration is that of HERMES_CONF, and
 * the instance goes when the programs that used it are gone.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/private_files.h"
#include "base/process.h"
#include "base/report.h"
#include "base/wait.h"
#include "config/check.h"
#include "instance/background.h"
#include "instance/drain.h"
#include "instance/instance.h"
#include "instance/make.h"
#include "owner.h"
#include "peers.h"
#include "region/lease.h"

#define LOOK_MS 50 /* between looks for clients, */
#define SERVED_LOOKS 200
#define RETRY_SECONDS 5 /* after a drain that failed, where no other command will try again */
#define IDLE_LOOKS 20   /* and so many without one: the next program of a script may be about to start */

struct options {
    const char *config, *fragment, *name, *mode;
    const char *peers; /* the folder in which all nodes of this start find each other, */
    unsigned n_nodes;  /* and how many they are */
    int ready;         /* descriptor that is told how the start went, -1: stderr */
    struct owner owner;
    bool foreground;
    struct peers *joined;
    bool for_hermes;   /* named by HERMES_CONF: ends with its clients, */
    bool ends_alone;   /* as a daemon without its owner does */
    char own_name[64]; /* after the configuration file, where none is given */
};

/* Only before the instance runs; 2 is the exit status of a daemon that did not start. */
static int say(const struct options *o, const char *text)
{
    dprintf(o->ready >= 0 ? o->ready : 2, "%s\n", text);
    return 2;
}

static const struct option long_options[] = {
    {"instance", required_argument, NULL, 'i'}, {"mode", required_argument, NULL, 'm'},
    {"ready", required_argument, NULL, 'r'},    {"owner", required_argument, NULL, 'o'},
    {"peers", required_argument, NULL, 'p'},    {"nodes", required_argument, NULL, 'n'},
    {"foreground", no_argument, NULL, 'f'},     {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},        {NULL, 0, NULL, 0},
};

/* The instance is found by the configuration's path; its name is for people. */
static void name_by_environment(struct options *o)
{
    o->config = getenv("HERMES_CONF");
    if (!o->config || o->name)
        return;
    const char *slash = strrchr(o->config, '/');
    snprintf(o->own_name, sizeof(o->own_name), "%.40s", slash ? slash + 1 : o->config);
    char *dot = strrchr(o->own_name, '.');
    if (dot && dot != o->own_name)
        *dot = 0;
    o->name = o->own_name;
    o->for_hermes = o->ends_alone = o->foreground = true;
}

/*
 * --ready and --owner take numbers of descriptors that the starter opened: they are not for
 * people, and so not in the usage.
 */
static int parse(int argc, char **argv, struct options *o)
{
    static const char usage[] = "usage: tierd CONFIG [FRAGMENT] -i NAME [--mode MODE] [--foreground] [--nodes N --peers FOLDER]\n"
                                "       HERMES_CONF=CONFIG tierd   (as Hermes' daemon: ends with the programs that used it)";
    *o = (struct options){.ready = -1};
    owner_begin(&o->owner, -1);
    for (int c; (c = getopt_long(argc, argv, "i:h", long_options, NULL)) != -1;)
        switch (c) {
        case 'i': o->name = optarg; break;
        case 'm': o->mode = optarg; break;
        case 'r': o->ready = atoi(optarg); break;
        case 'o': owner_begin(&o->owner, atoi(optarg)); break;
        case 'f': o->foreground = true; break;
        case 'p': o->peers = optarg; break;
        case 'n': o->n_nodes = (unsigned)strtoul(optarg, NULL, 10); break;
        case 'h': puts(usage); exit(0);
        case 'V': puts("tierd " TB_VERSION " (" TB_COMMIT ")"); exit(0);
        default: return say(o, usage);
        }
    if (optind < argc)
        o->config = argv[optind++];
    if (optind < argc)
        o->fragment = argv[optind++];
    if (!o->config)
        name_by_environment(o);
    return o->config && o->name && optind == argc ? 0 : say(o, usage);
}

/* The check of the paths comes last: it needs the size of the region. */
static int read_config(const struct options *o, struct tb_config *c, struct tb_error *err)
{
    struct tb_layout layout;
    int rc = tb_config_read_for_instance(o->config, o->fragment, o->mode, c, err);
    if (!rc)
        rc = tb_layout_compute(c, &layout, err);
    return rc ? rc : tb_config_check_paths(c, layout.total_bytes, err);
}

/* One line a second at most; the first call only notes the time. */
static void show(void *arg, const char *what, uint64_t done, uint64_t total)
{
    time_t *last = arg, now = time(NULL);
    if (now > *last && *last)
        fprintf(stderr, "tierd: %s: %llu of %llu MiB\n", what, (unsigned long long)done >> 20, (unsigned long long)total >> 20);
    *last = now;
}

#define LOG_NAME_MAX 96

/* The directory of this user's logs, and the name of this one in it. -errno where there is none. Only an absolute path counts (XDG). */
static int log_place(const char *name, char file[LOG_NAME_MAX])
{
    char path[PATH_MAX];
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    snprintf(path, sizeof(path), "%s/tierbench.%u", runtime && *runtime == '/' ? runtime : "/tmp", (unsigned)getuid());
    mkdir(path, 0700);
    snprintf(file, LOG_NAME_MAX, "tierd.%.64s.log", name);
    return tb_private_directory(path);
}

/* From here on messages go to a file that only this user can read. */
static void open_log(const char *name)
{
    char file[LOG_NAME_MAX];
    int directory = log_place(name, file), null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int log = directory < 0 ? -1 : tb_private_file(directory, file, O_WRONLY | O_CREAT | O_TRUNC);
    if (directory >= 0)
        close(directory);
    if (null >= 0) {
        dup2(null, 0);
        dup2(null, 1);
    }
    if (log >= 0 || null >= 0)
        dup2(log >= 0 ? log : null, 2);
}

/* A log that says nothing is not left; the name may be of another file by now. */
static void remove_empty_log(const char *name)
{
    char file[LOG_NAME_MAX];
    struct stat log, there;
    int directory = log_place(name, file);
    if (directory < 0)
        return;
    if (fstat(STDERR_FILENO, &log) == 0 && S_ISREG(log.st_mode) && !log.st_size &&
        fstatat(directory, file, &there, AT_SYMLINK_NOFOLLOW) == 0 && there.st_dev == log.st_dev && there.st_ino == log.st_ino)
        unlinkat(directory, file, 0);
    close(directory);
}

/* What ends the daemon.  One that is ignored from the start (nohup) stays ignored. */
static sigset_t ending_signals(void)
{
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGHUP);
    sigaddset(&ends, SIGQUIT);
    return ends;
}

/*
 * An owner that is gone without `keep` cannot remove its instance: the daemon does, after the
 * clients.
 */
static void hear_owner(struct options *o, tb_engine *e)
{
    owner_hear(&o->owner);
    if (!o->owner.gone)
        return;
    o->ends_alone = true;
    tb_instance_end_with_clients(e);
}

/* Until a signal comes, or no program is left that uses the instance. */
static void wait_for_end(struct options *o, tb_engine *e)
{
    sigset_t ends = ending_signals();
    struct pollfd look[] = {{.fd = signalfd(-1, &ends, SFD_CLOEXEC), .events = POLLIN}, {.events = POLLIN}};
    for (int idle = 0; idle < IDLE_LOOKS;) {
        look[1].fd = o->owner.fd;
        int n = poll(look, 2, o->ends_alone ? LOOK_MS : -1);
        if (n > 0 && look[0].revents)
            break;
        if (n > 0 && look[1].revents)
            hear_owner(o, e);
        idle = o->ends_alone && !owner_has_program(&o->owner) && tb_instance_is_idle(e) ? idle + 1 : 0;
    }
    close(look[0].fd);
}

/* Where `why` is empty, `error` (-errno) says what kept the file from the PFS. */
static void report_failure(void *arg, const struct tb_file_report *r)
{
    (void)arg;
    fprintf(stderr, "tierd: %s: %s%s\n", r->path, r->why[0] ? "" : "not flushed: ", r->why[0] ? r->why : strerror(-r->error));
}

static _Atomic bool is_ending;

/* At the end: after 1, 2, 4, 8 ... seconds of a wait for another process. */
static void say_wait(void *arg, int pid, double seconds, bool in_vain)
{
    unsigned whole = (unsigned)seconds;
    char who[256];
    (void)arg;
    (void)in_vain;
    if (!is_ending || whole & (whole - 1))
        return;
    tb_wait_describe(pid, who, sizeof(who));
    fprintf(stderr, "tierd: has waited %u s for %s\n", whole, who);
}

struct ending {
    const struct options *o;
    tb_engine *e;
};

/* The main thread, which would else wait as long as a client is stopped.  To be killed is sound at any point: others go on. */
static void give_up(void *arg, int pid, double seconds, bool in_vain)
{
    const struct ending *ending = arg;
    char who[256];
    (void)seconds;
    if (!in_vain || ending->o->owner.gone)
        return;
    tb_wait_describe(pid, who, sizeof(who));
    fprintf(stderr, "tierd: instance %s stays: its end waits for %s\n", ending->o->name, who);
    tb_instance_give_up(ending->e);
    _exit(3);
}

static int stop_background(const struct options *o, tb_engine *e)
{
    int rc = tb_background_stop(e);
    if (rc)
        fprintf(stderr, "tierd: instance %s stays: the background work waits for a process that is stopped\n", o->name);
    return rc;
}

/* True where the instance is gone.  What could not be flushed keeps it. */
static bool drain_and_end(struct options *o, const struct tb_config *c, tb_engine *e, int *rc)
{
    bool ends = o->ends_alone && tb_instance_retire(e, true) == 0; /* else another process is ending it */
    *rc = tb_instance_drain(e, (int)c->flush.threads, NULL, report_failure, NULL);
    int stuck = stop_background(o, e);
    *rc = *rc ? *rc : stuck;
    int saved = peers_save_copies(o->joined); /* also where this node's own bytes stay */
    *rc = *rc ? *rc : saved;
    *rc = *rc ? *rc : peers_end(o->joined);
    o->joined = *rc ? o->joined : NULL;
    if (!*rc && ends)
        return tb_instance_destroy(e), true;
    if (ends) {
        tb_instance_retire(e, false);
        fprintf(stderr, "tierd: instance %s stays, for not all of it is on the PFS; try again with: tierctl stop -i %s\n", o->name,
                o->name);
    }
    return false;
}

/* What this node has in others' memory ends with its daemon, unlike what is in its own tiers: so the daemon goes on trying. */
static bool would_lose(const struct options *o, tb_engine *e)
{
    uint64_t bytes = peers_bring_home(e, o->joined);
    if (bytes)
        fprintf(stderr,
                "tierd: %llu bytes are only in other nodes' memory, and would be lost with this daemon: it drains again, until a signal\n",
                (unsigned long long)bytes);
    uint64_t copies = peers_unsaved(o->joined);
    if (copies)
        fprintf(stderr,
                "tierd: %llu bytes that lost nodes committed are only here, and would be lost with this daemon: it tries again, until a "
                "signal\n",
                (unsigned long long)copies);
    return bytes || copies;
}

/* A second signal. */
static bool is_to_end_now(void *arg)
{
    const struct timespec now = {0, 0};
    return sigtimedwait(arg, NULL, &now) >= 0;
}

/*
 * Without an owner no command will try the drain again: the daemon does it itself, until a signal comes.  The background
 * work ends while it drains: both may wait for a client that is stopped.
 */
static int end(struct options *o, const struct tb_config *c, tb_engine *e)
{
    const struct timespec pause = {RETRY_SECONDS, 0};
    sigset_t ends = ending_signals();
    struct ending ending = {o, e};
    bool gone;
    int rc;
    is_ending = true;
    tb_wait_listen_here(give_up, &ending);
    tb_background_end(e);
    while (!(gone = drain_and_end(o, c, e, &rc)) && rc && (o->owner.gone || would_lose(o, e)) && sigtimedwait(&ends, NULL, &pause) < 0)
        ;
    if (!gone && rc)
        peers_stay(o->joined, is_to_end_now, &ends);
    if (!gone && rc == -ETIMEDOUT)
        tb_instance_give_up(e);
    if (!gone)
        tb_engine_detach(e);
    return rc ? 3 : 0;
}

static bool is_listed(const char *name, struct tb_instance_info *out)
{
    struct tb_instance_info *all;
    bool found = false;
    for (int i = 0, n = tb_instance_list(&all); i < n && !found; i++)
        if ((found = strcmp(all[i].name, name) == 0))
            *out = all[i];
    free(all);
    return found;
}

/*
 * Another daemon of the same job serves this node already, with the same configuration. If
 * its programs are gone it is of an earlier job, and is waited for; so is one that is half
 * made. A dead one stays as it is; but a daemon that is just ending looks dead before its
 * instance is gone.
 */
static bool is_served(const struct options *o, const struct tb_config *c)
{
    struct tb_instance_info other;
    char path[TB_REGION_PATH_MAX];
    tb_region_path(o->name, path, sizeof(path));
    for (int look = 0, dead = 0;
         look < SERVED_LOOKS && dead < IDLE_LOOKS && (access(path, F_OK) == 0 || tb_instance_is_used(c, o->name) > 0); look++) {
        bool listed = is_listed(o->name, &other);
        if (listed && strcmp(other.config_file, c->file) != 0)
            return false;
        if (listed && other.daemon_alive && !other.ends)
            return true;
        dead = listed && !other.daemon_alive ? dead + 1 : 0;
        nanosleep(&(struct timespec){0, LOOK_MS * 1000000l}, NULL);
    }
    return false;
}

/* Directories of that name are there, and no region: what they hold may be nowhere else. */
static void say_left(const struct options *o, const struct tb_config *c, struct tb_error *err)
{
    char recovers[TB_PATH_MAX + 64];
    tb_instance_recovery(c, o->name, recovers, sizeof(recovers));
    if (tb_instance_is_used(c, o->name) == -EPERM)
        snprintf(err->text, sizeof(err->text), "another user made the directories of instance %s in its tiers: name another with -i",
                 o->name);
    else if (tb_instance_is_used(c, o->name) > 0)
        snprintf(err->text, sizeof(err->text),
                 "instance %s is already there, in another mount namespace or just being made: name another with -i", o->name);
    else
        snprintf(err->text, sizeof(err->text),
                 "instance %s left directories in its tiers that may hold what is not on the PFS: name another "
                 "with -i, or recover it: %.800s",
                 o->name, recovers);
}

/* 0; 1: another daemon serves this node, which Hermes' jobs start several times; below 0: `err` says why not. */
static int create(const struct options *o, struct tb_config *c, tb_engine **e, struct tb_error *err)
{
    time_t last = 0;
    int rc = tb_instance_create(c, o->name, tb_io_libc(), show, &last, e, err);
    if ((rc == -EEXIST || rc == -ENOTEMPTY) && o->for_hermes) {
        if (is_served(o, c))
            return fprintf(stderr, "tierd: instance %s serves this node already\n", o->name), 1;
        rc = tb_instance_create(c, o->name, tb_io_libc(), show, &last, e, err);
    }
    if (rc == -EEXIST)
        snprintf(err->text, sizeof(err->text), "instance %s is already there: name another with -i, or: tierctl stop -i %s", o->name,
                 o->name);
    if (rc == -ENOTEMPTY)
        say_left(o, c, err);
    return rc;
}

/* If the background work cannot be started, what was made is removed again. */
static int start_work(tb_engine *e, struct tb_error *err)
{
    int rc = tb_instance_become_daemon(e);
    tb_wait_listen(say_wait, NULL);
    if (!rc)
        rc = tb_background_start(e);
    if (rc) {
        tb_instance_destroy(e);
        snprintf(err->text, sizeof(err->text), "cannot start the background work: %s", strerror(-rc));
    }
    return rc;
}

/* The log is opened before the starter is told that the instance runs: what comes after goes there. */
static void announce(const struct options *o, const struct tb_config *c)
{
    if (!o->foreground)
        open_log(o->name);
    else if (o->for_hermes)
        fprintf(stderr, "tierd: instance %s serves %s; programs use it with HERMES_CONF\n", o->name, c->file);
    if (o->ready >= 0) {
        dprintf(o->ready, "ready\n");
        close(o->ready);
    }
}

/*
 * As long as this process lives, `tierctl gc` and `recover` leave the folder (engine/ctl/nodes/folder.h): the descriptor stays
 * open to the end. A folder that has no lease (no locks there, or made by hand) is used without. What else is wrong with the
 * folder is said by those who read it.
 */
static int hold_folder(const char *path, struct tb_error *err)
{
    int folder = tb_private_directory(path);
    int lease = folder < 0 ? -ENOENT : tb_private_file(folder, TB_LEASE_FILE, O_RDWR);
    if (folder >= 0)
        close(folder);
    int rc = lease < 0 ? lease : tb_lease_share(lease);
    if (rc == -ENOENT || rc == -ENOLCK)
        return 0;
    if (!rc && !tb_file_is_linked(lease))
        rc = -EBUSY;
    if (rc)
        snprintf(err->text, sizeof(err->text), "%.700s/" TB_LEASE_FILE ": %s", path,
                 rc == -EBUSY ? "the folder is just being removed" : strerror(-rc));
    return rc;
}

/* A node that believes itself alone would read old bytes: without the number of nodes there is no start. */
static int join_nodes(struct options *o, const struct tb_config *c, tb_engine *e, struct tb_error *err)
{
    if (c->several_nodes != TB_NODES_SHARED)
        return 0;
    if (!o->peers || !o->n_nodes) {
        snprintf(err->text, sizeof(err->text), "%.900s: nodes: shared needs the number of nodes: start it with tierctl run --per-node",
                 c->file);
        return -EINVAL;
    }
    int rc = hold_folder(o->peers, err);
    return rc ? rc : peers_begin(e, o->peers, o->n_nodes, &o->joined, err);
}

/* Of a node that could not join nothing is left: nothing was written yet. */
static int start(struct options *o, const struct tb_config *c, tb_engine *e, struct tb_error *err)
{
    int rc = start_work(e, err);
    if (rc || !(rc = join_nodes(o, c, e, err)))
        return rc;
    tb_background_stop(e);
    tb_instance_destroy(e);
    return rc;
}

static int serve(struct options *o, struct tb_config *c)
{
    tb_engine *e;
    struct tb_error err = {""};
    int rc = create(o, c, &e, &err);
    if (rc > 0)
        return 0;
    if (rc || start(o, c, e, &err))
        return say(o, err.text);
    announce(o, c);
    wait_for_end(o, e);
    rc = end(o, c, e);
    if (!o->foreground)
        remove_empty_log(o->name);
    return rc;
}

/* Exit status: 0 after a good end, 2 where the daemon never ran, 3 where not all could be drained. */
int main(int argc, char **argv)
{
    struct options o;
    struct tb_error err = {""};
    struct tb_config *c = calloc(1, sizeof(*c));
    sigset_t ends = ending_signals(); /* blocked before any thread starts: only the main thread waits for them */
    int rc = parse(argc, argv, &o);
    if (rc || !c)
        return 2;
    sigprocmask(SIG_BLOCK, &ends, NULL);
    tb_process_writes_any_size();
    umask(umask(0) & 077); /* all that is made here is the user's alone, who must be able to use and to remove it */
    rc = read_config(&o, c, &err);
    if (rc)
        rc = say(&o, err.text);
    else
        rc = serve(&o, c);
    free(c);
    return rc;
}
