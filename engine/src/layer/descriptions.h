/*
 * Open-file descriptions: the offset and flags that dup and fork share, kept in
 * the region, and each process's table from descriptor to description.
 */
#ifndef TB_OPENS_H
#define TB_OPENS_H

#include "region/handle.h"

/* A description for a file whose n_open was raised; its number, or TB_NONE where the table is full. */
uint32_t tb_open_new(tb_engine *e, uint32_t file, int flags);
/* Bind a descriptor of this process; -EMFILE where its number is out of range. */
int tb_open_bind(tb_engine *e, int fd, uint32_t open);
/* The description of a descriptor, or NULL. */
struct tb_open *tb_open_of(const tb_engine *e, int fd);
/*
 * Unbind.  Returns the description where the descriptor was bound, and whether
 * it was the last of all processes: then the caller puts the file and calls tb_open_free.
 */
struct tb_open *tb_open_unbind(tb_engine *e, int fd, bool *last);
void tb_open_free(tb_engine *e, struct tb_open *o);
/*
 * Use the offset: who reads, writes or seeks by it comes after another, as in a kernel.  What to unlock, TB_OFFSET_IS_OWN
 * where no other thread or process can use it, or -EDEADLK: a signal handler, in whose thread another use is under way.
 */
#define TB_OFFSET_IS_OWN ((int)TB_STRIPES)
int tb_offset_lock(tb_engine *e, const struct tb_open *o);
void tb_offset_unlock(tb_engine *e, int stripe);
/* Make the file behind every descriptor of this process coherent. */
void tb_opens_make_coherent(tb_engine *e);
/* Know no descriptor any more, and let none go: they are another client's. */
void tb_opens_abandon(tb_engine *e);
/* For a child about to be forked: hold in its slot what this process's descriptors hold. */
void tb_opens_hold(tb_engine *e, uint32_t slot);
/*
 * Every description of a dead client: frees those nobody else holds, and queues the flush that their close would have
 * made.  `but_coherent`: those of coherent files stay held; true where there are any.
 */
bool tb_opens_forget_client(tb_engine *e, uint32_t slot, bool but_coherent);

#endif
