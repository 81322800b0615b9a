/*
 * Late opens: descriptors whose file is asked for when they are used first (layer/late.c). A process has one at most, so an
 * open makes the one before it known.
 */
#ifndef TB_LAYER_LATE_H
#define TB_LAYER_LATE_H

#include "region/handle.h"

struct tb_open;
struct tb_opening; /* layer/open.h */

/* Begin an open. NULL: it cannot be late; else the caller opens into the result, and calls tb_late_keep. */
struct tb_opening *tb_late_begin(tb_engine *e, int flags);
/* The descriptor is open. True: it is bound, and late. False: the open goes on; tb_late_end comes after it. */
bool tb_late_keep(tb_engine *e, struct tb_opening *o);
void tb_late_end(tb_engine *e);
/* The description of a descriptor whose open was late, after its file was learned; NULL: there is none to learn. */
struct tb_open *tb_late_known(tb_engine *e, int fd);
/* Unbind a late descriptor, which needs nothing of the engine; the chain that closes it. NULL: it is none. */
struct tb_io *tb_late_unbind(tb_engine *e, int fd);
/* This process has no late open from here on, until its next one. */
void tb_late_learn(tb_engine *e);
/* For a child just forked: its parent's late open, if there is one, is not its own. */
void tb_late_forget(tb_engine *e);
/*
 * A name is about to be removed, or to lead to another file. True: another process or thread may have a late open of it, so the bytes
 * must be in the backing file first. The caller has counted the change (struct tb_changes).
 */
bool tb_late_lose_name(tb_engine *e, const char *path);
/* 0 or -ENOMEM. */
int tb_late_new(tb_engine *e);

#endif
