/*
 * The mover's main thread hears of files, enqueues them, reads what others write to the log,
 * and decides when it is finished; the streams move (streams.h).
 *
 * What is enqueued: a regular file or symbolic link that no process has open to write, that
 * is newer than the first mover of its folder, was not staged in, and is not at its
 * destination as it is. All of this is asked of the file and the log, not remembered: so a
 * mover that begins after a crash goes on where the last one stopped.
 */
#include "stage/mover.h"

#include <errno.h>
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
#include "text/text.h"
#include "stage/asked.h"
#include "stage/items.h"
#include "stage/mover_lease.h"
#include "stage/log/ledger.h"
#include "stage/log/left.h"
#include "stage/copy/carry.h"
#include "stage/streams.h"
#include "stage/watch.h"

#define LOOK_MS 50
#define LAST_LOOK_MS 2 /* who waits for the end waits no longer than that too long */
#define BLIND_LOOK_NS 1000000000ull

struct mover {
    const struct tb_mover_plan *plan;
    char host[65], id[100];
    const char *from, *to;
    int64_t since;
    struct tb_ledger ledger;
    struct tb_mover_lease lease;
    struct tb_items items;
    struct tb_carries carries;
    struct tb_streams streams;
    struct tb_watch watch;
    struct tb_asked asked;
    struct tb_lines lines;
    char answered[80];
    uint64_t looked_ns;
    bool finishes;
    const struct tb_pair *pair; /* whose files are walked; NULL: those of the watched folder */
    struct tb_left *left;
    unsigned long n_left;
    bool has_failed; /* a file of its own */
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

/*
 * Where a file below the pair's, or the folder's, source goes. False: its name would be too long. The rest of the path is
 * kept as it is, so a tree looks the same on both sides.
 */
static bool destination_of(const struct mover *m, const char *path, char *out)
{
    const char *from = m->pair ? m->pair->source : m->from, *to = m->pair ? m->pair->destination : m->to;
    return snprintf(out, PATH_MAX, "%s%s", to, path + strlen(from)) < PATH_MAX;
}

/*
 * Is it one that has to be moved, whoever has it open? Asked of the log and of the file each time. So a file is never
 * moved twice for two events of one close, and a mover that is started anew does not move what the last one brought.
 */
static bool is_due(struct mover *m, const char *path, const char *destination, const struct stat *st)
{
    if (!S_ISREG(st->st_mode) && !S_ISLNK(st->st_mode))
        return false;
    struct tb_content c = tb_content_of(st);
    if (!m->pair &&
        ((c.ctime < m->since && c.mtime < m->since) || tb_ledger_brought(&m->ledger, path, st) || tb_ledger_waits(&m->ledger, path)))
        return false; /* the last two: it comes from elsewhere, or is just coming */
    if (!tb_ledger_has_moved(&m->ledger, m->host, path, destination, st) || (m->pair && access(destination, F_OK)))
        return true; /* a pair's destination may be another job's folder of the same name */
    if (st->st_nlink > 1)
        tb_carry_note_link(&m->carries, st, destination);
    return false;
}

static void tell_queued(struct mover *m, const char *path, const char *destination, const struct stat *st)
{
    char size[24];
    snprintf(size, sizeof(size), "%jd", (intmax_t)st->st_size);
    if (tb_ledger_waits(&m->ledger, destination))
        return; /* a mover before this one did not get to it */
    tb_lines_spectral(&m->lines, "ENQUEUE", destination);
    tb_lines_fact(&m->lines, "queued", m->host, path, destination, size, NULL);
}

/* The log before the streams: so a file's lines are in their order. */
static void release(struct mover *m)
{
    tb_ledger_append(&m->ledger, &m->lines);
    tb_items_release(&m->items);
}

/*
 * For each file that an event or a walk names. A file of a pair is moved although somebody writes it, since a list is
 * moved once; in a watched folder its last close comes as an event.
 */
static void meet(void *arg, const char *path, const struct stat *st)
{
    struct mover *m = arg;
    char destination[PATH_MAX];
    if (stop || !destination_of(m, path, destination) || !is_due(m, path, destination, st))
        return;
    if (!m->pair && S_ISREG(st->st_mode) && tb_file_has_writer(path))
        return; /* its last close is told later */
    if (tb_items_add(&m->items, path, destination, st) > 0)
        tell_queued(m, path, destination, st);
    if (m->lines.n > 1u << 16)
        release(m);
}

/*
 * What events may have missed is found here: at the start, after an overflow of the kernel's queue, and before every
 * answer.
 */
static void look_at_all(struct mover *m)
{
    for (size_t i = 0; i < m->plan->n_pairs; i++) {
        m->pair = &m->plan->pairs[i];
        tb_walk(m->pair->source, meet, m);
    }
    m->pair = NULL;
    if (m->from)
        tb_walk(m->from, meet, m);
    release(m);
    m->looked_ns = tb_now_ns();
}

static bool is_own(const struct mover *m, const struct tb_entry *e)
{
    bool own = m->from && tb_path_is_under(e->source, m->from);
    for (size_t i = 0; i < m->plan->n_pairs && !own; i++)
        own = tb_path_is_under(e->source, m->plan->pairs[i].source);
    return own && strcmp(e->host, m->host) == 0;
}

/*
 * What an earlier mover had in hand and is not there any more. Nothing says whether a user removed it or a node lost it: so it is a
 * failure, once. One that was told as a failure before is gone.
 */
static void settle_vanished(void *arg, const struct tb_entry *e)
{
    struct mover *m = arg;
    struct stat st;
    if (!is_own(m, e) || lstat(e->source, &st) == 0 || (errno != ENOENT && errno != ENOTDIR))
        return;
    if (e->state == TB_ENTRY_QUEUED)
        tb_lines_fact(&m->lines, "failed", e->host, e->source, e->destination, "it was removed before it was moved", NULL);
    else
        tb_lines_fact(&m->lines, "gone", e->host, e->source, e->destination, NULL);
}

static void note_failed(void *arg, const struct tb_entry *e)
{
    struct mover *m = arg;
    m->has_failed = m->has_failed || (e->state == TB_ENTRY_FAILED && is_own(m, e));
}

/*
 * A waiting process wants to know that all files closed before the question are in the log. Through the log and not by a
 * socket: it may be on another node, and the log is the one thing that all movers and waiters have in common.
 */
static void answer(struct mover *m)
{
    struct tb_lines lines = {0};
    char asked[80];
    tb_ledger_refresh(&m->ledger);
    pthread_mutex_lock(&m->ledger.mutex);
    snprintf(asked, sizeof(asked), "%s", m->ledger.asked);
    pthread_mutex_unlock(&m->ledger.mutex);
    if (strcmp(asked, m->answered) == 0)
        return;
    look_at_all(m);
    tb_lines_fact(&lines, "answers", m->host, m->id, asked, NULL);
    if (tb_ledger_append(&m->ledger, &lines) == 0)
        strcpy(m->answered, asked);
    tb_lines_free(&lines);
}

static void note_left(void *arg, const char *path, const struct stat *st)
{
    struct mover *m = arg;
    char destination[PATH_MAX];
    if (!destination_of(m, path, destination) || !is_due(m, path, destination, st))
        return;
    m->n_left++;
    if (m->left)
        tb_left_add(m->left, path, destination, NULL);
}

/*
 * How many files are not moved; to `left`, if it is not NULL, which. Files that are open count: the PFS lacks them. A walk
 * and not the table in memory: a file that failed to come into hand is counted, too.
 */
static unsigned long count_left(struct mover *m, struct tb_left *left)
{
    m->left = left;
    m->n_left = 0;
    for (size_t i = 0; i < m->plan->n_pairs; i++) {
        m->pair = &m->plan->pairs[i];
        tb_walk(m->pair->source, note_left, m);
    }
    m->pair = NULL;
    if (m->from)
        tb_walk(m->from, note_left, m);
    return m->n_left;
}

static void write_left(struct mover *m)
{
    struct tb_left left;
    const char *path = m->plan->settings->left;
    int rc = tb_left_begin(&left, path);
    if (!rc) {
        count_left(m, &left);
        rc = tb_left_end(&left);
    }
    if (rc)
        fprintf(stderr, "tierctl: %s: the list of files that were not moved cannot be written: %s\n", path, strerror(-rc));
}

/* The list is there from now on: the job may have no time left to write it later. */
static void finish(struct mover *m)
{
    m->finishes = true;
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
    if (is_killed && !m->from) {
        stop = true;
    } else if (is_killed || (n > 0 && word == 'F')) {
        if (is_killed && m->plan->settings->deadline > 0)
            alarm((unsigned)m->plan->settings->deadline + 1);
        if (m->from)
            look_at_all(m);
        finish(m);
    }
}

/*
 * Where the kernel has no room for watches, the whole folder is walked once a second instead. That costs more, and no file
 * is missed.
 */
static void look(struct mover *m)
{
    tb_watch_read(&m->watch, meet, m);
    release(m);
    if (m->watch.lost && (!m->watch.is_blind || tb_now_ns() - m->looked_ns > BLIND_LOOK_NS)) {
        m->watch.lost = m->watch.is_blind;
        look_at_all(m);
    }
}

/* Its folder is made at once. 0 or an error number. */
static int bring_folder(const char *source, const char *destination)
{
    char inside[2][PATH_MAX];
    if (snprintf(inside[0], PATH_MAX, "%s/.", source) >= PATH_MAX || snprintf(inside[1], PATH_MAX, "%s/.", destination) >= PATH_MAX)
        return ENAMETOOLONG;
    return -tb_carry_make_folders(inside[0], inside[1]);
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
    if (S_ISDIR(st.st_mode))
        return bring_folder(source, destination);
    if (tb_items_hasten(&m->items, source))
        return TB_ASKED_WAITS;
    if (tb_ledger_has_moved(&m->ledger, m->host, source, destination, &st))
        return access(destination, F_OK) ? ENOENT : 0;
    meet(m, source, &st);
    release(m);
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
        const struct tb_pair *p = m->pair = &m->plan->pairs[i];
        size_t n = strlen(p->destination);
        if (strncmp(path, p->destination, n) != 0 || path[n] != '/' ||
            snprintf(source, sizeof(source), "%s%s", p->source, path + n) >= PATH_MAX)
            continue;
        found = is_first ? bring(m, source, path) : tb_items_hasten(&m->items, source) ? TB_ASKED_WAITS : 0;
        if (found == 0 && access(path, F_OK))
            found = EIO;
    }
    m->pair = NULL;
    return found;
}

