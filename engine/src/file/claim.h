/*
 * A file's claim: one client at a time flushes, cuts or renames it.  A claim whose holder died is anyone's.
 */
#ifndef TB_FILE_CLAIM_H
#define TB_FILE_CLAIM_H

#include "region/handle.h"

#define TB_CLAIM_LOOK_NS 100000 /* how often a waiter looks at a claim; they are held for milliseconds */

/*
 * The one who flushes, truncates or renames; waits for another living one.
 * Nests not.  False where the record is free: who has no hold on it (a
 * descriptor, a buffer, its place in the queue) may find it another file's.
 */
bool tb_file_claim(tb_engine *e, uint32_t file);
bool tb_file_try_claim(tb_engine *e, uint32_t file);
void tb_file_unclaim(tb_engine *e, uint32_t file);
/* Somebody waits for the claim: who has it for long gives it up for a moment. */
bool tb_file_claim_is_wanted(const tb_engine *e, uint32_t file);
/* After the claim was given up: until somebody who waits for it has it. */
void tb_file_let_others_claim(const tb_engine *e, uint32_t file);

#endif
