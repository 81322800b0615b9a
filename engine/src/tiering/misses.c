/*
 * Ghosts: pages that were read recently and were in no buffer. A second miss of the same
 * page makes it worth a buffer. The table may forget and may be wrong; it is changed
 * without a lock.
 */
#include "region/mix.h"
#include "tiering/misses.h"

#define WAYS 8u
#define PAGE TB_BLOCK_MIN

static uint64_t key_of(const tb_engine *e, uint32_t file, uint64_t frame)
{
    const struct tb_file *f = &e->region.files[file];
    uint64_t identity = tb_mix64(f->inode ^ tb_mix64(f->device + (uint64_t)f->birth_ns));
    return tb_mix64(identity ^ frame) | 1; /* 0 is an empty way */
}

/* Two processes may take the same way at once: one of them is forgotten, which is allowed. */
static struct tb_ghost *ghost_of(tb_engine *e, uint64_t key)
{
    struct tb_ghost *set = &e->region.ghosts[(uint32_t)(key >> 32) % (e->region.n_ghosts / WAYS) * WAYS];
    for (uint32_t w = 0; w < WAYS; w++)
        if (atomic_load_explicit(&set[w].key, memory_order_relaxed) == key)
            return &set[w];
    struct tb_ghost *g = &set[atomic_fetch_add_explicit(&e->header->movement.ghost_hand, 1, memory_order_relaxed) % WAYS];
    for (uint32_t i = 0; i < sizeof(g->seen) / sizeof(g->seen[0]); i++)
        atomic_store_explicit(&g->seen[i], 0, memory_order_relaxed);
    atomic_store_explicit(&g->key, key, memory_order_relaxed);
    return g;
}

/* Bits of all pages are set; the first page decides. */
bool tb_ghost_meet(tb_engine *e, uint32_t file, uint64_t offset, uint64_t n)
{
    struct tb_ghost *g = NULL;
    bool again = false;
    uint64_t end = (offset + n + PAGE - 1) / PAGE, first = (offset + PAGE - 1) / PAGE; /* the first that begins in the range */
    first = first < end ? first : offset / PAGE;
    assert(first < end);
    for (uint64_t page = first; page < end; page++) {
        uint64_t per_frame = TB_GHOST_FRAME / PAGE, bit = page % per_frame, mask = 1ull << bit % 64;
        if (page == first || bit == 0)
            g = ghost_of(e, key_of(e, file, page / per_frame));
        uint64_t before = atomic_fetch_or_explicit(&g->seen[bit / 64], mask, memory_order_relaxed);
        if (page == first)
            again = before & mask;
    }
    return again;
}
