/*
 * The records of all nodes by the launcher (PMIx: srun --mpi=pmix, mpirun), where it started this process and the build has
 * PMIx. They are hints as those of the folder are, and come beside them: a launcher that fails or hangs holds nothing up.
 */
#ifndef TB_NET_LAUNCHER_H
#define TB_NET_LAUNCHER_H

#include "net/start/members.h"

struct tb_launcher;

/* NULL: there is none to ask. Puts this node's record, and asks for those of all `n_nodes` in a thread of its own. */
struct tb_launcher *tb_launcher_ask(const char *text, unsigned n_nodes);
/* Calls `seen` for each record that has come. */
void tb_launcher_list(struct tb_launcher *l, const struct tb_proof_key *key, tb_members_seen *seen, void *arg);
/* Does not wait for the launcher. */
void tb_launcher_forget(struct tb_launcher *l);

#endif
