/*
 * The mover's main thread hears of files, reads what others write to the log,
 * and decides when it is finished; what is due is found in finds.h, and the streams move it (streams.h).
 */
#include "stage/mover.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "stage/asked.h"
#include "stage/finds.h"
#include "stage/items.h"
#include "stage/mover_lease.h"
#include "stage/log/ledger.h"
#include "stage/log/left.h"
#include "stage/copy/carry.h"
#include "stage/streams.h"
#include "stage/watch.h"

#define LOOK_MS 50
#define LAST_LOOK_MS 2 /* a waiter for the end waits no longer than that too long */
#define TELL_NS 1000000000ull
#define BLIND_LOOK_NS 1000000000ull
#define LOG_PATIENCE_NS 100000000ull /* doubled for each retry of a file */
#define MOST_DOUBLINGS 10

struct mover {
    const struct tb_mover_plan *plan;
    char host[65], id[100];
    struct tb_ledger ledger;
    struct tb_mover_lease lease;
    struct tb_items items;
    struct tb_carries carries;
    struct tb_streams streams;
    struct tb_finds finds;
    struct tb_watch watch;
    struct tb_asked asked;
    char answered[80];
    uint64_t told_ns; /* how far large files are */
    bool finishes;
    uint64_t finishes_ns; /* since when */
    bool has_failed;      /* a file of its own */
};

static atomic_bool stop; /* by a signal */

static void on_signal(int sig)
{
    (void)sig;
    stop = true;
}

void tb_stage_host(char *out)
{
    const char *slurm = getenv("SLURMD_NODENAME");
    if (slurm && *slurm && strlen(slurm) < 65)
        strcpy(out, slurm);
    else if (gethostname(out, 65))
        strcpy(out, "localhost");
    out[64] = '\0';
}

static void note_failed(void *arg, const struct tb_entry *e)
{
    struct mover *m = arg;
    m->has_failed = m->has_failed || (e->state == TB_ENTRY_FAILED && tb_finds_is_own(&m->finds, e));
}

/*
 * A waiting process wants to know that all files closed before the question are in the log. Through the log and not by a
 * socket: it may be on another node, and the log is the one thing that all movers and waiters have in common. There is no answer
 * while the log does not take what was found.
 */
static void answer(struct mover *m)
{
    struct tb_lines lines = {0};
    char asked[80], n_open[24];
    tb_ledger_refresh(&m->ledger);
    pthread_mutex_lock(&m->ledger.mutex);
    snprintf(asked, sizeof(asked), "%s", m->ledger.asked);
    pthread_mutex_unlock(&m->ledger.mutex);
    if (strcmp(asked, m->answered) == 0)
        return;
    tb_finds_look(&m->finds);
    snprintf(n_open, sizeof(n_open), "%lu", m->finds.n_open);
    tb_lines_fact(&lines, "answers", m->host, m->id, asked, n_open, m->finds.n_open ? m->finds.open : NULL, NULL);
    if (!m->finds.lines.n && tb_ledger_append(&m->ledger, &lines) == 0)
        strcpy(m->answered, asked);
    tb_lines_free(&lines);
}

static void write_left(struct mover *m)
{
    struct tb_left left;
    const char *path = m->plan->settings->left;
    int rc = tb_left_begin(&left, path);
    if (!rc) {
        tb_finds_count_left(&m->finds, &left);
        rc = tb_left_end(&left);
    }
    if (rc)
        fprintf(stderr, "tierctl: %s: the list of files that were not moved cannot be written: %s\n", path, strerror(-rc));
}

/* The list is there from now on: the job may have no time left to write it later. */
static void finish(struct mover *m)
{
    m->finishes = true;
    m->finishes_ns = tb_now_ns();
    if (m->plan->settings->left[0])
        write_left(m);
}

/*
 * A parent that was killed says nothing more: then what was closed by now is moved, within the deadline that the parent kept, and
 * the mover ends. What the program closes later is moved by `tierctl wait`. Pairs are left, since no command waits for them any more.
 * The pipe is the life line to the process that started this one. F comes once; what follows it is the end of the pipe.
 */
