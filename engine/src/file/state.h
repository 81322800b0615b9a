/*
 * What a file is in, and how that changes: only here.  Each change is one atomic store, so that a kill leaves it
 * made or not made.
 *
 *   flag         from                              to                          set by
 *   SCRATCH      the record is made                the record goes             its maker
 *   SYNC         opened so; set; the instance ends set; the last close         any client, under the file's lock
 *   OTHER_MODE   SYNC is set against the prefix    set back; the last close    the same, in the same store
 *   FSYNC_PFS    set; one of several names goes    the last close              any client
 *   COHERENT     passed on, mapped, read outside   the last close that finds   any client; taken back where its flush failed
 *                                                  no buffer of it
 *   WAITING      made under a name that waits      it has its place            its maker; the holder of the claim
 *   HELD         its name or length is changing    the change is done          the holder of the claim; a repair takes it back
 *   CUTTING      its length is changing            the change is done          the holder of the claim; after a kill the next
 *                                                                              holder of its end lock
 *   UNLINKED     its last name has gone            the record goes             the holder of the claim; a repair
 *   TIED         a flush missed it by its name     a repair gives it its name  a flush
 *   QUEUED       it is in the daemon's queue       it is TAKEN from there      under the queue's lock
 *   TAKEN        from the queue                    it is claimed               the thread that took it; a repair, if no daemon lives
 *   OVERFLOWN    bytes past its end were written through                       the writer
 *
 * Always: CUTTING implies HELD; OTHER_MODE and WAITING never go with SCRATCH; not QUEUED and TAKEN.
 */
#ifndef TB_FILE_STATE_H
#define TB_FILE_STATE_H

#include "region/handle.h"

/* A journal record that is being made of the file is there before the mark, or is not made: both take the file's lock. */
void tb_file_begin_naming(tb_engine *e, uint32_t file);
/* Also where the holder is dead. A length that was being set by a killed client is finished by the next holder of the end lock. */
void tb_file_end_naming(struct tb_file *f);
void tb_file_begin_cut(tb_engine *e, uint32_t file);
void tb_file_end_cut(struct tb_file *f);

void tb_file_lose_name(struct tb_file *f);
/* It has its name: it waits for none. */
void tb_file_take_place(struct tb_file *f);
/* Its name does not lead to it: its bytes are kept, and are flushed when a program asks for it. */
void tb_file_tie(struct tb_file *f);
/* False: it was not tied. */
bool tb_file_untie(struct tb_file *f);

void tb_file_enqueue(struct tb_file *f);
/* From the queue into the hands of a flush thread, which claims it and then lets go of it. */
void tb_file_dequeue(struct tb_file *f);
void tb_file_end_taking(struct tb_file *f);
/* Its taker is dead: back into the queue. */
void tb_file_take_back(struct tb_file *f);

void tb_file_become_coherent(struct tb_file *f);
void tb_file_stay_buffered(struct tb_file *f);
void tb_file_promise_pfs(struct tb_file *f);
void tb_file_note_overflow(struct tb_file *f);
/* Another process had opened it in another mode, or the instance goes.  Nothing to scratch files. */
void tb_file_write_through(tb_engine *e, uint32_t file);
/* What a program asks for its file, until the last close. */
void tb_file_set_mode(tb_engine *e, uint32_t file, bool write_through);
/* What lasts until the last close ends; the file is locked. */
void tb_file_end_opens(struct tb_file *f);

/* May it be flushed, and if not, why not. */
enum tb_flush_state {
    TB_FLUSH_DUE,     /* something of it is not on the PFS */
    TB_FLUSH_TIED,    /* the same, but its name was not found: only where a program asks for it */
    TB_FLUSH_NOTHING, /* the PFS has all of it */
    TB_FLUSH_VOID,    /* no name is left: its bytes are not needed */
    TB_FLUSH_SCRATCH, /* it is never flushed on its own */
};
/* Without a lock: a caller that acts on it looks again with the claim. */
enum tb_flush_state tb_file_flush_state(const struct tb_file *f);
/* Due, and tied ones too. */
static inline bool tb_file_may_flush(const struct tb_file *f)
{
    return tb_file_flush_state(f) <= TB_FLUSH_TIED;
}

/* Equations that hold whenever no change is under way; for assertions and checks. */
bool tb_file_state_is_valid(const struct tb_file *f);

#endif