/* Streams settle items without waking this thread, so the end is looked for often while somebody waits for it. */
static int pause_ms(const struct mover *m)
{
    bool is_waited_for = m->asked.fd >= 0 && !LIST_EMPTY(&m->asked.open);
    return m->finishes || is_waited_for ? LAST_LOOK_MS : LOOK_MS;
}

/*
 * Questions first, since a program waits for their answers. After `finish` the control pipe is not polled for input any
 * more; its end still wakes the loop, by POLLHUP.
 */
static void work(struct mover *m)
{
    struct pollfd fds[] = {
        {.fd = m->watch.fd, .events = POLLIN}, {.fd = m->plan->control, .events = POLLIN}, {.fd = m->asked.fd, .events = POLLIN}};
    while (!stop && !(m->finishes && tb_items_left(&m->items) == 0)) {
        poll(fds, 3, pause_ms(m));
        tb_asked_serve(&m->asked, look_for, m);
        if (fds[1].revents)
            hear(m);
        if (m->from)
            look(m);
        answer(m);
        tb_items_wake(&m->items);
        fds[0].fd = m->watch.fd;
        if (m->finishes && m->from)
            fds[1].fd = -1; /* nothing more is to be heard */
        else if (m->finishes)
            fds[1].events = 0;
    }
}

