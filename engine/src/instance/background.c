/*
 * Background work of the daemon: threads that flush what clients queue or what the
 * watermark asks for, one that takes samples and repairs after dead clients, one that makes
 * room in the journal, and those of the organizer and the prefetcher. Clients never depend on it: without a daemon they
 * flush at close.
 */
#include "instance/background.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "region/event.h"
#include "file/claim.h"
#include "file/file.h"
#include "file/state.h"
#include "flush/flush.h"
#include "flush/queue.h"
#include "instance/instance.h"
#include "instance/schedule.h"
#include "instance/stats.h"
#include "journal/journal.h"
#include "layer/repair.h"
#include "region/counters.h"
#include "region/handle.h"
#include "shared/commit.h"
#include "tiering/organizer.h"
#include "tiering/prefetch.h"

#define MAX_THREADS 64
#define IDLE_NS 50000000       /* a thread without work looks at least this often, */
#define STREAM_NS 1000000      /* the prefetcher this often for where its readers are */
#define REPAIR_SECONDS 0.2     /* between looks for dead clients */
#define IDLE_DRAIN_SECONDS 1.0 /* without new writes, watermark flushes the rest */

#define HELD_NS 10000000    /* before a file is flushed again of which other nodes have something to flush first */
#define END_LOOK_NS 5000000 /* how often tb_background_stop looks */
#define VAIN_NS 3000000000u /* a thread that waits in vain notes it each second: an older note is out of date */

/* A thread of the daemon, and whether it waits in vain for a stopped process. */
struct worker {
    tb_engine *engine;
    void *(*loop)(void *);
    pthread_t thread;
    _Atomic bool ended;
    _Atomic uint64_t vain_ns; /* when it last said that it waits in vain; 0: never */
};

struct tb_background {
    _Atomic bool stop;
    uint32_t n_workers;
    struct worker worker[MAX_THREADS + 4];
};

/*
 * Claimed before it is let go of: the claim or the TAKEN flag keeps the record from becoming another file's. What waits for other nodes'
 * flushes is not awaited here: their threads may wait for this one.
 */
static void flush_queued(tb_engine *e, uint32_t file)
{
    struct tb_file *f = &e->region.files[file];
    tb_flush_claim(e, file);
    tb_file_end_taking(f);
    if (!tb_file_may_flush(f)) {
        tb_flush_unclaim(e, file);
    } else if (!tb_flush_giving_way(e, file, -1, false).error && tb_has_held(e, file)) {
        nanosleep(&(struct timespec){0, HELD_NS}, NULL);
        tb_flush_queue(e, file);
    }
}

/* One thread of `flush: threads`. It ends only between files. */
static void *flush_loop(void *arg)
{
    tb_engine *e = arg;
    bool worked = false;
    while (!e->background->stop) {
        uint32_t seen = e->header->queue.event, file = tb_flush_dequeue(e);
        if (file != TB_NONE)
            flush_queued(e, file);
        else
            tb_flush_wait(e, seen, worked);
        worked = file != TB_NONE;
    }
    return NULL;
}

/* The persistent file with the most dirty buffers that is not queued yet. */
static TB_UNLOCKED uint32_t dirtiest(tb_engine *e)
{
    uint32_t best = TB_NONE, most = 0;
    for (uint32_t i = 0; i < e->region.n_file_buckets; i++) {
        struct tb_file *f = &e->region.files[i];
        if (f->magic == TB_FILE_MAGIC && f->n_dirty > most && !f->flusher && !(f->flags & (TB_FILE_QUEUED | TB_FILE_TAKEN)) &&
            tb_file_flush_state(f) == TB_FLUSH_DUE) {
            most = f->n_dirty;
            best = i;
        }
    }
    return best;
}

struct watermark {
    bool flushing;
    uint64_t bytes_in;
    double quiet_since;
};

/* Above `high`, flush until `low`. If no client writes for a while, flush the rest. */
static void watch_levels(tb_engine *e, struct watermark *w)
{
    const struct tb_config *c = tb_config_of(e);
    uint64_t bytes_in = tb_bytes_in(e);
    bool above_high = false, above_low = false, dirty = false;
    for (uint32_t t = 0; t < c->n_tiers; t++) {
        uint64_t bytes = tb_tier_dirty(e->header, t);
        double level = (double)bytes / (double)c->tiers[t].capacity;
        above_high |= level > c->flush.high;
        above_low |= level > c->flush.low;
        dirty |= bytes != 0;
    }
    if (bytes_in != w->bytes_in)
        w->quiet_since = tb_seconds_since_start(e);
    w->bytes_in = bytes_in;
    bool idle = dirty && tb_seconds_since_start(e) - w->quiet_since > IDLE_DRAIN_SECONDS;
    w->flushing = above_high || (w->flushing && above_low) || idle;
    uint32_t file = w->flushing ? dirtiest(e) : TB_NONE;
    if (file != TB_NONE)
        tb_flush_queue(e, file);
}

/* Samples, the watermark and repair share a thread: each of them takes little time. */
static void *sample_loop(void *arg)
{
    tb_engine *e = arg;
    struct watermark w = {0};
    double repaired = 0;
    while (!e->background->stop) {
        tb_sample_take(e);
        if (tb_config_of(e)->flush.policy == TB_FLUSH_WATERMARK)
            watch_levels(e, &w);
        if (tb_seconds_since_start(e) - repaired > REPAIR_SECONDS) {
            tb_repair(e);
            repaired = tb_seconds_since_start(e);
        }
        long ns = (long)(e->header->sampling.interval * 1e9);
        nanosleep(&(struct timespec){ns / 1000000000, ns % 1000000000}, NULL);
    }
    return NULL;
}

