/* A set of ranges of a file: added in any order, then put in order, then asked. */
#ifndef TB_SHARED_RANGES_H
#define TB_SHARED_RANGES_H

#include <stdbool.h>

#include "shared/wire.h"

struct tb_ranges {
    struct tb_wire_range *at;
    uint32_t n, room;
};

/* 0 or -ENOMEM. */
int tb_ranges_add(struct tb_ranges *r, uint64_t lo, uint64_t hi);
/* In order, and each apart from the next one. */
void tb_ranges_settle(struct tb_ranges *r);
/* What tb_ranges_settle leaves, looked at range by range. */
bool tb_ranges_is_whole(const struct tb_ranges *r);
/* The first part of [lo, hi) that is in the set, which is settled; false: none is. */
bool tb_ranges_inside(const struct tb_ranges *r, uint64_t lo, uint64_t hi, uint64_t *from, uint64_t *to);
/* Is all of [lo, hi) in it? */
bool tb_ranges_cover(const struct tb_ranges *r, uint64_t lo, uint64_t hi);
/* What of `a` is not in `b`; both are settled, and so is `out`. */
int tb_ranges_without(const struct tb_ranges *a, const struct tb_ranges *b, struct tb_ranges *out);
void tb_ranges_free(struct tb_ranges *r);

#endif
