/*
 * Drain: flush every dirty persistent file, with several threads, and report what failed.
 * While a thread waits for the sync of its file, another one copies the next.
 *
 * A thread that waits for another process is replaced, so that the other files are flushed
 * in the meantime. If that process is stopped and stays stopped, the drain gives up in the
 * end and leaves its waiting threads as they are: see instance/instance.h.
 */
#include "instance/drain.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/process.h"
#include "base/report.h"
#include "file/claim.h"
#include "file/file.h"
#include "file/state.h"
#include "flush/backing.h"
#include "flush/flush.h"
#include "flush/program.h"
#include "instance/instance.h"
#include "journal/lost.h"
#include "layer/repair.h"
#include "namespace/deferred.h"
#include "region/handle.h"
#include "shared/borrow.h"
#include "shared/commit.h"

#define MAX_THREADS 64
#define VOID_TRIES 2000
#define VOID_NS 5000000

struct worker {
    struct drain *d;
    struct tb_file_report report;
    int waits_for; /* number of another process; 0: it works */
    bool copies;   /* it is one of the drain's n_copying */
    bool gave_up, ended;
};

/* One drain. Its threads share it under `lock`; it outlives the call if the drain gives up. */
struct drain {
    tb_engine *e;
    uint32_t *files;
    uint32_t n, next, done;
    int error, n_workers;
    int n_copying, n_copying_max; /* threads that work; those beside them wait, for a sync or for another process */
    bool is_given_up;
    struct worker worker[MAX_THREADS];
    tb_progress *progress;
    tb_file_reporter *report;
    void *arg;
    pthread_mutex_t lock; /* locks all of this; also keeps messages apart */
    pthread_cond_t change;
};

/* Read without a lock. Files that another client flushes count too: the drain waits for that flush. */
static TB_UNLOCKED bool is_to_drain(const struct tb_file *f)
{
    enum tb_flush_state state = tb_file_flush_state(f);
    return f->magic == TB_FILE_MAGIC && (state <= TB_FLUSH_TIED || (state == TB_FLUSH_NOTHING && f->flusher));
}

/* A file with a deferred name is shown by the name that the user gave it. */
static void show_name(tb_engine *e, struct tb_file_report *r)
{
    char name[TB_PATH_MAX];
    if (tb_waiting_shown(e, r->path, name, sizeof(name)) == 0)
        memcpy(r->path, name, sizeof(name));
}

/* Another program removed or replaced the file: its bytes are kept apart, and the report says where. */
static void keep_lost(tb_engine *e, uint32_t file, struct tb_file_report *r)
{
    char kept[TB_PATH_MAX + 500];
    int fd = tb_lost_open(e->lost, r->path, e->region.files[file].inode, kept, sizeof(kept));
    if (fd < 0)
        return;
    struct tb_flush_result result = tb_flush_file(e, file, fd, true);
    close(fd);
    r->is_over = !result.error;
    if (r->is_over)
        tb_lost_say(kept, result.bytes, r->why, sizeof(r->why));
}

/*
 * The file is claimed, and no daemon of this node lives: what other nodes had of it in their memory is lost, and is named once, so that the
 * instance can end.
 */
static bool forget_borrowed(tb_engine *e, uint32_t file, struct tb_file_report *r)
{
    char where[400];
    if (!e->lost || !tb_borrowed_describe(e, file, where, sizeof(where)))
        return false;
    snprintf(r->why, sizeof(r->why), "lost: %s", where);
    tb_borrowed_forget(e, file);
    e->lost->n_borrowed++;
    return true;
}

/* Of an error of input or output: where the bytes are that could not be read. */
static void say_borrowed(tb_engine *e, uint32_t file, struct tb_file_report *r)
{
    char where[400];
    if (r->error == -EIO && tb_borrowed_describe(e, file, where, sizeof(where)))
        snprintf(r->why, sizeof(r->why), "not flushed: %s", where);
}

/*
 * With `nodes: shared` bytes may be left that another node has newer ones of: they go when that node says so, perhaps only after
 * another flush of what is beside them.
 */
static int flush_voids(tb_engine *e, uint32_t file)
{
    int rc = tb_shared_finish(e, file);
    for (int i = 0; i < VOID_TRIES && !rc && tb_has_voids(e, file); i++) {
        nanosleep(&(struct timespec){0, VOID_NS}, NULL);
        rc = tb_flush_file(e, file, -1, true).error;
    }
    return rc ? rc : tb_has_voids(e, file) ? -ETIMEDOUT : 0;
}

