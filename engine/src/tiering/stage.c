/*
 * Stage-in: bytes that were read from the backing file stay in a buffer, if they were
 * missed before or a hint says so. The chunk is locked all the while.
 */
#include "tiering/stage.h"

#include <errno.h>
#include <string.h>

#include "base/kill_point.h"
#include "base/scratch.h"
#include "buffer/heat.h"
#include "buffer/interval.h"
#include "buffer/map.h"
#include "buffer/medium.h"
#include "buffer/slab.h"
#include "flush/backing.h"
#include "tiering/misses.h"

#define PAGE TB_BLOCK_MIN /* every cell is a multiple: a page is owned as a whole or not at all */

/* Notes the miss also when the answer is no. */
bool tb_stage_wanted(struct tb_target *t, uint64_t offset, uint64_t n)
{
    tb_engine *e = t->engine;
    uint32_t flags = e->region.files[t->file].flags;
    t->missed = true;
    if (!e->header->config.organizer.enabled || t->hint == TB_HINT_ONCE || flags & (TB_FILE_SCRATCH | TB_FILE_COHERENT))
        return false;
    bool again = tb_ghost_meet(e, t->file, offset, n);
    return flags & TB_FILE_SYNC || t->hint == TB_HINT_KEEP || (again && !(t->continues && offset % PAGE));
}

/* Free buffers of all tiers before clean ones of any. */
static struct tb_buffer *take(tb_engine *e, uint64_t bytes, uint32_t limit)
{
    struct tb_buffer *b = NULL;
    for (uint32_t t = 0; t < e->header->config.n_tiers && !b; t++)
        b = tb_tier_take(e, t, bytes, 0);
    for (uint32_t t = 0; t < e->header->config.n_tiers && !b && limit; t++)
        b = tb_tier_take(e, t, bytes, limit);
    return b;
}

/* The first bytes of a gap into a new buffer; how many it took. */
static uint64_t publish_one(tb_engine *e, uint32_t file, const struct tb_staging *s, const char *bytes, uint64_t n, uint64_t offset)
{
    struct tb_buffer *b = take(e, n, s->limit);
    if (!b)
        return 0;
    uint64_t size = tb_buffer_size(e, b), cell = offset / size, end = (cell + 1) * size;
    uint32_t lo = (uint32_t)(offset % size), take = (uint32_t)((end < offset + n ? end : offset + n) - offset);
    if (tb_medium_write(e, b, lo, take, bytes)) {
        tb_slab_give(e, b);
        return 0;
    }
    assert(take > 0 && take <= n && lo + take <= size);
    tb_interval_note(e, b, lo, lo + take, false);
    tb_heat_set(e, b, s->heat, s->ahead);
    b->flags = s->keep ? TB_BUFFER_KEEP : 0;
    tb_map_publish(e, b, file, cell);
    return take;
}

/* No other process saw them: the chunk was locked before they were published. */
static void withdraw(tb_engine *e, uint32_t file, uint64_t n, uint64_t offset)
{
    for (uint64_t at = offset, end; at < offset + n; at = end) {
        struct tb_buffer *b = tb_map_owner(e, file, at, offset + n, &end);
        assert(b && tb_buffer_is_clean(b));
        tb_map_drop(e, b);
    }
}

uint64_t tb_stage_limit(const tb_engine *e, uint32_t file, uint64_t offset, uint64_t n)
{
    const struct tb_file *f = &e->region.files[file];
    uint64_t size = f->flags & TB_FILE_CUTTING ? 0 : f->size;
    return size <= offset ? 0 : size - offset < n ? size - offset : n;
}

uint64_t tb_stage_publish(tb_engine *e, uint32_t file, const struct tb_staging *s, const char *bytes, uint64_t n, uint64_t offset)
{
    uint64_t done = 0, took;
    n = tb_stage_limit(e, file, offset, n);
    while (done < n && (took = publish_one(e, file, s, bytes + done, n - done, offset + done)))
        done += took;
    /*
     * published before `voided` is read: a concurrent invalidation either saw our buffers
     * and dropped them, or we see its count
     */
    if (done && e->header->movement.voided != s->voided) {
        withdraw(e, file, done, offset);
        return 0;
    }
    e->header->totals.staged += done;
    return done;
}

/* Whole pages are read, so that a second read of the same page finds all of it. */
int tb_stage_read(struct tb_target *t, char *to, uint64_t n, uint64_t offset)
{
    tb_engine *e = t->engine;
    uint32_t voided = e->header->movement.voided; /* before the file's flags are asked */
    if (!tb_target_is_here(t, n, offset))
        return -EREMOTE; /* the caller comes again, and that is no second miss */
    if (!tb_stage_wanted(t, offset, n))
        return tb_target_read_out(t, to, n, offset);
    struct tb_staging s = {.voided = voided, .heat = TB_HEAT_READ, .limit = TB_HEAT_READ, .keep = t->hint == TB_HINT_KEEP};
    uint64_t size = e->region.files[t->file].size, lo = offset / PAGE * PAGE, hi = (offset + n + PAGE - 1) / PAGE * PAGE;
    hi = hi < size ? hi : size > offset + n ? size : offset + n;
    char *bytes = lo == offset && hi == offset + n ? to : tb_scratch_bytes(hi - lo);
    if (!bytes)
        return -ENOMEM;
    assert(lo <= offset && offset + n <= hi);
    int rc = tb_target_read(t, bytes, hi - lo, lo);
    if (rc)
        return rc;
    TB_MEETING("bytes fetched");
    tb_stage_publish(e, t->file, &s, bytes, hi - lo, lo);
    if (bytes != to)
        memcpy(to, bytes + (offset - lo), n);
    return 0;
}
