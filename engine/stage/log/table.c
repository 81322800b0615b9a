/*
 * A hash table of items by their names (stage/log/table.h). Open addressing: an item is at the first free place from its hash
 * on, and a removal closes the gap that it leaves, so no mark of a removed item is needed.
 */
#include "stage/log/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define FIRST_ROOM 256 /* a power of two, so that a mask takes the place of a division */

static uint64_t hash_of(const char *name)
{
    return XXH3_64bits(name, strlen(name));
}

/* Of that name, or the free place where it would go. There is always a free one. */
static struct tb_place *place_of(const struct tb_table *t, uint64_t hash, const char *name)
{
    size_t i = hash & (t->room - 1);
    while (t->place[i].name && (t->place[i].hash != hash || strcmp(t->place[i].name, name) != 0))
        i = (i + 1) & (t->room - 1);
    return &t->place[i];
}

/* An empty table has no room yet, and no place to look at. */
void *tb_table_find(const struct tb_table *t, const char *name)
{
    return t->n ? place_of(t, hash_of(name), name)->item : NULL;
}

/* Doubled, so an item is moved once on average. The old table stays where there is no memory. */
static int grow(struct tb_table *t)
{
    struct tb_table wide = {.room = t->room ? t->room * 2 : FIRST_ROOM, .n = t->n};
    wide.place = calloc(wide.room, sizeof(*wide.place));
    if (!wide.place)
        return -ENOMEM;
    for (size_t i = 0; i < t->room; i++)
        if (t->place[i].name)
            *place_of(&wide, t->place[i].hash, t->place[i].name) = t->place[i];
    free(t->place);
    *t = wide;
    return 0;
}

/* At most two of three places are taken: above that the walks to a free place become long. */
int tb_table_add(struct tb_table *t, const char *name, void *item)
{
    uint64_t hash = hash_of(name);
    int rc = 3 * (t->n + 1) > 2 * t->room ? grow(t) : 0;
    if (rc)
        return rc;
    *place_of(t, hash, name) = (struct tb_place){hash, name, item};
    t->n++;
    return 0;
}

/*
 * What is after the gap and could be in it is put there, and leaves the next gap. So no walk from a hash ever ends too
 * early.
 */
void tb_table_remove(struct tb_table *t, const char *name)
{
    size_t gap = (size_t)(place_of(t, hash_of(name), name) - t->place), last = t->room - 1;
    for (size_t i = (gap + 1) & last; t->place[i].name; i = (i + 1) & last) {
        size_t from_home = (i - t->place[i].hash) & last, from_gap = (i - gap) & last;
        if (from_home < from_gap)
            continue;
        t->place[gap] = t->place[i];
        gap = i;
    }
    t->place[gap] = (struct tb_place){0};
    t->n--;
}

/* The items are the caller's until here: `act` frees them, and the names that the places lead to with them. */
void tb_table_end(struct tb_table *t, void (*act)(void *item))
{
    for (size_t i = 0; act && i < t->room; i++)
        if (t->place[i].name)
            act(t->place[i].item);
    free(t->place);
    *t = (struct tb_table){0};
}