/* The record may have become free, or another file's, since the list was made: the claim decides. */
static void flush_one(tb_engine *e, uint32_t file, struct tb_file_report *r)
{
    struct tb_file *f = &e->region.files[file];
    int stripe = tb_file_lock(e, file);
    if (f->magic == TB_FILE_MAGIC)
        tb_file_path(e, f, r->path, sizeof(r->path));
    tb_file_unlock(e, stripe);
    show_name(e, r);
    if (!tb_flush_claim(e, file))
        return;
    bool borrowed = forget_borrowed(e, file, r);
    if (is_to_drain(f)) {
        struct tb_flush_result result = tb_flush_giving_way(e, file, -1, true);
        r->bytes = result.bytes;
        r->error = result.error ? result.error : flush_voids(e, file);
        if (!r->error && tb_has_copies(e)) /* a drain is a commit: older copies count no more */
            r->error = tb_flush_commit(&(struct tb_target){.engine = e, .io = tb_file_io(e, file), .file = file, .fd = -1}, NULL);
        if (e->lost && tb_lost_is_gone(r->error) && !(f->flags & TB_FILE_WAITING))
            keep_lost(e, file, r);
    } else {
        tb_flush_unclaim(e, file);
        r->error = tb_shared_finish(e, file);
    }
    if (borrowed && !r->error) {
        r->error = -ENODATA;
        r->is_over = true;
    } else {
        say_borrowed(e, file, r);
    }
}

/* With the lock. */
static void note_done(struct drain *d, const struct tb_file_report *r)
{
    if (r->error) {
        d->error = d->error || r->is_over ? d->error : r->error;
        if (d->report)
            d->report(d->arg, r);
    }
    d->done++;
    assert(d->done <= d->next && d->next <= d->n);
    if (d->progress)
        d->progress(d->arg, "draining files", d->done, d->n);
}

static void add_worker(struct drain *d);

/* With the lock. From here on it waits, or is done with its file. */
static void end_copying(struct worker *w)
{
    w->d->n_copying -= w->copies;
    w->copies = false;
    assert(w->d->n_copying >= 0);
    pthread_cond_broadcast(&w->d->change);
}

/* While the device syncs one file, another thread copies the next one. */
static void note_sync(void *arg)
{
    struct worker *w = arg;
    pthread_mutex_lock(&w->d->lock);
    end_copying(w);
    pthread_mutex_unlock(&w->d->lock);
}

/* With the lock. False: no file is left. */
static bool begin_copying(struct worker *w)
{
    struct drain *d = w->d;
    while (d->next < d->n && d->n_copying >= d->n_copying_max)
        pthread_cond_wait(&d->change, &d->lock);
    w->copies = d->next < d->n;
    d->n_copying += w->copies;
    return w->copies;
}

/* Called each second of a wait, and at its end. The first call starts a replacement. */
static void note_wait(void *arg, int pid, double seconds, bool in_vain)
{
    struct worker *w = arg;
    struct drain *d = w->d;
    (void)seconds;
    pthread_mutex_lock(&d->lock);
    if (!w->waits_for && d->next < d->n)
        add_worker(d);
    w->waits_for = pid ? pid : w->waits_for;
    w->gave_up = in_vain;
    end_copying(w);
    pthread_mutex_unlock(&d->lock);
}

/* Locked by d->lock. If the drain has given up, the handle may go when its last thread has ended. */
static void end_worker(struct worker *w)
{
    assert(!w->ended && (!w->d->is_given_up || w->d->e->n_stuck));
    w->ended = true;
    if (w->d->is_given_up)
        w->d->e->n_stuck--;
    pthread_cond_broadcast(&w->d->change);
}

/* Repair what killed clients left before anything is flushed: after it, the lists of files are whole. */
static void *repair_first(void *arg)
{
    struct worker *w = arg;
    tb_wait_listen_here(note_wait, w);
    snprintf(w->report.path, sizeof(w->report.path), "what killed programs left");
    tb_repair(w->d->e);
    pthread_mutex_lock(&w->d->lock);
    end_worker(w);
    pthread_mutex_unlock(&w->d->lock);
    return NULL;
}

