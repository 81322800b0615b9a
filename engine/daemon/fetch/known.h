/*
 * What the keepers of files said of which node has which bytes, kept for the next fetches of this node: so these need no message to the
 * keeper, and an open brings the list along.
 *
 * A list is as good as the last look of this node at the file: commit consistency asks for no more, and whoever looks again gets a list of
 * that moment. Where a node has no longer what the list says, it says so, and the keeper is asked.
 */
#ifndef TB_FETCH_KNOWN_H
#define TB_FETCH_KNOWN_H

#include "relay.h"

/* The moment of a question to the keeper. An answer to one that was asked before a later look, or a change, is not kept. */
uint64_t known_moment(const struct tb_wire_file *file);
/* 1 with the extents of [w->lo, w->hi) as WHERE has them, all of the range; 0: not known. */
int known_find(const struct tb_wire *w, struct relay_answer *answer);
/* The answer to a WHERE from `lo` on that was asked at that moment. */
void known_keep(const struct tb_wire_file *file, uint64_t moment, uint64_t lo, const struct relay_answer *answer);
/* The same of a look: answers to what was asked before count no more, and where another look was at the same time this one does not. */
void known_look(const struct tb_wire_file *file, uint64_t moment, const struct relay_answer *answer);
/* Before what this node was just told, or has just said, of the file is acted on. */
void known_forget(const struct tb_wire_file *file);

#endif
