/*
 * The files that wait for a flush thread of tierd: clients put them in, flush threads take
 * them out, and sleep while there is none.
 */
#ifndef TB_FLUSH_QUEUE_H
#define TB_FLUSH_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "region/handle.h"

/* Hand a file to the daemon's flush threads. */
void tb_flush_queue(tb_engine *e, uint32_t file);
/* The same, and wait until one of them has claimed it. Where all have other work, or no daemon lives, the wait ends soon. */
void tb_flush_hand_over(tb_engine *e, uint32_t file);
/* Rebuild the queue from the flags of the files, for when no daemon takes from it any more. */
void tb_flush_requeue(tb_engine *e);
/* Under the queue's lock. */
bool tb_queue_is_valid(const tb_engine *e);
/* The next queued file, or TB_NONE. */
uint32_t tb_flush_dequeue(tb_engine *e);
/*
 * Sleep until a file comes in, 50 ms at most. `seen` is the queue's event, read before the queue
 * was looked at, so a file that came in between ends the wait at once. `look_first`: for a few
 * microseconds without sleeping, as where one file has just come others often follow.
 */
void tb_flush_wait(tb_engine *e, uint32_t seen, bool look_first);

#endif
