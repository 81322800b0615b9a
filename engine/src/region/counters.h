/*
 * What a client counts of its transfers, and sums of what clients and tiers count.
 */
#ifndef TB_REGION_COUNTERS_H
#define TB_REGION_COUNTERS_H

#include "region/handle.h"

/*
 * Is this thread the first of its process? It counts in counters of its own by plain loads and stores. A locked instruction, as all
 * other threads need, would wait for all loads and stores before it, also for those of a copy, and most programs read and write in
 * their first thread, whatever other threads their libraries have. Asked of the kernel once a thread. A forked child keeps the answer of
 * the thread that forked: if that was not the first, it counts as the others do.
 */
enum tb_thread { TB_THREAD_UNKNOWN, TB_THREAD_FIRST, TB_THREAD_OTHER };
extern _Thread_local enum tb_thread tb_this_thread __attribute__((tls_model("initial-exec")));
enum tb_thread tb_thread_ask(void);

static inline bool tb_thread_is_first(void)
{
    return (tb_this_thread == TB_THREAD_UNKNOWN ? tb_thread_ask() : tb_this_thread) == TB_THREAD_FIRST;
}

static inline void tb_count_by(_Atomic uint64_t *counter, uint64_t by, bool is_own)
{
    if (is_own)
        atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + by, memory_order_relaxed);
    else
        atomic_fetch_add_explicit(counter, by, memory_order_relaxed);
}

/* Of this process and tier, where this thread counts. */
static inline struct tb_transfers *tb_transfers(const tb_engine *e, uint32_t tier, bool is_first)
{
    struct tb_client *c = &e->region.clients[e->slot];
    return is_first ? &c->first[tier] : &c->others[tier];
}

/* Bytes that this thread wrote into buffers of a tier, by so many operations. */
static inline void tb_count_in(const tb_engine *e, uint32_t tier, uint64_t bytes, uint64_t writes)
{
    bool is_first = tb_thread_is_first();
    struct tb_transfers *moved = tb_transfers(e, tier, is_first);
    tb_count_by(&moved->bytes_in, bytes, is_first);
    tb_count_by(&moved->writes, writes, is_first);
}

/* Bytes that it read from them. */
static inline void tb_count_out(const tb_engine *e, uint32_t tier, uint64_t bytes, uint64_t hits)
{
    bool is_first = tb_thread_is_first();
    struct tb_transfers *moved = tb_transfers(e, tier, is_first);
    tb_count_by(&moved->bytes_out, bytes, is_first);
    tb_count_by(&moved->hits, hits, is_first);
}

/* Calls that take names (struct tb_changes), so far. Each lane only grows: where the two sums are equal, no call was between the two. */
static inline uint32_t tb_changes_begun(const struct tb_header *h)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < TB_CHANGE_LANES; i++)
        n += h->changes.lane[i].begun;
    return n;
}

static inline uint32_t tb_changes_ended(const struct tb_header *h)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < TB_CHANGE_LANES; i++)
        n += h->changes.lane[i].ended;
    return n;
}

/* So many dirty bytes more in buffers of a tier; a negative number is given modulo 2^64. */
static inline void tb_count_dirty(const tb_engine *e, uint32_t tier, uint64_t by)
{
    e->header->tier[tier].dirty[e->slot % TB_LANES].bytes += by;
}
/* Dirty bytes of a tier.  Read without a lock: while bytes become dirty and clean, not of one moment. */
uint64_t tb_tier_dirty(const struct tb_header *h, uint32_t tier);
/* False: no byte is dirty. True also where a killed client left the sum below 0: some may be. For callers that know that no client counts. */
bool tb_tier_is_dirty(const struct tb_header *h, uint32_t tier);
/* For callers that know that no client counts meanwhile. */
void tb_tier_set_dirty(struct tb_header *h, uint32_t tier, uint64_t bytes);

/* What all clients moved of a tier. */
struct tb_moved {
    uint64_t bytes_in, bytes_out, writes, hits;
};
struct tb_moved tb_moved_of(const tb_engine *e, uint32_t tier);
/* Bytes that were moved into a tier from others. */
uint64_t tb_moved_in(const tb_engine *e, uint32_t tier);
/* Bytes written into buffers of any tier since start. */
uint64_t tb_bytes_in(const tb_engine *e);
/* The same and bytes read from them. */
uint64_t tb_bytes_moved(const tb_engine *e);
double tb_seconds_since_start(const tb_engine *e);

/* What was read from backing files before this call is not staged in after it (tiering/stage.h). */
static inline void tb_stage_void(tb_engine *e)
{
    e->header->movement.voided++;
}

#endif
