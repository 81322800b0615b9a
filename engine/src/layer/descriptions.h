/*
 * Open-file descriptions: the offset and flags that dup and fork share, kept in
 * the region, and each process's table from descriptor to description.
 */
#ifndef TB_OPENS_H
#define TB_OPENS_H

#include "base/valid.h"
#include "layer/late.h"
#include "region/handle.h"

/* A description for a file; its n_open was raised. TB_NONE: for one that is not known yet. Its number, or TB_NONE if the table is full. */
uint32_t tb_open_new(tb_engine *e, uint32_t file, int flags);
/* Bind a descriptor of this process; -EMFILE where its number is out of range. */
int tb_open_bind(tb_engine *e, int fd, uint32_t open);
/* The client that closes the description, as slot + 1; 0: it has holders. */
static inline uint32_t tb_open_ender(uint32_t ended_by)
{
    return ended_by & TB_OPEN_ENDER;
}
/*
 * What holds of a description that this process has bound, for as long as it has it: no other
 * process changes it, and repair leaves it alone. Whole: its file is there, and counts it.
 */
bool tb_open_is_whole(const tb_engine *e, const struct tb_open *o);
static inline bool tb_open_is_valid(const tb_engine *e, const struct tb_open *o)
{
    return o->magic == TB_OPEN_MAGIC && !tb_open_ender(o->ended_by) && o->file < e->region.n_file_buckets && o->offset <= INT64_MAX;
}

/* Descriptors live in pieces that are allocated when first needed and never freed, so a look-up takes no lock. */
static inline _Atomic uint32_t *tb_open_slot(const tb_engine *e, int fd)
{
    if (fd < 0 || (uint32_t)fd >= TB_FD_PIECES * TB_FD_PIECE)
        return NULL;
    _Atomic uint32_t *piece = e->fds[(uint32_t)fd / TB_FD_PIECE];
    return piece ? &piece[(uint32_t)fd % TB_FD_PIECE] : NULL;
}

/* The description of a descriptor, or NULL. */
static inline struct tb_open *tb_open_of(tb_engine *e, int fd)
{
    _Atomic uint32_t *slot = tb_open_slot(e, fd);
    uint32_t open = slot ? *slot : 0;
    if (!open)
        return NULL;
    struct tb_open *o = &e->region.opens[open - 1];
    if (__builtin_expect(o->file == TB_NONE, 0) && !(o = tb_late_known(e, fd)))
        return NULL;
    assert(tb_open_is_valid(e, o));
    TB_ASSERT_WHOLE(tb_open_is_whole(e, o));
    return o;
}
/*
 * Unbind.  Returns the description where the descriptor was bound, and whether it was the last of all
 * processes: then the caller makes the flush that a close owes, and calls tb_open_end.
 */
struct tb_open *tb_open_unbind(tb_engine *e, int fd, bool *last);
/* Unbind a descriptor, and keep the description, which knows no file. */
void tb_open_detach(tb_engine *e, int fd);
/* Put the file and free the description. */
void tb_open_end(tb_engine *e, struct tb_open *o);
/* Free one that was never bound. */
void tb_open_free(tb_engine *e, struct tb_open *o);
/*
 * Lock the offset: reads, writes and seeks through it take turns, as in a kernel. Returns
 * what to unlock; TB_OFFSET_IS_OWN if no other thread or process can use it; -EDEADLK in a
 * signal handler that interrupted another use in the same thread.
 */
#define TB_OFFSET_IS_OWN ((int)TB_STRIPES)
int tb_offset_lock(tb_engine *e, const struct tb_open *o);
void tb_offset_unlock(tb_engine *e, int stripe);
/* With that lock. After all that came before it, and without an instruction that would wait for the stores of a copy. */
static inline void tb_offset_move(struct tb_open *o, uint64_t to)
{
    atomic_store_explicit(&o->offset, to, memory_order_release);
}
/* Make the file of every descriptor of this process coherent. */
void tb_opens_make_coherent(tb_engine *e);
/* Forget every descriptor and close none: they belong to another client. */
void tb_opens_abandon(tb_engine *e);
/* For a child about to be forked: hold in its slot what this process's descriptors hold. */
void tb_opens_hold(tb_engine *e, uint32_t slot);
/*
 * Clear the holder bits of a dead client. Descriptions without a holder are freed, and the
 * flush that their close owed is queued; so are those that it was closing. `but_coherent`:
 * keep those of coherent files; true if there are any. Takes no lock: of two that end the same
 * description one does it.
 */
bool tb_opens_forget_client(tb_engine *e, uint32_t slot, bool but_coherent);
/*
 * Put descriptions that a dead client had in its hand back into the free list. Locked by
 * registry.lock. A living client that is stopped in the middle of taking or giving one keeps
 * this from being done: then a later repair does it.
 */
void tb_opens_mend(tb_engine *e);

#endif
