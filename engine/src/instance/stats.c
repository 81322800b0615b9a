/*
 * The counters as the public structure, and samples of the tiers over time. Counters are
 * read without a lock: each is right, but they are not of one moment.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "buffer/slab.h"
#include "instance/instance.h"
#include "instance/stats.h"
#include "region/counters.h"
#include "region/handle.h"
#include "region/sample.h"

/* The counts of a slot go on under its next client, so nothing is lost when a client ends. */
static struct tb_tier_stats transfers(const tb_engine *e, uint32_t t)
{
    struct tb_moved moved = tb_moved_of(e, t);
    return (struct tb_tier_stats){.bytes_in = moved.bytes_in, .bytes_out = moved.bytes_out, .writes = moved.writes, .hits = moved.hits};
}

static void read_tier(const tb_engine *e, uint32_t t, struct tb_tier_stats *out)
{
    const struct tb_tier_counters *c = &e->header->tier[t];
    *out = transfers(e, t);
    snprintf(out->name, sizeof(out->name), "%.31s", e->header->config.tiers[t].name);
    out->capacity = tb_layout_tier_bytes(&e->header->layout, t);
    out->used = tb_tier_used(e, t);
    out->dirty = tb_tier_dirty(e->header, t);
    out->moved_in = tb_moved_in(e, t);
    out->flushed = c->flushed;
    out->waits = c->waits;
}

/* Stops when all records in use were seen, so a table with few files costs little. */
void tb_engine_stats(tb_engine *e, struct tb_stats *out)
{
    const struct tb_header *h = e->header;
    memset(out, 0, sizeof(*out));
    out->n_tiers = h->config.n_tiers;
    out->n_files = h->files.n;
    out->pfs_bytes_written = h->totals.pfs_written;
    out->pfs_bytes_read = h->totals.pfs_read;
    out->spilled = h->totals.spilled;
    out->staged = h->totals.staged;
    out->prefetched = h->totals.prefetched;
    out->remote_read = h->totals.remote_read;
    out->fsyncs = h->totals.fsyncs;
    out->passed = h->totals.passed;
    out->fallbacks = h->totals.fallbacks;
    for (uint32_t i = 0, seen = 0; i < e->region.n_file_buckets && seen < out->n_files; i++) {
        const struct tb_file *f = &e->region.files[i]; /* records in use are mostly in front */
        bool used = f->magic == TB_FILE_MAGIC;
        seen += used;
        out->n_dirty_files += used && f->n_dirty;
        out->n_errors += used && f->error;
    }
    for (uint32_t t = 0; t < out->n_tiers; t++)
        read_tier(e, t, &out->tier[t]);
}

double tb_instance_age(tb_engine *e)
{
    return tb_seconds_since_start(e);
}

/* A full table keeps every second sample: it covers twice the time with the same shape. Locked by sampling.lock. */
static void thin_out(tb_engine *e)
{
    struct tb_header *h = e->header;
    for (uint32_t i = 0; i < h->sampling.n / 2; i++)
        e->region.samples[i] = e->region.samples[2 * i];
    h->sampling.n /= 2;
    h->sampling.interval *= 2;
}

/* Totals since the start, not differences: a sample that is left out loses nothing but detail. */
static struct tb_sample sample(const tb_engine *e)
{
    const struct tb_header *h = e->header;
    struct tb_sample s = {.seconds = tb_seconds_since_start(e),
                          .pfs_bytes_written = h->totals.pfs_written,
                          .pfs_bytes_read = h->totals.pfs_read,
                          .spilled = h->totals.spilled,
                          .staged = h->totals.staged};
    for (uint32_t t = 0; t < h->config.n_tiers; t++) {
        struct tb_tier_stats moved = transfers(e, t);
        s.tier[t] = (struct tb_tier_sample){.used = tb_tier_used(e, t),
                                            .dirty = tb_tier_dirty(h, t),
                                            .bytes_in = moved.bytes_in,
                                            .bytes_out = moved.bytes_out,
                                            .flushed = h->tier[t].flushed};
        for (uint32_t to = 0; to < h->config.n_tiers; to++)
            s.tier[t].moved_to[to] = h->tier[t].moved_to[to];
    }
    return s;
}

/*
 * Only the daemon takes samples, so the lock is there for readers. If killed inside, the table
 * holds samples twice or of another distance: they are for reports, and nothing relies on them.
 */
void tb_sample_take(tb_engine *e)
{
    struct tb_header *h = e->header;
    struct tb_sample s = sample(e);
    tb_lock_take(&h->sampling.lock);
    if (h->sampling.n == TB_SAMPLES)
        thin_out(e);
    assert(h->sampling.n < TB_SAMPLES);
    e->region.samples[h->sampling.n++] = s;
    tb_lock_drop(&h->sampling.lock);
}

/* At most `max`, the last of them made now. */
int tb_instance_samples(tb_engine *e, struct tb_sample *out, int max)
{
    tb_lock_take(&e->header->sampling.lock);
    assert(max > 0);
    int n = (int)e->header->sampling.n < max ? (int)e->header->sampling.n : max - 1;
    memcpy(out, e->region.samples, (size_t)n * sizeof(*out));
    tb_lock_drop(&e->header->sampling.lock);
    out[n] = sample(e); /* the last is of this moment, so that it agrees with the counters */
    return n + 1;
}
