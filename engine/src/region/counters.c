/*
 * Sums of the counters that clients keep in their own cache lines. Read without a lock: a sum
 * is not of one moment. A slot that is given to another process keeps its counts, so sums
 * only go up.
 */
#include "base/clock.h"
#include "region/counters.h"

#include <assert.h>
#include <time.h>

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
    for (uint32_t i = 0; i < e->region.n_clients; i++)
        for (uint32_t t = 0; t < e->header->config.n_tiers; t++)
            bytes += e->region.clients[i].tier[t].bytes_in;
    return bytes;
}

/* In and out: the measure of time that heat uses. */
uint64_t tb_bytes_moved(const tb_engine *e)
{
    uint64_t bytes = tb_bytes_in(e);
    for (uint32_t i = 0; i < e->region.n_clients; i++)
        for (uint32_t t = 0; t < e->header->config.n_tiers; t++)
            bytes += e->region.clients[i].tier[t].bytes_out;
    return bytes;
}

double tb_seconds_since_start(const tb_engine *e)
{
    return (double)(int64_t)(tb_now_ns() - e->header->started_ns) * 1e-9;
}