static void hear(struct mover *m)
{
    char word;
    ssize_t n = read(m->plan->control, &word, 1);
    bool is_killed = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
    if (is_killed && !m->finds.from) {
        stop = true;
    } else if (is_killed || (n > 0 && word == 'F')) {
        if (is_killed && m->plan->settings->deadline > 0)
            alarm((unsigned)m->plan->settings->deadline + 1);
        if (m->finds.from)
            tb_finds_look(&m->finds);
        finish(m);
    }
}

/*
 * Where the kernel has no room for watches, the whole folder is walked once a second instead. That costs more, and no file
 * is missed.
 */
static void look(struct mover *m)
{
    tb_watch_read(&m->watch, tb_finds_meet, &m->finds);
    if (m->watch.lost && (!m->watch.is_blind || tb_now_ns() - m->finds.looked_ns > BLIND_LOOK_NS)) {
        m->watch.lost = m->watch.is_blind;
        tb_finds_look(&m->finds);
    }
}

/*
 * All files that were there at the start are in hand or settled. One that was brought and is not there was removed by the
 * program, and does not come back. What is not known came to the sources later: it is moved next.
 */
static int bring(struct mover *m, const char *source, const char *destination)
{
    struct stat st;
    if (lstat(source, &st))
        return errno;
    if (S_ISDIR(st.st_mode)) {
        int rc = tb_carry_make_folder(&m->carries, &m->finds.made, source, destination);
        return rc == -EIDRM ? ENOENT : -rc;
    }
    if (tb_items_hasten(&m->items, source))
        return TB_ASKED_WAITS;
    if (tb_ledger_has_moved(&m->ledger, m->host, source, destination, &st))
        return access(destination, F_OK) ? ENOENT : 0;
    tb_finds_meet(&m->finds, source, &st);
    tb_finds_release(&m->finds);
    return tb_items_hasten(&m->items, source) ? TB_ASKED_WAITS : 0;
}

/*
 * In hand, or settled: then it is there or could not be moved. More than one pair may have the path in its destination;
 * the last one that has it answers.
 */
static int look_for(void *arg, const char *path, int is_first)
{
    struct mover *m = arg;
    char source[PATH_MAX];
    int found = ENOENT;
    for (size_t i = 0; i < m->plan->n_pairs; i++) {
        const struct tb_pair *p = m->finds.pair = &m->plan->pairs[i];
        size_t n = strlen(p->destination);
        if (strncmp(path, p->destination, n) != 0 || path[n] != '/' ||
            snprintf(source, sizeof(source), "%s%s", p->source, path + n) >= PATH_MAX)
            continue;
        found = is_first ? bring(m, source, path) : tb_items_hasten(&m->items, source) ? TB_ASKED_WAITS : 0;
        if (found == 0 && access(path, F_OK))
            found = tb_carry_is_removed(&m->carries, path) ? ENOENT : EIO;
    }
    m->finds.pair = NULL;
    return found;
}

/* Streams settle items without waking this thread, so the end is looked for often while a process waits for it. */
static int pause_ms(const struct mover *m)
{
    bool is_waited_for = m->asked.fd >= 0 && !LIST_EMPTY(&m->asked.open);
    return m->finishes || is_waited_for ? LAST_LOOK_MS : LOOK_MS;
}

static void tell_large(struct mover *m)
{
    uint64_t now = tb_now_ns();
    if (now - m->told_ns < TELL_NS)
        return;
    m->told_ns = now;
    tb_streams_tell_large(&m->streams);
}

/*
 * What the log does not take, a full PFS for example, is tried again, as long as the program runs. A process that waits for the end
 * waits for as long as a file is tried, and is told.
 */
static bool has_lost_log(const struct mover *m)
{
    uint64_t since = m->ledger.failing_since_ns, retries = m->plan->settings->retries;
    if (!since)
        return false;
    since = since > m->finishes_ns ? since : m->finishes_ns;
    return tb_now_ns() - since > LOG_PATIENCE_NS << (retries < MOST_DOUBLINGS ? retries : MOST_DOUBLINGS);
}

