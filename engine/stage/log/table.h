/*
 * Items by their names, found in a step or two however many there are: a tree of 10^5 long
 * names that differ at their ends costs more than moving a small file does.
 */
#ifndef TB_STAGE_TABLE_H
#define TB_STAGE_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct tb_place {
    uint64_t hash;
    const char *name; /* the item's own; NULL: the place is free */
    void *item;
};

struct tb_table {
    struct tb_place *place;
    size_t n, room; /* a power of two */
};

void *tb_table_find(const struct tb_table *table, const char *name);
/* One that is not in it. 0 or -ENOMEM. */
int tb_table_add(struct tb_table *table, const char *name, void *item);
/* One that is in it. */
void tb_table_remove(struct tb_table *table, const char *name);
/* Free the table, and with `act` (NULL: none) each item. */
void tb_table_end(struct tb_table *table, void (*act)(void *item));

#endif
