/* Lists of extents in the making (extents.h): they grow by doubling, and an error stays in the list, so that a change asks for it once. */
#include "kept/extents.h"

#include <errno.h>
#include <stdlib.h>

#define ROOM_LEAST 16u

void extents_append(struct extent_list *l, struct tb_wire_extent x)
{
    if (l->n == l->room) {
        uint32_t room = l->room ? 2 * l->room : ROOM_LEAST;
        struct tb_wire_extent *at = realloc(l->at, room * sizeof(*at));
        if (!at) {
            l->error = -ENOMEM;
            return;
        }
        l->at = at;
        l->room = room;
    }
    struct tb_wire_extent *last = l->n ? &l->at[l->n - 1] : NULL;
    if (last && last->hi == x.lo && last->node == x.node && last->version == x.version)
        last->hi = x.hi;
    else
        l->at[l->n++] = x;
}

static void append_part(struct extent_list *l, const struct tb_wire_extent *of, uint64_t lo, uint64_t hi)
{
    if (lo < hi)
        extents_append(l, (struct tb_wire_extent){lo, hi, of->version, of->node, 0});
}

void extents_append_without(struct extent_list *l, const struct tb_wire_extent *x, const struct tb_ranges *ranges)
{
    uint64_t at = x->lo, from, to;
    while (at < x->hi && tb_ranges_inside(ranges, at, x->hi, &from, &to)) {
        append_part(l, x, at, from);
        at = to;
    }
    append_part(l, x, at, x->hi);
}

static int by_lo(const void *a, const void *b)
{
    const struct tb_wire_extent *x = a, *y = b;
    return x->lo < y->lo ? -1 : x->lo > y->lo;
}

void extents_sort(struct extent_list *l)
{
    if (l->n && !l->error)
        qsort(l->at, l->n, sizeof(*l->at), by_lo);
}
