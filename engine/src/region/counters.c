/*
 * Sums of the counters that clients keep in their own cache lines. Read without a lock: a sum
 * is not of one moment. A slot that is given to another process keeps its counts, so sums
 * only go up.
 */
#include "base/clock.h"
#include "region/counters.h"

#include <assert.h>
#include <time.h>
#include <unistd.h>

_Thread_local enum tb_thread tb_this_thread;

enum tb_thread tb_thread_ask(void)
{
    tb_this_thread = gettid() == getpid() ? TB_THREAD_FIRST : TB_THREAD_OTHER;
    return tb_this_thread;
}

static int64_t dirty_in_lanes(const struct tb_header *h, uint32_t tier)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < TB_LANES; i++)
        sum += (int64_t)h->tier[tier].dirty[i].bytes;
    return sum;
}

/* Bytes become dirty in one lane and clean in another. A sum that saw only the second is below 0. */
uint64_t tb_tier_dirty(const struct tb_header *h, uint32_t tier)
{
    int64_t sum = dirty_in_lanes(h, tier);
    return sum < 0 ? 0 : (uint64_t)sum;
}

bool tb_tier_is_dirty(const struct tb_header *h, uint32_t tier)
{
    return dirty_in_lanes(h, tier) != 0;
}

void tb_tier_set_dirty(struct tb_header *h, uint32_t tier, uint64_t bytes)
{
    for (uint32_t i = 0; i < TB_LANES; i++)
        h->tier[tier].dirty[i].bytes = i ? 0 : bytes;
}

static void add(struct tb_moved *sum, const struct tb_transfers *moved)
{
    sum->bytes_in += moved->bytes_in;
    sum->bytes_out += moved->bytes_out;
    sum->writes += moved->writes;
    sum->hits += moved->hits;
}

struct tb_moved tb_moved_of(const tb_engine *e, uint32_t tier)
{
    struct tb_moved sum = {0};
    for (uint32_t i = 0; i < e->region.n_clients; i++) {
        add(&sum, &e->region.clients[i].first[tier]);
        add(&sum, &e->region.clients[i].others[tier]);
    }
    return sum;
}

uint64_t tb_moved_in(const tb_engine *e, uint32_t t)
{
    uint64_t bytes = 0;
    for (uint32_t from = 0; from < e->header->config.n_tiers; from++)
        bytes += from == t ? 0 : e->header->tier[from].moved_to[t];
    return bytes;
}

uint64_t tb_bytes_in(const tb_engine *e)
{
    uint64_t bytes = 0;
    for (uint32_t t = 0; t < e->header->config.n_tiers; t++)
        bytes += tb_moved_of(e, t).bytes_in;
    return bytes;
}

/* In and out: the measure of time that heat uses. */
uint64_t tb_bytes_moved(const tb_engine *e)
{
    uint64_t bytes = 0;
    for (uint32_t t = 0; t < e->header->config.n_tiers; t++) {
        struct tb_moved moved = tb_moved_of(e, t);
        bytes += moved.bytes_in + moved.bytes_out;
    }
    return bytes;
}

double tb_seconds_since_start(const tb_engine *e)
{
    return (double)(int64_t)(tb_now_ns() - e->header->started_ns) * 1e-9;
}