/* Until that fails: records then find room themselves. */
static void *journal_loop(void *arg)
{
    tb_engine *e = arg;
    int fd = tb_journal_open_again(e), rc = fd;
    while (!e->background->stop && rc >= 0)
        if ((rc = tb_journal_make_room(e, fd)) == 0)
            nanosleep(&(struct timespec){0, IDLE_NS}, NULL);
    if (fd >= 0)
        close(fd);
    return NULL;
}

/* It sleeps only where a tick moved nothing: while there is something to move, the device sets the pace. */
static void *organize_loop(void *arg)
{
    tb_engine *e = arg;
    struct tb_organizer o = {0};
    while (!e->background->stop)
        if (!tb_organizer_tick(e, &o))
            nanosleep(&(struct timespec){0, TB_ORGANIZER_TICK_NS}, NULL);
    return NULL;
}

/*
 * A new stream wakes the thread by an event. Open streams are looked at often, because a
 * reader does not tell where it is.
 */
static void wait_for_streams(tb_engine *e, uint32_t seen, bool any)
{
    for (uint32_t i = 0; i < TB_STREAMS; i++)
        any |= e->header->streams.entry[i].state == TB_STREAM_OPEN;
    tb_event_wait(&e->header->streams.event, seen, any ? STREAM_NS : IDLE_NS);
}

/* Streams first, then the schedule: a waiting reader counts more than one that has not come yet. */
static void *prefetch_loop(void *arg)
{
    tb_engine *e = arg;
    struct tb_prefetcher p;
    struct tb_schedule s;
    struct tb_error err; /* the schedule was read with the configuration: if the file is gone since, there is none */
    tb_prefetch_start(&p);
    tb_schedule_read(tb_config_of(e), &s, &err);
    while (!e->background->stop) {
        uint32_t seen = e->header->streams.event;
        bool worked = tb_prefetch_step(e, &p);
        worked |= tb_schedule_step(e, &s);
        if (!worked)
            wait_for_streams(e, seen, s.at < s.n);
    }
    tb_prefetch_end(e, &p);
    tb_schedule_end(e, &s);
    tb_schedule_free(&s);
    return NULL;
}

/* Called by the wait itself, each second and at its end, in the waiting thread. */
static void note_wait(void *arg, int pid, double seconds, bool in_vain)
{
    struct worker *w = arg;
    (void)pid;
    (void)seconds;
    w->vain_ns = in_vain ? tb_now_ns() : 0;
}

static void *work(void *arg)
{
    struct worker *w = arg;
    tb_wait_listen_here(note_wait, w);
    w->loop(w->engine);
    w->ended = true;
    return NULL;
}

/* Every thread tells its waits, so that the end of the daemon knows which thread waits in vain. */
static int begin(tb_engine *e, void *(*loop)(void *))
{
    assert(e->background->n_workers < sizeof(e->background->worker) / sizeof(e->background->worker[0]));
    struct worker *w = &e->background->worker[e->background->n_workers];
    w->engine = e;
    w->loop = loop;
    int rc = pthread_create(&w->thread, NULL, work, w);
    e->background->n_workers += rc == 0;
    return -rc;
}

/* All or none: where a thread can't be started, those that were are ended. */
int tb_background_start(tb_engine *e)
{
    uint32_t want = tb_config_of(e)->flush.threads;
    assert(!e->background);
    e->background = calloc(1, sizeof(*e->background));
    if (!e->background)
        return -ENOMEM;
    e->flush_threads = want;
    int rc = begin(e, sample_loop);
    if (!rc && e->journal_fd >= 0 && tb_config_of(e)->fsync == TB_FSYNC_TIER)
        rc = begin(e, journal_loop);
    if (!rc && tb_config_of(e)->organizer.enabled) {
        rc = begin(e, organize_loop);
        rc = rc ? rc : begin(e, prefetch_loop);
    }
    for (uint32_t i = 0; i < want && i < MAX_THREADS && !rc; i++)
        rc = begin(e, flush_loop);
    if (rc)
        tb_background_stop(e);
    return rc;
}

/* Only says so: each thread sees it when its present piece of work or its sleep ends. */
void tb_background_end(tb_engine *e)
{
    if (e->background)
        e->background->stop = true;
}

static bool is_at_work(const struct worker *w)
{
    return !w->ended && (!w->vain_ns || tb_now_ns() - w->vain_ns > VAIN_NS);
}

/* Wait for the threads. True: all have ended. False: all that are left wait in vain for a stopped process. */
static bool await_all(const struct tb_background *b)
{
    uint32_t n_ended, n_at_work;
    do {
        n_ended = n_at_work = 0;
        for (uint32_t i = 0; i < b->n_workers; i++) {
            n_ended += b->worker[i].ended;
            n_at_work += is_at_work(&b->worker[i]);
        }
        if (n_at_work)
            nanosleep(&(struct timespec){0, END_LOOK_NS}, NULL);
    } while (n_at_work);
    return n_ended == b->n_workers;
}

/* -ETIMEDOUT: threads that wait in vain stay, and with them the handle (instance/instance.h). */
int tb_background_stop(tb_engine *e)
{
    struct tb_background *b = e->background;
    if (!b)
        return 0;
    b->stop = true;
    if (!await_all(b))
        return -ETIMEDOUT;
    assert(e->background == b);
    for (uint32_t i = 0; i < b->n_workers; i++)
        pthread_join(b->worker[i].thread, NULL);
    e->background = NULL;
    free(b);
    return 0;
}
