/*
 * A change of names is two: on the PFS, and in the records that flush by name.
 * A client that is killed between them would leave bytes whose file nobody finds.
 * So it first says here what it is about to do; whoever repairs after it looks at
 * the PFS for what was done, and does the rest.
 */
#ifndef TB_INTENT_H
#define TB_INTENT_H

#include "region/handle.h"

/* `file` and `over` (what `to` names now) may be TB_NONE.  Waits where all intents are taken. */
struct tb_intent *tb_intent_rename(tb_engine *e, uint32_t file, uint32_t over, const char *from, const char *to);
struct tb_intent *tb_intent_unlink(tb_engine *e, uint32_t file, const char *path);
void tb_intent_end(struct tb_intent *intent);

/* What a dead client was about to do, done as far as it got. */
void tb_intents_finish(tb_engine *e, uint32_t slot);

#endif
