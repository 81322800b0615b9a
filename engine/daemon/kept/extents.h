/*
 * A file's extents in the making (keeper.c): a change makes a new list beside the old one, and puts it in its place when it is whole. So
 * a list without memory changes nothing.
 */
#ifndef TB_KEPT_EXTENTS_H
#define TB_KEPT_EXTENTS_H

#include "shared/ranges.h"
#include "shared/wire.h"

/* `error`: -ENOMEM once something found no memory; then it is not whole. Whoever has it frees `at`. */
struct extent_list {
    struct tb_wire_extent *at;
    uint32_t n, room;
    int error;
};

/* Neighbours of one commit become one extent, so that a file that was written piece by piece has few. */
void extents_append(struct extent_list *l, struct tb_wire_extent x);
/* What of the extent is not in the ranges, which are settled. */
void extents_append_without(struct extent_list *l, const struct tb_wire_extent *x, const struct tb_ranges *ranges);
/* In order of offset. */
void extents_sort(struct extent_list *l);

#endif
