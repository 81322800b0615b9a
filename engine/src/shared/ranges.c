/*
 * Sets of ranges of a file, kept as lists (shared/ranges.h). Ranges are added in any order; then the list is sorted once, and
 * overlaps are joined. Only after that it may be searched.
 */
#include "shared/ranges.h"

#include <errno.h>
#include <stdlib.h>

#include "base/valid.h"

/*
 * Neighbours are joined at once: most lists come in order. A list may be out of order and have overlaps until
 * tb_ranges_settle, which is called once it is complete.
 */
int tb_ranges_add(struct tb_ranges *r, uint64_t lo, uint64_t hi)
{
    assert(r->n <= r->room && (r->at || !r->room));
    if (r->n && r->at[r->n - 1].hi == lo)
        return r->at[r->n - 1].hi = hi, 0;
    if (r->n == r->room) {
        uint32_t room = r->room ? 2 * r->room : 64;
        struct tb_wire_range *at = realloc(r->at, room * sizeof(*at));
        if (!at)
            return -ENOMEM;
        r->at = at;
        r->room = room;
    }
    r->at[r->n++] = (struct tb_wire_range){lo, hi};
    return 0;
}

static int by_lo(const void *a, const void *b)
{
    const struct tb_wire_range *x = a, *y = b;
    return x->lo < y->lo ? -1 : x->lo > y->lo;
}

/* Ranges that touch become one, so a file that was written from its start to its end is one range. */
void tb_ranges_settle(struct tb_ranges *r)
{
    uint32_t kept = 0;
    if (r->n)
        qsort(r->at, r->n, sizeof(*r->at), by_lo);
    for (uint32_t i = 0; i < r->n; i++)
        if (kept && r->at[i].lo <= r->at[kept - 1].hi)
            r->at[kept - 1].hi = r->at[i].hi > r->at[kept - 1].hi ? r->at[i].hi : r->at[kept - 1].hi;
        else
            r->at[kept++] = r->at[i];
    r->n = kept;
    TB_ASSERT_WHOLE(tb_ranges_is_whole(r));
}

/* The first may begin with 0, so each is compared with the one before it. */
bool tb_ranges_is_whole(const struct tb_ranges *r)
{
    for (uint32_t i = 1; i < r->n; i++)
        if (r->at[i - 1].hi >= r->at[i].lo)
            return false;
    return true;
}

/* The first range that ends after `lo`. */
static uint32_t first_after(const struct tb_ranges *r, uint64_t lo)
{
    uint32_t a = 0, z = r->n;
    while (a < z) {
        uint32_t m = a + (z - a) / 2;
        if (r->at[m].hi > lo)
            z = m;
        else
            a = m + 1;
    }
    return a;
}

/* The first part of [lo, hi) that the ranges have. Only on a settled list, as all that follows. */
bool tb_ranges_inside(const struct tb_ranges *r, uint64_t lo, uint64_t hi, uint64_t *from, uint64_t *to)
{
    TB_ASSERT_WHOLE(tb_ranges_is_whole(r));
    uint32_t i = first_after(r, lo);
    if (i == r->n || r->at[i].lo >= hi)
        return false;
    *from = r->at[i].lo > lo ? r->at[i].lo : lo;
    *to = r->at[i].hi < hi ? r->at[i].hi : hi;
    return true;
}

/* Joined ranges have gaps between them, so one range has all of it or no set of them does. */
bool tb_ranges_cover(const struct tb_ranges *r, uint64_t lo, uint64_t hi)
{
    uint64_t from, to;
    return tb_ranges_inside(r, lo, hi, &from, &to) && from == lo && to == hi;
}

/* Both lists are walked once, except for the search of each first overlap. */
int tb_ranges_without(const struct tb_ranges *a, const struct tb_ranges *b, struct tb_ranges *out)
{
    int rc = 0;
    for (uint32_t i = 0; i < a->n && !rc; i++) {
        uint64_t at = a->at[i].lo, end = a->at[i].hi, from, to;
        while (!rc && at < end && tb_ranges_inside(b, at, end, &from, &to)) {
            rc = from > at ? tb_ranges_add(out, at, from) : 0;
            at = to;
        }
        if (!rc && at < end)
            rc = tb_ranges_add(out, at, end);
    }
    return rc;
}

void tb_ranges_free(struct tb_ranges *r)
{
    free(r->at);
    *r = (struct tb_ranges){0};
}
