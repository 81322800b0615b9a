/*
 * The bytes of a buffer, wherever they are: copied in the region for a memory
 * tier, read and written in the slab's file through the tier's chain for a
 * directory tier.  Charges the tier's device model either way.
 */
#ifndef TB_MEDIUM_H
#define TB_MEDIUM_H

#include "copy/copy.h"
#include "region/handle.h"

/* 0 or negative errno: -EIO for a short transfer, -EHOSTDOWN where the node that lends its memory is lost. */
int tb_medium_read(tb_engine *e, const struct tb_buffer *b, uint32_t lo, uint32_t n, void *to);
int tb_medium_write(tb_engine *e, const struct tb_buffer *b, uint32_t lo, uint32_t n, const void *from);

/* Bytes of a directory tier that are read next: its device may begin. */
void tb_medium_will_read(tb_engine *e, const struct tb_buffer *b, uint32_t lo, uint32_t n);

/* Where byte `lo` is in the slab's file, or in the region. */
static inline uint64_t tb_medium_offset(const tb_engine *e, const struct tb_buffer *b, uint32_t lo)
{
    const struct tb_layout_slab *l = tb_slab_layout(e, b);
    return l->data_offset + (uint64_t)(tb_buffer_number(e, b) - l->first_buffer) * l->buffer_size + lo;
}

/* Where this process remembers whether it has mapped the pages of a window of addresses. */
struct tb_window_bit {
    _Atomic uint8_t *bits;
    uint8_t bit;
};
static inline struct tb_window_bit tb_window_bit(const tb_engine *e, uintptr_t window)
{
    uintptr_t n = window - (uintptr_t)e->region.base / TB_WINDOW;
    return (struct tb_window_bit){&e->mapped[n / 8], (uint8_t)(1u << n % 8)};
}
void tb_medium_map_window(tb_engine *e, uintptr_t window, const char *from);

/*
 * The bytes of a buffer of a memory tier. Without huge pages a new process takes a page fault for every page of the region that it
 * touches. A fault of a load maps the pages around it too, those of one window, and for stores as well; a fault of a store maps one
 * page. So the first use of each window is a load.
 */
static inline char *tb_medium_memory(tb_engine *e, const struct tb_buffer *b, uint32_t lo, uint32_t n)
{
    char *at = e->region.base + tb_medium_offset(e, b, lo);
    for (uintptr_t w = (uintptr_t)at / TB_WINDOW; w <= ((uintptr_t)at + n - 1) / TB_WINDOW; w++) {
        struct tb_window_bit known = tb_window_bit(e, w);
        if (!(atomic_load_explicit(known.bits, memory_order_relaxed) & known.bit))
            tb_medium_map_window(e, w, at);
    }
    return at;
}

/* Not of a directory: its chain does it. */
static inline void tb_medium_charge(tb_engine *e, uint32_t tier, enum tb_charge kind, uint32_t n)
{
    const struct tb_config_tier *t = &e->header->config.tiers[tier];
    if (t->modelled)
        tb_model_charge(&t->model, &e->header->clocks.tier[tier], kind, n);
}

/* tb_medium_read and tb_medium_write of a buffer of a memory tier. */
static inline void tb_medium_copy_out(tb_engine *e, const struct tb_buffer *b, uint32_t lo, uint32_t n, void *to)
{
    tb_copy_out(&e->copy, to, tb_medium_memory(e, b, lo, n), n);
    tb_medium_charge(e, tb_slab_layout(e, b)->tier, TB_CHARGE_READ, n);
}

/* Bytes of it will be replaced, and a locked instruction comes before (copy/copy.h). */
static inline void tb_medium_will_come(const tb_engine *e, const struct tb_buffer *b, uint32_t lo, size_t n)
{
    tb_copy_will_come(&e->copy, e->region.base + tb_medium_offset(e, b, lo), n);
}

static inline void tb_medium_copy_in(tb_engine *e, const struct tb_buffer *b, uint32_t lo, uint32_t n, const void *from)
{
    tb_copy_in(&e->copy, tb_medium_memory(e, b, lo, n), from, n);
    tb_medium_charge(e, tb_slab_layout(e, b)->tier, TB_CHARGE_WRITE, n);
}

#endif
