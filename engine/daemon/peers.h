/*
 * The daemon among those of the other nodes (`nodes: shared`): it serves them, and asks them what its clients ask.
 */
#ifndef TB_DAEMON_PEERS_H
#define TB_DAEMON_PEERS_H

#include "base/error.h"
#include "region/handle.h"

struct peers;

/* Returns when all `n_nodes` have found each other; `folder` is the start's own, which all nodes see. */
int peers_begin(tb_engine *e, const char *folder, unsigned n_nodes, struct peers **out, struct tb_error *err);
/*
 * Something is left here, and this daemon ends: bytes in other nodes' memory come back as far as there is room. How many are left
 * there, and end with it.
 */
uint64_t peers_bring_home(tb_engine *e, struct peers *p);
/* Second copies of nodes that are lost go to the PFS. 0, or -EIO, and the log says why. How many bytes of them are not there. */
int peers_save_copies(struct peers *p);
uint64_t peers_unsaved(struct peers *p);
/* Stay as long as another node has bytes in this one's memory that are nowhere else, but no longer than `ends` says. */
void peers_stay(struct peers *p, bool (*ends)(void *arg), void *arg);
/*
 * Nothing is left here: stay for the others as long as they are ending, too. Then the network is closed. NULL: nothing to end. -EIO: copies
 * of a node that was lost meanwhile are here and not on the PFS, so this node is still joined.
 */
int peers_end(struct peers *p);

#endif
