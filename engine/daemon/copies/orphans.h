/* Files that a lost node was the keeper of, read without it (`copies: 2`). */
#ifndef TB_COPIES_ORPHANS_H
#define TB_COPIES_ORPHANS_H

#include "relay.h"

/* The file's keeper is lost, and with second copies others can tell in its place. */
bool orphans_has(const tb_engine *e, const struct tb_net *net, const struct tb_wire_file *file);
/* What a look, or a WHERE, is told then. 0; -EAGAIN; -EIO: more nodes than the keeper are lost, or two of them have the same bytes. */
int orphans_ask(tb_engine *e, struct tb_net *net, const struct tb_wire *w, struct relay_answer *answer);
/* DIRTY of another node: the answer's length, or -errno. -EAGAIN: here the keeper is not lost. */
int64_t orphans_answer(tb_engine *e, const struct tb_net *net, const struct tb_wire *w, void *answer, size_t room);

#endif
