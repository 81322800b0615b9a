/*
 * The bytes of a buffer: memory of the region for a memory tier, a slab's file for a
 * directory tier, another node's memory for a remote tier. All charge the tier's device model, so that
 * a modelled tier is as slow as the one it models.
 */
#include "buffer/medium.h"

#include <errno.h>
#include <string.h>

#include "io/whole.h"

static TB_UNLOCKED void load(const char *at)
{
    (void)*(const volatile char *)at;
}

void tb_medium_map_window(tb_engine *e, uintptr_t window, const char *from)
{
    const char *start = (const char *)(window * TB_WINDOW);
    struct tb_window_bit at = tb_window_bit(e, window);
    load(start > from ? start : from);
    atomic_fetch_or_explicit(at.bits, at.bit, memory_order_relaxed);
}

int tb_medium_read(tb_engine *e, const struct tb_buffer *b, uint32_t lo, uint32_t n, void *to)
{
    uint32_t tier = tb_slab_layout(e, b)->tier;
    assert(lo + n <= tb_buffer_size(e, b));
    if (tb_tier_is_memory(e, tier)) {
        tb_medium_copy_out(e, b, lo, n, to);
        return 0;
    }
    if (tb_buffer_is_remote(e, b)) {
        int rc = e->borrow->read(e, b, lo, n, to);
        tb_medium_charge(e, tier, TB_CHARGE_READ, n);
        return rc;
    }
    ssize_t r = tb_io_read_all(e->tier[tier], e->slab_fd[b->slab], to, n, tb_medium_offset(e, b, lo));
    return r < 0 ? (int)r : r == (ssize_t)n ? 0 : -EIO;
}

void tb_medium_will_read(tb_engine *e, const struct tb_buffer *b, uint32_t lo, uint32_t n)
{
    uint32_t tier = tb_slab_layout(e, b)->tier;
    assert(tb_tier_is_directory(e, tier) && lo + n <= tb_buffer_size(e, b));
    TB_IO(e->tier[tier], will_read, e->slab_fd[b->slab], (off_t)tb_medium_offset(e, b, lo), n);
}

int tb_medium_write(tb_engine *e, const struct tb_buffer *b, uint32_t lo, uint32_t n, const void *from)
{
    uint32_t tier = tb_slab_layout(e, b)->tier;
    assert(lo + n <= tb_buffer_size(e, b));
    if (tb_tier_is_memory(e, tier)) {
        tb_medium_copy_in(e, b, lo, n, from);
        return 0;
    }
    if (tb_buffer_is_remote(e, b)) {
        int rc = e->borrow->write(e, b, lo, n, from);
        tb_medium_charge(e, tier, TB_CHARGE_WRITE, n);
        return rc;
    }
    return tb_io_write_own(e->tier[tier], e->slab_fd[b->slab], from, n, tb_medium_offset(e, b, lo));
}