/* The line `starts` has the time from which on files count, so the next mover of this folder goes on from there. */
static void tell_life(struct mover *m, const char *word)
{
    struct tb_lines lines = {0};
    char since[24];
    snprintf(since, sizeof(since), "%" PRId64, m->since);
    if (*word == 's')
        tb_lines_fact(&lines, word, m->host, m->id, since, m->from ? m->from : "", m->to ? m->to : "", NULL);
    else
        tb_lines_fact(&lines, word, m->host, m->id, NULL);
    tb_ledger_append(&m->ledger, &lines);
    tb_lines_free(&lines);
}

/* Files are compared with the kernel's coarse clock, which gives them their times. */
static void begin_time(struct mover *m)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    int64_t before = m->from ? tb_ledger_since(&m->ledger, m->host, m->from) : INT64_MIN;
    m->since = before > INT64_MIN ? before : (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    if (m->plan->all)
        m->since = INT64_MIN + 1;
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

/*
 * The lease first: two movers of one folder would both enqueue each file. The ledger is read under it, and the streams
 * come last, when all that they use is there.
 */
static int begin(struct mover *m)
{
    const struct tb_mover_plan *p = m->plan;
    have_files_open();
    int rc = tb_be_polite(p->settings);
    if (!rc)
        rc = tb_mover_lease_take(&m->lease, p->log_folder, m->host, m->from ? m->from : m->id);
    if (rc)
        return rc;
    if ((rc = tb_ledger_open(&m->ledger, p->log_folder)) ||
        (rc = tb_carries_begin(&m->carries, p->settings, &m->ledger, m->host, m->from ? m->to : NULL, &stop)))
        return tb_mover_lease_give_back(&m->lease), rc;
    begin_time(m);
    strcpy(m->answered, m->ledger.asked);
    tell_life(m, "starts");
    tb_items_begin(&m->items);
    if (p->asked && (rc = tb_asked_begin(&m->asked, p->asked)))
        return tb_mover_lease_give_back(&m->lease), rc;
    if (m->from && (rc = tb_watch_begin(&m->watch, m->from)))
        return tb_mover_lease_give_back(&m->lease), rc;
    return tb_streams_begin(&m->streams, &m->carries, &m->items);
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
    tb_ledger_each_left(&m->ledger, note_failed, m);
    bool left = m->has_failed || tb_items_left(&m->items) > 0 || (stop && count_left(m, NULL) > 0);
    if (m->plan->settings->left[0])
        write_left(m);
    tell_life(m, "ends");
    tb_lines_free(&m->lines);
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
    if (!plan->n_pairs) {
        m.from = plan->settings->from;
        m.to = plan->settings->to;
    }
    tb_stage_host(m.host);
    snprintf(m.id, sizeof(m.id), "%s.%d.%llx", m.host, (int)getpid(), (unsigned long long)tb_now_ns());
    umask(0);
    take_signals();
    int rc = begin(&m);
    if (rc)
        return rc;
    if (plan->ready >= 0 && write(plan->ready, "R", 1) < 0)
        stop = true; /* who started it is gone */
    if (m.from)
        tb_ledger_each_left(&m.ledger, settle_vanished, &m);
    look_at_all(&m);
    if (plan->control < 0 && !plan->stays)
        finish(&m);
    work(&m);
    return end(&m);
}