/* Flush file after file. Not locked during a flush. */
static void *drain_loop(void *arg)
{
    struct worker *w = arg;
    struct drain *d = w->d;
    tb_wait_listen_here(note_wait, w);
    tb_target_before_sync(note_sync, w);
    pthread_mutex_lock(&d->lock);
    while (begin_copying(w)) {
        uint32_t file = d->files[d->next++];
        w->waits_for = 0;
        w->gave_up = false;
        memset(&w->report, 0, sizeof(w->report));
        pthread_mutex_unlock(&d->lock);
        flush_one(d->e, file, &w->report);
        pthread_mutex_lock(&d->lock);
        note_done(d, &w->report);
        end_copying(w);
    }
    end_worker(w);
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

/* With the lock. */
static void begin_worker(struct drain *d, void *(*work)(void *))
{
    pthread_t thread;
    if (d->n_workers == MAX_THREADS)
        return;
    struct worker *w = &d->worker[d->n_workers];
    *w = (struct worker){.d = d};
    if (pthread_create(&thread, NULL, work, w) == 0) {
        pthread_detach(thread);
        d->n_workers++;
    }
}

/* Also called by a thread that waits, with the lock, to be replaced. */
static void add_worker(struct drain *d)
{
    begin_worker(d, drain_loop);
}

/* Is there nothing more to wait for? `or_gave_up`: threads that wait in vain don't count. */
static bool all_ended(const struct drain *d, bool or_gave_up)
{
    bool all = d->next >= d->n;
    for (int i = 0; i < d->n_workers && all; i++)
        all = d->worker[i].ended || (or_gave_up && d->worker[i].gave_up);
    return all;
}

/* Locked by d->lock. Threads still use `d`, so it is not freed: it stays until the process ends. */
static int give_up(struct drain *d)
{
    assert(!d->is_given_up);
    d->is_given_up = true;
    for (int i = 0; i < d->n_workers; i++) {
        const struct worker *w = &d->worker[i];
        struct tb_file_report r = w->report;
        char who[128];
        if (w->ended)
            continue;
        d->e->n_stuck++;
        tb_wait_describe(w->waits_for, who, sizeof(who));
        snprintf(r.why, sizeof(r.why), "not flushed: it waits for %s", who);
        r.error = -ETIMEDOUT;
        if (!r.path[0])
            snprintf(r.path, sizeof(r.path), "a file");
        if (d->report)
            d->report(d->arg, &r);
    }
    d->progress = NULL;
    d->report = NULL;
    return d->error ? d->error : -ETIMEDOUT;
}

/* A snapshot: files that become dirty later are not waited for. */
static int list_files(tb_engine *e, struct drain *d)
{
    if (!d->files)
        d->files = malloc(e->region.n_file_buckets * sizeof(*d->files));
    d->n = d->next = d->done = 0;
    for (uint32_t i = 0; d->files && i < e->region.n_file_buckets; i++)
        if (is_to_drain(&e->region.files[i]) || tb_shared_owes(e, i))
            d->files[d->n++] = i;
    assert(d->n <= e->region.n_file_buckets);
    return d->files ? 0 : -ENOMEM;
}

/*
 * Locked by d->lock. 1: done. 0: it has to wait, and other files are flushed before that.
 * -EAGAIN: no thread can be started.
 */
static int repair(struct drain *d)
{
    const struct worker *w = d->worker;
    begin_worker(d, repair_first);
    while (d->n_workers && !w->ended && !w->waits_for)
        pthread_cond_wait(&d->change, &d->lock);
    return d->n_workers ? w->ended : -EAGAIN;
}

/* Locked by d->lock. Flushes every file that is dirty now. */
static int flush_files(struct drain *d, int threads)
{
    int rc = list_files(d->e, d), before = d->n_workers;
    d->e->flush_threads = d->n ? ((uint32_t)threads + d->n - 1) / d->n : 1; /* few files share the threads */
    d->n_copying_max = threads > 0 ? threads : 1;
    for (int i = 0; !rc && i < 2 * d->n_copying_max && (uint32_t)i < d->n; i++)
        add_worker(d);
    if (!rc && d->n && d->n_workers == before)
        rc = -EAGAIN; /* no thread can be started */
    while (!rc && !all_ended(d, true))
        pthread_cond_wait(&d->change, &d->lock);
    return rc;
}

/* Repair first. If it has to wait for a stopped process, files are flushed before it ends, and once more after. */
static int run(struct drain *d, int threads)
{
    pthread_mutex_lock(&d->lock);
    int repaired = repair(d), rc = repaired < 0 ? repaired : flush_files(d, threads);
    if (!rc && !repaired && all_ended(d, false)) { /* repair ended only now, and may have found more to flush */
        d->n_workers = 0;
        rc = flush_files(d, threads);
    }
    if (!rc)
        rc = all_ended(d, false) ? d->error : give_up(d);
    pthread_mutex_unlock(&d->lock);
    return rc;
}

/* On the heap, not on the stack: if the drain gives up, its threads use it to the end of the process. */
int tb_instance_drain(tb_engine *e, int threads, tb_progress *progress, tb_file_reporter *report, void *arg)
{
    struct drain *d = calloc(1, sizeof(*d));
    if (!d)
        return -ENOMEM;
    *d = (struct drain){.e = e, .progress = progress, .report = report, .arg = arg};
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->change, NULL);
    int rc = run(d, threads);
    if (d->is_given_up)
        return rc;
    free(d->files);
    free(d);
    int rest = tb_waiting_finish(e, NULL, NULL);
    return rc ? rc : rest ? rest : e->n_stuck ? -ETIMEDOUT : 0; /* threads of an earlier drain have not ended yet */
}
