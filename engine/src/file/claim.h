/*
 * A file's claim: one client at a time flushes, cuts or renames it. The claim of a dead
 * client may be taken over by any other.
 */
#ifndef TB_FILE_CLAIM_H
#define TB_FILE_CLAIM_H

#include "region/handle.h"

#define TB_CLAIM_LOOK_NS 100000 /* how often a waiter looks at a claim; they are held for milliseconds */

/*
 * Claim the file; waits while another living client holds it. A client must not claim
 * twice. False: the record is free. A caller without a hold on the record (a descriptor, a
 * buffer, its place in the queue) may find that it has become another file's.
 */
bool tb_file_claim(tb_engine *e, uint32_t file);
/* The same without waiting: false also where another client holds it. */
bool tb_file_try_claim(tb_engine *e, uint32_t file);
void tb_file_unclaim(tb_engine *e, uint32_t file);
/* This client has the claim: for asserts. */
static inline bool tb_file_is_claimed(const tb_engine *e, uint32_t file)
{
    return e->region.files[file].flusher == e->slot + 1;
}
/* Another client waits for the claim: a holder that has it for long should give it up for a moment. */
bool tb_file_claim_is_wanted(const tb_engine *e, uint32_t file);
/* After the claim was given up: return when a waiter has had it. */
void tb_file_let_others_claim(const tb_engine *e, uint32_t file);

#endif
