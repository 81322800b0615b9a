/*
 * The bytes of a buffer: memory of the region for a memory tier, a slab's file for a
 * directory tier, another node's memory for a remote tier. All charge the tier's device model, so that
 * a modelled tier is as slow as the one it models.
 */
#include "buffer/medium.h"

#include <errno.h>
#include <string.h>

#include "copy/copy.h"
#include "io/whole.h"

uint64_t tb_medium_offset(const tb_engine *e, const struct tb_buffer *b, uint32_t lo)
{
    const struct tb_layout_slab *l = tb_slab_layout(e, b);
    return l->data_offset + (uint64_t)(tb_buffer_number(e, b) - l->first_buffer) * l->buffer_size + lo;
}

static TB_UNLOCKED void load(const char *at)
{
    (void)*(const volatile char *)at;
}

/*
 * Without huge pages a new process takes a page fault for every page of the region that it
 * touches. A fault of a load maps the pages around it too, those of one window, and for
 * stores as well; a fault of a store maps one page. So the first use of each window is a
 * load. The bits that remember it are this process's own.
 */
static void map_windows(tb_engine *e, const char *from, const char *to)
{
    uintptr_t first = (uintptr_t)e->region.base / TB_WINDOW;
    for (uintptr_t w = (uintptr_t)from / TB_WINDOW; w <= ((uintptr_t)to - 1) / TB_WINDOW; w++) {
        const char *start = (const char *)(w * TB_WINDOW);
        _Atomic uint8_t *bits = &e->mapped[(w - first) / 8];
        uint8_t bit = (uint8_t)(1u << ((w - first) % 8));
        if (atomic_load_explicit(bits, memory_order_relaxed) & bit)
            continue;
        load(start > from ? start : from);
        atomic_fetch_or_explicit(bits, bit, memory_order_relaxed);
    }
}

static char *memory_of(tb_engine *e, const struct tb_buffer *b, uint32_t lo, uint32_t n)
{
    char *at = e->region.base + tb_medium_offset(e, b, lo);
    map_windows(e, at, at + n);
    return at;
}

/* Not of a directory: its chain does it. */
static void charge(tb_engine *e, uint32_t tier, enum tb_charge kind, uint32_t n)
{
    const struct tb_config_tier *t = &e->header->config.tiers[tier];
    if (t->modelled)
        tb_model_charge(&t->model, &e->header->clocks.tier[tier], kind, n);
}

int tb_medium_read(tb_engine *e, const struct tb_buffer *b, uint32_t lo, uint32_t n, void *to)
{
    uint32_t tier = tb_slab_layout(e, b)->tier;
    assert(lo + n <= tb_buffer_size(e, b));
    if (tb_tier_is_memory(e, tier)) {
        tb_copy_out(e->copy, to, memory_of(e, b, lo, n), n);
        charge(e, tier, TB_CHARGE_READ, n);
        return 0;
    }
    if (tb_buffer_is_remote(e, b)) {
        int rc = e->borrow->read(e, b, lo, n, to);
        charge(e, tier, TB_CHARGE_READ, n);
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
        tb_copy_in(e->copy, memory_of(e, b, lo, n), from, n);
        charge(e, tier, TB_CHARGE_WRITE, n);
        return 0;
    }
    if (tb_buffer_is_remote(e, b)) {
        int rc = e->borrow->write(e, b, lo, n, from);
        charge(e, tier, TB_CHARGE_WRITE, n);
        return rc;
    }
    return tb_io_write_all(e->tier[tier], e->slab_fd[b->slab], from, n, tb_medium_offset(e, b, lo));
}
