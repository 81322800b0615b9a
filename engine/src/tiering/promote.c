/*
 * Promotion of buffers that are read again, by the reader itself, before its read. It may
 * fail at any point: the bytes are then read from where they are.
 */
#include "tiering/promote.h"

#include <errno.h>

#include "buffer/heat.h"
#include "buffer/map.h"
#include "buffer/of_file.h"
#include "tiering/move.h"

/* As warm as this read will make it. */
static bool is_warm(const tb_engine *e, const struct tb_buffer *b, uint64_t n)
{
    return tb_heat_of(e, b) + tb_heat_gain(tb_buffer_size(e, b), n, TB_HEAT_READ) >= TB_HEAT_WARM;
}

/* Bytes a second that the tier's model or profile says; 0: nothing is known. */
static double read_bandwidth(const tb_engine *e, uint32_t tier)
{
    const struct tb_config_tier *t = &tb_config_of(e)->tiers[tier];
    return t->modelled ? t->model.read_bandwidth : t->profiled ? t->profile.read_bandwidth : 0;
}

/* What of the read is in each tier. */
struct spread {
    uint64_t bytes[TB_MAX_TIERS];
};

/*
 * Tiers are read side by side (tiering/ahead.h), so bytes go up only until the top one would take longer than the tier
 * that they come from. Where figures are not known all go up.
 */
static bool is_faster_above(const tb_engine *e, const struct spread *s, uint32_t tier, uint64_t n)
{
    double above = read_bandwidth(e, 0), here = read_bandwidth(e, tier);
    return above <= 0 || here <= 0 || (double)(s->bytes[0] + n) / above < (double)s->bytes[tier] / here;
}

/* Of the warm buffers those with which the read gets faster. */
static uint32_t choose(const tb_engine *e, struct spread *s, const uint64_t *bytes, struct tb_buffer_ref *refs, uint32_t n)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t tier = tb_slab_layout(e, &e->region.buffers[refs[i].buffer])->tier;
        if (!is_faster_above(e, s, tier, bytes[i]))
            continue;
        s->bytes[0] += bytes[i];
        s->bytes[tier] -= bytes[i];
        refs[kept++] = refs[i];
    }
    return kept;
}

uint32_t tb_promote_find(tb_engine *e, uint32_t file, uint64_t offset, uint64_t n, struct tb_buffer_ref *out)
{
    uint64_t bytes[TB_PROMOTE_MAX];
    struct spread s = {{0}};
    uint32_t found = 0;
    assert(n > 0);
    if (!e->header->config.organizer.enabled)
        return 0;
    for (uint64_t at = offset, end; at < offset + n && found < TB_PROMOTE_MAX; at = end) {
        const struct tb_buffer *b = tb_map_owner(e, file, at, offset + n, &end);
        if (!b)
            continue;
        s.bytes[tb_slab_layout(e, b)->tier] += end - at;
        if (tb_slab_layout(e, b)->tier > 0 && is_warm(e, b, end - at) && b->valid_hi > b->valid_lo) {
            bytes[found] = end - at;
            out[found++] = (struct tb_buffer_ref){tb_buffer_number(e, b), b->cell, tb_buffer_start(e, b)};
        }
    }
    return choose(e, &s, bytes, out, found);
}

/*
 * A move that fails is no error: the bytes are read from where they are. The buffer is
 * looked at without its lock, so it may be another file's by now: the move sees that.
 */
void tb_promote(tb_engine *e, uint32_t file, const struct tb_buffer_ref *refs, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct tb_buffer *b = &e->region.buffers[refs[i].buffer];
        uint32_t from = tb_slab_layout(e, b)->tier, limit = tb_heat_seen(e, b) / 2;
        for (uint32_t to = 0; to < from && tb_move(e, file, &refs[i], to, limit) == -ENOSPC; to++)
            ;
    }
}
