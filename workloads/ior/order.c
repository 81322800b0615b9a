/*
 * Where each transfer is. A segment holds a block of each rank (one rank's block in a file of its own); transfers go
 * through it one after the other, or with -z in an order that repeats in every segment.
 *
 * With -z the order is that of IOR for the same --random-offset-seed: rand() swaps each entry of a table with another,
 * and in a shared file rand() first deals the segment's transfers out to the ranks, so that any rank may write any of
 * them. The table has 4 bytes an entry; above a million entries a keyed permutation takes its place, which needs no
 * memory: again every offset once, in another order than IOR's.
 */
#include "tb_ior.h"

#include <stdlib.h>

enum { MOST_TABLE = 1 << 20, MOST_DEALT = 1 << 24 };

/* As IOR does it, with its generator: with the same seed both drivers make the same offsets. */
static void swap_at_random(uint32_t *table, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        int64_t j = rand() % count;
        uint32_t entry = table[i];
        table[i] = table[j];
        table[j] = entry;
    }
}

/* One entry more than asked: a rank may have been dealt none. */
static uint32_t *need_table(int64_t count)
{
    return tb_buffer((size_t)(count + 1) * sizeof(uint32_t));
}

/*
 * Twice over the same numbers: first the count of this rank's, then, with a table of that
 * size, the transfers themselves. Every rank deals for all, so all agree without talking.
 */
static void deal_out(struct tb_order *order, int64_t all, int tasks, int owner)
{
    order->per_segment = 0;
    for (int pass = 0; pass < 2; pass++) {
        srand((unsigned)order->key);
        if (pass) /* the count is known */
            order->table = need_table(order->per_segment);
        int64_t mine = 0;
        for (int64_t i = 0; i < all; i++)
            if (rand() % tasks == owner) {
                if (pass)
                    order->table[mine] = (uint32_t)i;
                mine++;
            }
        order->per_segment = mine;
    }
}

/* Where the table would be too large, offsets are computed from a key instead, in an order of our own. */
static void shuffle(struct tb_order *order, const struct tb_options *o, int tasks, int owner)
{
    int64_t own = order->per_segment, all = o->file_per_process ? own : own * tasks;
    order->key = o->offset_seed < 0 ? 0 : (uint64_t)o->offset_seed;
    order->mixed = own > MOST_TABLE || all > MOST_DEALT;
    order->all = all;
    order->skip = o->file_per_process ? 0 : own * owner;
    if (order->mixed) {
        order->first = 0;
        return;
    }
    if (o->file_per_process) {
        srand((unsigned)order->key + (o->offset_seed < 0 ? 0 : (unsigned)owner));
        order->table = need_table(own);
        for (int64_t i = 0; i < own; i++)
            order->table[i] = (uint32_t)i;
    } else {
        deal_out(order, all, tasks, owner);
        order->first = 0;
    }
    swap_at_random(order->table, order->per_segment);
}

/* `count` is of all segments; each repeats the order of the first. */
void tb_order_make(struct tb_order *order, const struct tb_options *o, int tasks, int owner)
{
    int ranks = o->file_per_process ? 1 : tasks;
    *order = (struct tb_order){.per_segment = o->block / o->transfer,
                               .transfer = o->transfer,
                               .segment = o->block * ranks,
                               .first = o->file_per_process ? 0 : o->block * owner};
    if (o->random_offset)
        shuffle(order, o, tasks, owner);
    order->count = order->per_segment * o->segments;
}

void tb_order_free(struct tb_order *order)
{
    free(order->table);
}

/*
 * A Feistel network permutes the numbers below a power of four; walking on until the result is below `all` makes it a
 * permutation of those.
 */
static int64_t mix(const struct tb_order *order, int64_t number)
{
    int half = 1;
    while (((int64_t)1 << (2 * half)) < order->all)
        half++;
    uint64_t mask = ((uint64_t)1 << half) - 1, x = (uint64_t)number;
    do {
        uint64_t left = x >> half, right = x & mask;
        for (uint64_t round = 0; round < 4; round++) {
            uint64_t next = left ^ (tb_scramble(right + (order->key << 8) + round + 1) & mask);
            left = right;
            right = next;
        }
        x = left << half | right;
    } while (x >= (uint64_t)order->all);
    return (int64_t)x;
}

/* The order repeats in each segment. */
int64_t tb_order_offset(const struct tb_order *order, int64_t transfer)
{
    int64_t segment = transfer / order->per_segment, at = transfer % order->per_segment;
    if (order->table)
        at = order->table[at];
    else if (order->mixed)
        at = mix(order, order->skip + at);
    return segment * order->segment + order->first + at * order->transfer;
}

/* A negative seed is another one in each repetition, from its absolute value on. */
static unsigned task_seed(const struct tb_options *o, int repetition)
{
    unsigned seed = (unsigned)o->reorder_seed;
    return o->reorder_seed < 0 ? 0u - seed + (unsigned)repetition : seed;
}

int tb_owner(const struct tb_options *o, const struct tb_world *w, int repetition)
{
    if (o->reorder_random) { /* as IOR does: several ranks may read the same data */
        srand(task_seed(o, repetition) + (unsigned)w->rank);
        return (w->rank + rand() % w->tasks) % w->tasks;
    }
    if (!o->reorder)
        return w->rank;
    /* The next node's data, which this node's cache can't hold. On a single node that is the rank's own, as in IOR. */
    return (int)((w->rank + (int64_t)o->task_offset * w->tasks_per_node) % w->tasks);
}
