/* Drain: flush every dirty persistent file, with several threads, and say what failed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "file.h"
#include "flush.h"
#include "instance.h"
#include "repair.h"
#include "waiting.h"

#define MAX_THREADS 64

struct drain {
    tb_engine *e;
    uint32_t *files;
    uint32_t n;
    _Atomic uint32_t next, done;
    _Atomic int error;
    tb_progress *progress;
    tb_file_reporter *report;
    void *arg;
    pthread_mutex_t say; /* one message at a time */
};

static TB_UNLOCKED bool is_to_drain(const struct tb_file *f)
{
    return f->magic == TB_FILE_MAGIC && (tb_file_has_news(f) || f->flusher) && !(f->flags & (TB_FILE_SCRATCH | TB_FILE_UNLINKED));
}

/* One that waits is known to the user by the name it waits for. */
static void show_name(tb_engine *e, struct tb_file_report *r)
{
    char name[TB_PATH_MAX];
    if (tb_waiting_shown(e, r->path, name, sizeof(name)))
        memcpy(r->path, name, sizeof(name));
}

/* Since the list was made the record may have become free, or another file's. */
static void flush_one(tb_engine *e, uint32_t file, struct tb_file_report *r)
{
    struct tb_file *f = &e->region.files[file];
    if (!tb_file_claim(e, file))
        return;
    if (is_to_drain(f)) {
        int stripe = tb_file_lock(e, file);
        tb_file_path(e, f, r->path, sizeof(r->path));
        tb_file_unlock(e, stripe);
        show_name(e, r);
        struct tb_flush_result result = tb_flush_giving_way(e, file, -1, true);
        r->bytes = result.bytes;
        r->error = result.error;
    } else {
        tb_file_unclaim(e, file);
    }
}

static void drain_one(struct drain *d, uint32_t file)
{
    struct tb_file_report r = {.error = 0};
    flush_one(d->e, file, &r);
    pthread_mutex_lock(&d->say);
    if (r.error) {
        d->error = d->error ? d->error : r.error;
        if (d->report)
            d->report(d->arg, &r);
    }
    d->done++;
    if (d->progress)
        d->progress(d->arg, "draining files", d->done, d->n);
    pthread_mutex_unlock(&d->say);
}

static void *drain_loop(void *arg)
{
    struct drain *d = arg;
    for (uint32_t i; (i = d->next++) < d->n;)
        drain_one(d, d->files[i]);
    return NULL;
}

int tb_instance_drain(tb_engine *e, int threads, tb_progress *progress, tb_file_reporter *report, void *arg)
{
    struct drain d = {.e = e, .progress = progress, .report = report, .arg = arg, .say = PTHREAD_MUTEX_INITIALIZER};
    pthread_t others[MAX_THREADS];
    int n = 0;
    tb_repair(e);
    d.files = malloc(e->region.n_file_buckets * sizeof(*d.files));
    if (!d.files)
        return -ENOMEM;
    for (uint32_t i = 0; i < e->region.n_file_buckets; i++)
        if (is_to_drain(&e->region.files[i]))
            d.files[d.n++] = i;
    e->flush_threads = d.n ? ((uint32_t)threads + d.n - 1) / d.n : 1; /* few files share the threads */
    while (n < threads - 1 && n < MAX_THREADS && (uint32_t)n + 1 < d.n && !pthread_create(&others[n], NULL, drain_loop, &d))
        n++;
    drain_loop(&d);
    while (n--)
        pthread_join(others[n], NULL);
    free(d.files);
    int rest = tb_waiting_finish(e, NULL, NULL);
    return d.error ? d.error : rest;
}