/*
 * Questions first, since a program waits for their answers. After `finish` the control pipe is not polled for input any
 * more; its end still wakes the loop, by POLLHUP.
 */
static void work(struct mover *m)
{
    struct pollfd fds[] = {
        {.fd = m->watch.fd, .events = POLLIN}, {.fd = m->plan->control, .events = POLLIN}, {.fd = m->asked.fd, .events = POLLIN}};
    while (!stop && !(m->finishes && (tb_items_left(&m->items) == 0 || has_lost_log(m)))) {
        poll(fds, 3, pause_ms(m));
        tb_asked_serve(&m->asked, look_for, m);
        if (fds[1].revents)
            hear(m);
        if (m->finds.from)
            look(m);
        tb_finds_release(&m->finds);
        tell_large(m);
        answer(m);
        tb_items_wake(&m->items);
        fds[0].fd = m->watch.fd;
        if (m->finishes && m->finds.from)
            fds[1].fd = -1; /* nothing more is to be heard */
        else if (m->finishes)
            fds[1].events = 0;
    }
}

/*
 * The line `starts` has the time from which on files count, so the next mover of this folder goes on from there. 0 or -errno: no process
 * waits for a mover that the log does not know.
 */
static int tell_life(struct mover *m, const char *word)
{
    struct tb_lines lines = {0};
    const struct tb_finds *f = &m->finds;
    char since[24];
    snprintf(since, sizeof(since), "%" PRId64, f->since);
    if (*word == 's')
        tb_lines_fact(&lines, word, m->host, m->id, since, f->from ? f->from : "", f->to ? f->to : "", NULL);
    else
        tb_lines_fact(&lines, word, m->host, m->id, NULL);
    int rc = tb_ledger_append(&m->ledger, &lines);
    tb_lines_free(&lines);
    return rc;
}

/*
 * The time of files in this folder is that of its file system, which may be another machine's. A file is made to ask for it; where that
 * cannot be, it is the kernel's coarse clock, which gives local files their times.
 */
