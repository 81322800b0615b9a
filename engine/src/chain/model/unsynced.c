/*
 * Which open descriptions have bytes that no sync covered. A descriptor points to a slot,
 * and a slot is one open description. Its number is that of the first descriptor, if that
 * is free: a search for another one is needed only after a dup outlived its original.
 */
#include "chain/model/unsynced.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

struct tb_unsynced {
    _Atomic int slot_of[TB_UNSYNCED_LIMIT]; /* by descriptor; slot + 1, 0: none */
    struct {
        _Atomic int holders;
        _Atomic bool written;
        _Atomic bool sync_each;
    } slot[TB_UNSYNCED_LIMIT];
};

struct tb_unsynced *tb_unsynced_new(void)
{
    return calloc(1, sizeof(struct tb_unsynced)); /* pages that are never used cost nothing */
}

void tb_unsynced_free(struct tb_unsynced *table)
{
    free(table);
}

/* Descriptors above the limit count as written: a sync of theirs is always charged. */
static bool followed(int fd)
{
    return fd >= 0 && fd < TB_UNSYNCED_LIMIT;
}

/* A slot without holders is free, whatever it says of its last description. */
static bool claim(struct tb_unsynced *table, int slot)
{
    int none = 0;
    return atomic_compare_exchange_strong(&table->slot[slot].holders, &none, 1);
}

void tb_unsynced_close(struct tb_unsynced *table, int fd)
{
    if (!followed(fd))
        return;
    int slot = atomic_exchange(&table->slot_of[fd], 0) - 1;
    if (slot >= 0) {
        int before = atomic_fetch_sub(&table->slot[slot].holders, 1);
        assert(before > 0);
        (void)before;
    }
}

/* There are as many slots as descriptors, so one is always free. */
void tb_unsynced_open(struct tb_unsynced *table, int fd, bool sync_each)
{
    if (!followed(fd))
        return;
    tb_unsynced_close(table, fd); /* if it was closed without this layer seeing it */
    int slot = fd;
    while (!claim(table, slot))
        slot = (slot + 1) % TB_UNSYNCED_LIMIT;
    atomic_store(&table->slot[slot].written, false);
    atomic_store(&table->slot[slot].sync_each, sync_each);
    atomic_store(&table->slot_of[fd], slot + 1);
}

/* The slot of `fd`; one that was opened elsewhere (inherited) gets its own now. */
static int slot_of(struct tb_unsynced *table, int fd)
{
    int slot = atomic_load_explicit(&table->slot_of[fd], memory_order_relaxed) - 1;
    if (slot < 0) {
        tb_unsynced_open(table, fd, false);
        slot = atomic_load(&table->slot_of[fd]) - 1;
    }
    return slot;
}

/* The new number is closed first: dup2 replaces without a close that this layer could see. */
void tb_unsynced_dup(struct tb_unsynced *table, int oldfd, int newfd)
{
    if (!followed(oldfd) || !followed(newfd) || oldfd == newfd)
        return;
    tb_unsynced_close(table, newfd);
    int slot = slot_of(table, oldfd);
    atomic_fetch_add(&table->slot[slot].holders, 1);
    atomic_store(&table->slot_of[newfd], slot + 1);
}

/* The flag is stored only where it is not set: threads that write to one file do not share its cache line then. */
bool tb_unsynced_write(struct tb_unsynced *table, int fd)
{
    if (!followed(fd))
        return false;
    int slot = slot_of(table, fd);
    if (atomic_load(&table->slot[slot].sync_each))
        return true;
    if (!atomic_load_explicit(&table->slot[slot].written, memory_order_relaxed))
        atomic_store(&table->slot[slot].written, true);
    return false;
}

/* Taken before the sync: what is written while it runs counts for the next one. */
bool tb_unsynced_take(struct tb_unsynced *table, int fd)
{
    return !followed(fd) || atomic_exchange(&table->slot[slot_of(table, fd)].written, false);
}
