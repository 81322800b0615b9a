/*
 * What a read will ask of directory tiers, told to them before the first byte is copied (tiering/ahead.h). So the kernel reads
 * from all devices at once, while the copies are made one after the other. The chunk is locked from the first look to the last
 * copy, so both see the same buffers.
 */
#include "tiering/ahead.h"

#include "buffer/interval.h"
#include "buffer/map.h"
#include "buffer/medium.h"

/* A part of the read: the buffer that holds all of it, or NULL. */
struct part {
    const struct tb_buffer *buffer;
    uint32_t lo, n;
    uint64_t end;
};

static struct part part_at(tb_engine *e, uint32_t file, uint64_t at, uint64_t limit)
{
    struct part p = {0};
    uint32_t from, to;
    const struct tb_buffer *b = tb_map_owner(e, file, at, limit, &p.end);
    assert(p.end > at && p.end <= limit);
    if (!b)
        return p;
    p.lo = (uint32_t)(at - tb_buffer_start(e, b));
    p.n = (uint32_t)(p.end - at);
    if (tb_interval_valid(e, b, p.lo, p.lo + p.n, &from, &to) && to - from == p.n)
        p.buffer = b;
    return p;
}

static bool is_in_directory(const tb_engine *e, const struct tb_buffer *b)
{
    return tb_tier_is_directory(e, tb_slab_layout(e, b)->tier);
}

/* Several parts, all of them in buffers, and a device is asked for one of them at least. */
static bool is_worth_it(tb_engine *e, uint32_t file, uint64_t offset, uint64_t limit)
{
    uint32_t parts = 0, directories = 0;
    struct part p;
    for (uint64_t at = offset; at < limit; at = p.end, parts++) {
        p = part_at(e, file, at, limit);
        if (!p.buffer)
            return false;
        directories += is_in_directory(e, p.buffer);
    }
    return parts > 1 && directories;
}

bool tb_ahead_begin(tb_engine *e, uint32_t file, size_t n, uint64_t offset)
{
    struct part p;
    if (!is_worth_it(e, file, offset, offset + n))
        return false;
    for (uint64_t at = offset; at < offset + n; at = p.end) {
        p = part_at(e, file, at, offset + n);
        assert(p.buffer); /* the chunk is locked, so the parts are those of the first look */
        if (is_in_directory(e, p.buffer))
            tb_medium_will_read(e, p.buffer, p.lo, p.n);
    }
    tb_model_together_begin();
    return true;
}

void tb_ahead_end(void)
{
    tb_model_together_end();
}
