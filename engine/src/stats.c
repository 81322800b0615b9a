/* Counters as the public structure, and samples of the tiers over time. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "client.h"
#include "instance.h"
#include "stats.h"

static uint64_t tier_capacity(const tb_engine *e, uint32_t t)
{
    const struct tb_layout *l = &e->header->layout;
    uint64_t bytes = 0;
    for (uint32_t s = l->tier_first_slab[t], end = s + e->header->config.tiers[t].n_slabs; s < end; s++)
        bytes += l->slab[s].n_buffers * l->slab[s].buffer_size;
    return bytes;
}

static void read_tier(const tb_engine *e, uint32_t t, struct tb_tier_stats *out)
{
    const struct tb_tier_counters *c = &e->header->tier[t];
    for (uint32_t i = 0; i < e->region.n_clients; i++) { /* a slot's counts go on under its next client */
        const struct tb_transfers *moved = &e->region.clients[i].tier[t];
        out->bytes_in += moved->bytes_in;
        out->bytes_out += moved->bytes_out;
        out->writes += moved->writes;
        out->hits += moved->hits;
    }
    snprintf(out->name, sizeof(out->name), "%.31s", e->header->config.tiers[t].name);
    out->capacity = tier_capacity(e, t);
    out->used = c->used;
    out->dirty = c->dirty;
    out->moved_in = c->moved_in;
    out->flushed = c->flushed;
    out->waits = c->waits;
}

void tb_engine_stats(tb_engine *e, struct tb_stats *out)
{
    const struct tb_header *h = e->header;
    memset(out, 0, sizeof(*out));
    out->n_tiers = h->config.n_tiers;
    out->n_files = h->n_files;
    out->pfs_bytes_written = h->pfs_written;
    out->pfs_bytes_read = h->pfs_read;
    out->spilled = h->spilled;
    out->staged = h->staged;
    out->prefetched = h->prefetched;
    out->fsyncs = h->fsyncs;
    out->passed = h->passed;
    for (uint32_t i = 0, seen = 0; i < e->region.n_file_buckets && seen < out->n_files; i++) {
        const struct tb_file *f = &e->region.files[i]; /* those in use stand in front, mostly */
        bool used = f->magic == TB_FILE_MAGIC;
        seen += used;
        out->n_dirty_files += used && f->n_dirty;
        out->n_errors += used && f->error;
    }
    for (uint32_t t = 0; t < out->n_tiers; t++)
        read_tier(e, t, &out->tier[t]);
}

uint64_t tb_bytes_in(const tb_engine *e)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < e->region.n_clients; i++)
        for (uint32_t t = 0; t < e->header->config.n_tiers; t++)
            bytes += e->region.clients[i].tier[t].bytes_in;
    return bytes;
}

uint64_t tb_bytes_moved(const tb_engine *e)
{
    uint64_t bytes = tb_bytes_in(e);
    for (uint32_t i = 0; i < e->region.n_clients; i++)
        for (uint32_t t = 0; t < e->header->config.n_tiers; t++)
            bytes += e->region.clients[i].tier[t].bytes_out;
    return bytes;
}

double tb_seconds_since_start(const tb_engine *e)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9 - (double)e->header->started_ns * 1e-9;
}

double tb_instance_age(tb_engine *e)
{
    return tb_seconds_since_start(e);
}

/* A full table keeps every other sample: its span doubles, its shape stays. */
static void thin_out(tb_engine *e)
{
    struct tb_header *h = e->header;
    for (uint32_t i = 0; i < h->n_samples / 2; i++)
        e->region.samples[i] = e->region.samples[2 * i];
    h->n_samples /= 2;
    h->sample_interval *= 2;
}

void tb_sample_take(tb_engine *e)
{
    struct tb_header *h = e->header;
    struct tb_sample s = {.seconds = tb_seconds_since_start(e), .pfs_bytes_written = h->pfs_written};
    for (uint32_t t = 0; t < h->config.n_tiers; t++) {
        s.used[t] = h->tier[t].used;
        s.dirty[t] = h->tier[t].dirty;
    }
    tb_lock_take(&h->samples_lock);
    if (h->n_samples == TB_SAMPLES)
        thin_out(e);
    e->region.samples[h->n_samples++] = s;
    tb_lock_drop(&h->samples_lock);
}

int tb_instance_samples(tb_engine *e, struct tb_sample *out, int max)
{
    tb_lock_take(&e->header->samples_lock);
    int n = (int)e->header->n_samples < max ? (int)e->header->n_samples : max;
    memcpy(out, e->region.samples, (size_t)n * sizeof(*out));
    tb_lock_drop(&e->header->samples_lock);
    return n;
}
