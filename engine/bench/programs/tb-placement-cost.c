/*
 * tb-placement-cost: nanoseconds that each policy takes to place one write, on
 * hierarchies without memory, as placement sees them: 3 and 8 tiers,
 * with room for all in the top tier, with room in the lowest only, and with room
 * for a part of the write in each.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "config/placement.h"
#include "placement/placement.h"

#define BUFFER (64u << 10)
#define REPETITIONS 20000 /* of one batch */
#define BATCHES 20        /* of which the fastest counts: what else the machine does is not placement's */

struct state {
    const char *name;
    uint32_t free_above, free_in_lowest; /* buffers */
};

/* The lower the tier, the slower: a half, a third, a fourth of the highest: policies that look at speed have something to choose. */
static void make_tier(struct tb_header *h, struct tb_slab *slabs, uint32_t t, uint32_t n, const struct state *s)
{
    h->config.tiers[t].n_slabs = 1;
    h->config.tiers[t].medium = t ? TB_MEDIUM_DIRECTORY : TB_MEDIUM_MEMORY;
    h->config.tiers[t].modelled = true;
    h->config.tiers[t].model = (struct tb_device){.write_bandwidth = 1e9 / (t + 1), .write_latency = 1e-5 * t, .channels = 1};
    h->layout.tier_first_slab[t] = t;
    h->layout.n_slabs = t + 1;
    h->layout.slab[t] = (struct tb_layout_slab){.tier = t, .n_buffers = 1u << 20, .buffer_size = BUFFER};
    slabs[t].lane[0].n_free = t + 1 == n ? s->free_in_lowest : s->free_above;
}

/* Only what placement reads. There is no region, no file system and no lock, so the figure is the choice itself. */
static tb_engine *make(enum tb_policy policy, uint32_t n, const struct state *s)
{
    tb_engine *e = calloc(1, sizeof(*e));
    struct tb_header *h = e ? e->header = calloc(1, sizeof(*h)) : NULL;
    struct tb_slab *slabs = aligned_alloc(_Alignof(struct tb_slab), TB_MAX_TIERS * sizeof(*slabs));
    if (!h || !slabs || !(e->region.files = calloc(1, sizeof(*e->region.files)))) {
        fputs("tb-placement-cost: no memory\n", stderr);
        exit(1);
    }
    memset(slabs, 0, TB_MAX_TIERS * sizeof(*slabs));
    e->region.slabs = slabs;
    h->config.placement.policy = policy;
    h->config.placement.n_rules = 1;
    h->config.placement.rules[0] = (struct tb_config_rule){.at_most = UINT64_MAX, .n_tiers = 1};
    e->region.files[0].placement = 1;
    h->config.n_tiers = n;
    h->chunk = tb_size_of(1u << 20);
    for (uint32_t t = 0; t < n; t++)
        make_tier(h, slabs, t, n, s);
    if (!(e->placement = tb_placer_new(&h->config, &h->layout, NULL))) {
        fputs("tb-placement-cost: no memory\n", stderr);
        exit(1);
    }
    return e;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double measure(enum tb_policy policy, uint32_t n, const struct state *s)
{
    struct tb_place_request r = {.offset = 0, .bytes = 1u << 20}; /* a whole chunk: no neighbour to look for */
    struct tb_placement out;
    tb_engine *e = make(policy, n, s);
    double best = 0;
    for (int b = 0; b < BATCHES; b++) {
        double start = now();
        for (int i = 0; i < REPETITIONS; i++)
            tb_place(e, &r, &out);
        double batch = now() - start;
        best = b && best < batch ? best : batch;
    }
    free(e->placement);
    free(e->region.slabs);
    free(e->region.files);
    free(e->header);
    free(e);
    return best / REPETITIONS;
}

int main(void)
{
    static const struct state states[] = {{"room above", 1u << 20, 1u << 20}, {"room below", 0, 1u << 20}, {"room in parts", 3, 1u << 20}};
    printf("%-18s", "ns a write");
    for (uint32_t n = 3; n <= 8; n += 5)
        for (size_t s = 0; s < 3; s++)
            printf("  %u tiers, %-13s", n, states[s].name);
    for (enum tb_policy p = 0; p < TB_N_POLICIES; p++) {
        printf("\n%-18s", tb_policy_name(p));
        for (uint32_t n = 3; n <= 8; n += 5)
            for (size_t s = 0; s < 3; s++)
                printf("  %22.0f", measure(p, n, &states[s]));
    }
    putchar('\n');
    return 0;
}