static int64_t time_of_files(const struct mover *m)
{
    struct timespec now;
    struct stat st;
    char path[PATH_MAX];
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    int n = snprintf(path, sizeof(path), "%s/.tierbench-now-%s", m->finds.from, m->id);
    int fd = n < PATH_MAX ? open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
    if (fd >= 0 && fstat(fd, &st) == 0)
        now = st.st_ctim;
    if (fd >= 0) {
        close(fd);
        unlink(path);
    }
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void begin_time(struct mover *m)
{
    struct tb_finds *f = &m->finds;
    if (!f->from)
        return;
    int64_t before = tb_ledger_since(&m->ledger, m->host, f->from);
    f->since = m->plan->all ? INT64_MIN + 1 : before > INT64_MIN ? before : time_of_files(m);
}

/* A stream has two batches open, and their folders: with many streams more files than a user's programs may have at first. */
static void have_files_open(void)
{
    struct rlimit most;
    if (getrlimit(RLIMIT_NOFILE, &most) == 0 && most.rlim_cur < most.rlim_max) {
        most.rlim_cur = most.rlim_max;
        setrlimit(RLIMIT_NOFILE, &most);
    }
}

/* Of the folder that is watched, or of the pairs. */
static void begin_finds(struct mover *m)
{
    const struct tb_mover_plan *p = m->plan;
    m->finds = (struct tb_finds){.pairs = p->pairs,
                                 .n_pairs = p->n_pairs,
                                 .host = m->host,
                                 .ledger = &m->ledger,
                                 .carries = &m->carries,
                                 .items = &m->items,
                                 .stop = &stop};
    if (p->n_pairs)
        return;
    m->finds.from = p->settings->from;
    m->finds.to = p->settings->to;
}

/* The folder that is watched for, or that a program asks for, stays; those of a list may be made again. */
static int add_roots(struct mover *m)
{
    const struct tb_mover_plan *p = m->plan;
    int rc = 0;
    if (m->finds.from || p->asked)
        return tb_roots_add(&m->carries.roots, m->finds.from ? m->finds.to : p->pairs->destination);
    for (size_t i = 0; i < p->n_pairs && !rc; i++)
        rc = tb_roots_add_above(&m->carries.roots, p->pairs[i].destination);
    return rc;
}

/*
 * The lease first: two movers of one folder would both enqueue each file. The ledger is read under it, and the streams
 * come last, when all that they use is there.
 */
static int begin(struct mover *m)
{
    const struct tb_mover_plan *p = m->plan;
    const char *from = m->finds.from;
    have_files_open();
    int rc = tb_be_polite(p->settings);
    if (!rc)
        rc = tb_mover_lease_take(&m->lease, p->log_folder, m->host, from ? from : m->id);
    if (rc)
        return rc;
    rc = tb_ledger_open(&m->ledger, p->log_folder);
    tb_carries_begin(&m->carries, p->settings, &m->ledger, m->host, p->asked != NULL, &stop);
    if (rc || (rc = add_roots(m)))
        return tb_mover_lease_give_back(&m->lease), rc;
    begin_time(m);
    strcpy(m->answered, m->ledger.asked);
    tb_items_begin(&m->items);
    if ((rc = tell_life(m, "starts")) || (p->asked && (rc = tb_asked_begin(&m->asked, p->asked))) ||
        (from && (rc = tb_watch_begin(&m->watch, from))))
        return tb_mover_lease_give_back(&m->lease), rc;
    return tb_streams_begin(&m->streams, &m->carries, &m->items);
}

static void say_log(const struct mover *m)
{
    if (m->ledger.failing_since_ns)
        fprintf(stderr, "tierctl: %s/%s: %s: it does not say all that was moved\n", m->plan->log_folder, TB_LOG_NAME,
                strerror(-m->ledger.failing));
}

/*
 * Settled, and none failed? The streams end first; after that nothing changes, and what is left can be counted. The lease
 * is given back last: a process that waits for it finds a complete log.
 */
static int end(struct mover *m)
{
    tb_streams_end(&m->streams);
    tb_asked_end(&m->asked);
    tb_watch_end(&m->watch);
    if (!stop)
        tb_finds_tell_rest(&m->finds);
    tb_ledger_each_left(&m->ledger, note_failed, m);
    bool left =
        m->has_failed || tb_items_left(&m->items) > 0 || m->ledger.failing_since_ns || (stop && tb_finds_count_left(&m->finds, NULL) > 0);
    if (m->plan->settings->left[0])
        write_left(m);
    tell_life(m, "ends");
    say_log(m);
    tb_finds_end(&m->finds);
    tb_items_end(&m->items);
    tb_carries_end(&m->carries);
    tb_ledger_close(&m->ledger);
    tb_mover_lease_give_back(&m->lease);
    return left ? TB_MOVER_LEFT : TB_MOVER_DONE;
}

/* SIGIO: a process that opens a file while its lease is asked for makes the kernel send one. */
static void take_signals(void)
{
    const struct sigaction act = {.sa_handler = on_signal}, ignore = {.sa_handler = SIG_IGN};
    stop = false;
    sigaction(SIGTERM, &act, NULL);
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGHUP, &act, NULL);
    sigaction(SIGALRM, &act, NULL);
    sigaction(SIGIO, &ignore, NULL);
    sigaction(SIGPIPE, &ignore, NULL);
}

/*
 * The mask is cleared, since folders and files get the modes of their sources. Ready is told before the first look, so a
 * program does not wait for a walk through a large folder.
 */
int tb_mover_run(const struct tb_mover_plan *plan)
{
    struct mover m = {.plan = plan, .watch = {.fd = -1}, .asked = {.fd = -1}};
    tb_stage_host(m.host);
    snprintf(m.id, sizeof(m.id), "%s.%d.%llx", m.host, (int)getpid(), (unsigned long long)tb_now_ns());
    begin_finds(&m);
    umask(0);
    take_signals();
    int rc = begin(&m);
    if (rc)
        return rc;
    if (plan->ready >= 0 && write(plan->ready, "R", 1) < 0)
        stop = true; /* the process that started it is gone */
    tb_finds_begin(&m.finds);
    tb_finds_look(&m.finds);
    if (plan->control < 0 && !plan->stays)
        finish(&m);
    work(&m);
    return end(&m);
}
