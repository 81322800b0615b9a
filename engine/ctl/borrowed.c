/*
 * Each lane has buffers of its own, and its bytes go to each of them as often as it is long: a small tier has less than a lane's 16
 * MiB. No device model is charged.
 */
#include "borrowed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "buffer/heat.h"
#include "buffer/slab.h"
#include "common/ctl.h"

#define MOST 4096u /* buffers of a lane: its bytes in buffers of 4 KiB */
#define LANE_BYTES (16u << 20)

struct lane {
    struct tb_buffer *buffer[MOST];
    uint32_t n;
};

struct borrowed {
    tb_engine *engine;
    struct lane lane[MEASURE_LANES];
};

/* The largest buffers, one for each lane in turn, until all have enough or none is free. */
static void take_buffers(struct borrowed *b, uint32_t tier)
{
    uint64_t size = 1, most = MOST;
    bool any = true;
    for (uint32_t i = 0; i < most && any; i++)
        for (uint32_t l = 0; l < MEASURE_LANES && any; l++) {
            struct lane *lane = &b->lane[l];
            struct tb_buffer *one = tb_tier_take(b->engine, tier, LANE_BYTES, 0);
            any = one != NULL;
            if (!any)
                break;
            size = tb_buffer_size(b->engine, one);
            most = LANE_BYTES / size < MOST ? LANE_BYTES / size : MOST;
            lane->buffer[lane->n++] = one;
        }
}

static uint32_t find_tier(const tb_engine *e, const char *name)
{
    const struct tb_config *c = &e->header->config;
    uint32_t t = tb_config_remote_tier(c);
    return t < c->n_tiers && strcmp(c->tiers[t].name, name) == 0 ? t : TB_NONE;
}

/* Buffers of one lane may have several sizes: each place is found from its beginning. */
static int each(struct borrowed *b, int lane, size_t at, char *bytes, size_t n, bool write)
{
    const struct lane *l = &b->lane[lane];
    tb_engine *e = b->engine;
    uint64_t before = 0;
    int rc = 0;
    for (uint32_t i = 0; n && !rc; i = i + 1 < l->n ? i + 1 : 0) {
        uint64_t size = tb_buffer_size(e, l->buffer[i]);
        if (at < before + size) {
            uint32_t lo = (uint32_t)(at - before), take = (uint32_t)(size - lo < n ? size - lo : n);
            rc = write ? e->borrow->write(e, l->buffer[i], lo, take, bytes) : e->borrow->read(e, l->buffer[i], lo, take, bytes);
            bytes += take;
            at += take;
            n -= take;
        }
        before += size;
    }
    return rc;
}

static int read_lane(void *arg, int lane, size_t at, void *to, size_t n)
{
    return each(arg, lane, at, to, n, false);
}

static int write_lane(void *arg, int lane, size_t at, const void *from, size_t n)
{
    return each(arg, lane, at, (char *)from, n, true);
}

/*
 * Buffers are taken as a client takes them, so a program that runs at the same time is not disturbed. If killed here, repair gives
 * them back.
 */
int ctl_borrow_begin(const char *instance, const char *tier, struct measure_calls *out)
{
    struct borrowed *b = calloc(1, sizeof(*b));
    int rc = b ? ctl_attach(instance, &b->engine) : ctl_fail("no memory");
    if (rc)
        return free(b), rc;
    uint32_t t = find_tier(b->engine, tier);
    *out = (struct measure_calls){read_lane, write_lane, b, "messages to other nodes"};
    if (t != TB_NONE)
        take_buffers(b, t);
    if (t == TB_NONE)
        rc = ctl_fail("profile: instance %s has no remote tier %s: it runs another configuration", instance, tier);
    else if (!b->lane[MEASURE_LANES - 1].n)
        rc = ctl_fail("profile: tier %s has less than %d free buffers", tier, MEASURE_LANES);
    if (rc)
        ctl_borrow_end(out);
    return rc;
}

/* Also after a begin that failed: then some lanes have no buffers. */
void ctl_borrow_end(struct measure_calls *calls)
{
    struct borrowed *b = calls->arg;
    for (uint32_t l = 0; l < MEASURE_LANES; l++)
        for (uint32_t i = 0; i < b->lane[l].n; i++)
            tb_slab_give(b->engine, b->lane[l].buffer[i]);
    tb_engine_detach(b->engine);
    free(b);
}
