/*
 * A change of a name is two changes: on the PFS, and in the records, by which a flush
 * finds the file. If a client were killed between them, its bytes would belong to a file
 * that cannot be found. So it first writes here what it is about to do. Repair then looks
 * at the PFS for what was done, and does the rest.
 */
#ifndef TB_INTENT_H
#define TB_INTENT_H

#include "region/handle.h"

/* `file` and `over` (what `to` names now) may be TB_NONE.  Waits where all intents are taken. */
struct tb_intent *tb_intent_rename(tb_engine *e, uint32_t file, uint32_t over, const char *from, const char *to);
/* Two names change places; one of them at least is a directory's. */
struct tb_intent *tb_intent_exchange(tb_engine *e, const char *from, const char *to);
struct tb_intent *tb_intent_unlink(tb_engine *e, uint32_t file, const char *path);
void tb_intent_end(struct tb_intent *intent);

/*
 * Records of files at or below two names that were exchanged get the names that lead to
 * them now. By what the PFS shows, so it may be run twice, and before the exchange.
 */
void tb_intent_settle_exchange(tb_engine *e, const char *from, const char *to);

/* What a dead client was about to do, done as far as it got. */
void tb_intents_finish(tb_engine *e, uint32_t slot);

#endif
