/*
 * The organizer: it counts the epochs of heat and moves the coldest dirty bytes down while
 * programs compute. Only the daemon runs it, a few MiB at a time.
 */
#include "tiering/organizer.h"

#include <errno.h>

#include "buffer/heat.h"
#include "buffer/map.h"
#include "buffer/of_file.h"
#include "buffer/slab.h"
#include "region/counters.h"
#include "tiering/move.h"

#define QUIET_TICKS 2u
#define LOOKS (64u << 10)       /* buffers looked at in one tick */
#define BYTES_A_TICK (4u << 20) /* moved, before programs are looked at again */

/* The measure of an epoch. */
static uint64_t all_capacity(const tb_engine *e)
{
    uint64_t bytes = 0;
    for (uint32_t t = 0; t < e->header->config.n_tiers; t++)
        bytes += e->header->config.tiers[t].capacity;
    return bytes;
}

/* An epoch ends when as many bytes moved as all tiers hold. */
static void watch_traffic(tb_engine *e, struct tb_organizer *o)
{
    uint64_t traffic = tb_bytes_moved(e) + e->header->totals.pfs_read;
    o->quiet = traffic == o->traffic ? o->quiet + 1 : 0;
    o->traffic = traffic;
    if (traffic - o->epoch_traffic < all_capacity(e))
        return;
    o->epoch_traffic = traffic;
    e->header->movement.heat_epoch++;
}

/* The part of a tier that holds what the PFS lacks. */
static double level(const tb_engine *e, uint32_t tier)
{
    uint64_t bytes = tb_layout_tier_bytes(&e->header->layout, tier);
    return bytes ? 1 - (double)tb_tier_room(e, tier, TB_ROOM_ALL) / (double)bytes : 0;
}

/* What a buffer looked like for a moment; a move looks again under the lock. */
struct seen {
    uint32_t file, heat;
    struct tb_buffer_ref ref;
    bool dirty;
};

static TB_UNLOCKED struct seen look(const tb_engine *e, const struct tb_buffer *b)
{
    const uint64_t size = e->header->layout.slab[b->slab].buffer_size;
    return (struct seen){.file = b->file,
                         .heat = tb_heat_seen(e, b),
                         .dirty = b->state == TB_BUFFER_LIVE && b->dirty_hi > b->dirty_lo,
                         .ref = {(uint32_t)(b - e->region.buffers), b->cell, b->cell * size}};
}

/* What is about to be flushed where it is does not move. */
static bool may_go_down(const tb_engine *e, const struct seen *seen, uint32_t limit)
{
    if (!seen->dirty || seen->file >= e->region.n_file_buckets || seen->heat >= limit)
        return false;
    const struct tb_file *f = &e->region.files[seen->file];
    return !f->flusher && !(f->flags & (TB_FILE_QUEUED | TB_FILE_TAKEN));
}

/* The bytes that were moved, to the first lower tier with room. -EHOSTDOWN: a tier in the memory of another node, which is lost. */
static uint64_t move_down(tb_engine *e, const struct seen *seen, uint32_t tier)
{
    int rc = -ENOSPC;
    for (uint32_t to = tier + 1; to < e->header->config.n_tiers && (rc == -ENOSPC || rc == -EHOSTDOWN); to++)
        rc = tb_move(e, seen->file, &seen->ref, to, seen->heat + 1); /* clean bytes as cold as these give way */
    return rc ? 0 : tb_buffer_size(e, &e->region.buffers[seen->ref.buffer]);
}

static const uint32_t limits[] = {1, TB_HEAT_READ, TB_HEAT_WARM, TB_HEAT_KEEP, TB_HEAT_ANY};

/* Goes round the tier and moves what is colder than the limit. After a round in which nothing moved, the limit is raised. */
static void pass_on(struct tb_organizer *o, uint32_t tier, bool moved, uint32_t n_buffers)
{
    o->tier[tier].passed = moved ? 0 : o->tier[tier].passed + 1;
    if (o->tier[tier].passed < n_buffers)
        return;
    uint32_t i = 0;
    while (limits[i] != TB_HEAT_ANY && limits[i] <= o->tier[tier].limit)
        i++;
    assert(limits[i] > o->tier[tier].limit || limits[i] == TB_HEAT_ANY);
    o->tier[tier].limit = limits[i];
    o->tier[tier].passed = 0;
}

/* True where the tick was not enough. */
static bool demote(tb_engine *e, struct tb_organizer *o, uint32_t tier)
{
    const struct tb_layout *l = &e->header->layout;
    uint32_t first = l->slab[l->tier_first_slab[tier]].first_buffer, last = l->tier_first_slab[tier + 1];
    uint32_t n = l->slab[last].first_buffer - first;
    assert(tier + 1 < e->header->config.n_tiers && last < l->n_slabs);
    uint64_t bytes = 0;
    for (uint32_t looks = 0; n && looks < LOOKS && bytes < BYTES_A_TICK; looks++) {
        struct seen seen = look(e, &e->region.buffers[first + o->tier[tier].hand++ % n]);
        uint64_t moved = may_go_down(e, &seen, o->tier[tier].limit) ? move_down(e, &seen, tier) : 0;
        bytes += moved;
        if (moved && level(e, tier) <= e->header->config.organizer.low)
            return o->tier[tier].full = false;
        if (o->tier[tier].limit == TB_HEAT_ANY && !moved && o->tier[tier].passed + 1 == n)
            return false; /* nothing can go */
        pass_on(o, tier, moved, n);
    }
    return true;
}

/* Nothing moves while programs do I/O: `quiet` counts ticks without traffic. */
bool tb_organizer_tick(tb_engine *e, struct tb_organizer *o)
{
    const struct tb_config *c = &e->header->config;
    bool more = false;
    watch_traffic(e, o);
    for (uint32_t t = 0; t + 1 < c->n_tiers && o->quiet >= QUIET_TICKS; t++) {
        if (level(e, t) <= (o->tier[t].full ? c->organizer.low : c->organizer.high)) {
            o->tier[t].full = false;
            continue;
        }
        if (!o->tier[t].full)
            o->tier[t].limit = limits[0];
        o->tier[t].full = true;
        more |= demote(e, o, t);
    }
    return more;
}
