/*
 * A file that several nodes have in their tiers (`nodes: shared`), as a process of one of them sees it.
 *
 * Each file has a keeper, a node that is computed from the file's identity. It knows which bytes of it which node has and the PFS
 * lacks. A commit (fsync, close, and each flush before it begins) tells it so. From then on it sends readers to this node; bytes
 * that other nodes had there are old and go, before the commit returns (a flush: they never go to the PFS any more). An open or an
 * fsync asks it whether anything has changed. Between the two, reads believe what is in local buffers and ask for the rest
 * (shared/fetch.h). Nothing goes to the PFS that was not committed first: older bytes of another node could follow it there.
 *
 * All calls do nothing, and return 0, for a file that is not shared: another `nodes:`, scratch, another file system than the
 * PFS. No lock of the region is held by the caller, nor the file's claim where it can be helped: a node that lets go of bytes
 * needs its own claim of the file.
 */
#ifndef TB_SHARED_COMMIT_H
#define TB_SHARED_COMMIT_H

#include "file/file.h"
#include "shared/ranges.h"

static inline bool tb_is_shared(const tb_engine *e, const struct tb_file *f)
{
    return e->shared_device && f->device == e->shared_device && !(f->flags & TB_FILE_SCRATCH);
}

/* What is committed has a second copy at its keeper (`copies: 2`). */
static inline bool tb_has_copies(const tb_engine *e)
{
    return e->shared_device && tb_config_of(e)->copies > 1;
}

/* Others have bytes of it that the PFS lacks, as far as this node knows. */
static inline bool tb_is_elsewhere(const tb_engine *e, uint32_t file)
{
    return e->region.file_nodes[file].known & 1;
}

/*
 * Ask what the others committed: clean bytes go where they are old, the size is raised to theirs. 1: there is something, and the
 * caller lowers the size, which others may have made less, and then learns what was told. 0: nothing, or -EIO: no node can tell.
 */
int tb_shared_look(tb_engine *e, uint32_t file, struct tb_told *told);
void tb_shared_learn(tb_engine *e, uint32_t file, const struct tb_told *told);
/*
 * Bytes of a shared file are being written, under the lock of their chunk: commits of other nodes until they are committed do not
 * take them away (shared/recent.h). False: there is no room for the note, so tb_shared_commit_notes comes first, without the lock.
 */
bool tb_shared_note_write(tb_engine *e, uint32_t file, uint64_t offset, uint64_t n);
int tb_shared_commit_notes(tb_engine *e, uint32_t file);
/*
 * What is dirty is seen by all from now on, and what went past the buffers (`passed`). Also looks: 1 as tb_shared_look. Without `told`
 * the caller is about to let go of the file: 0 then, and the next open lowers the size. If `told` says that it is bare it has no second
 * copy yet: a flush, synced, and then the same once more with the number `said` as `bare`, which is 0 at first, make the commit
 * (flush/program.h).
 */
int tb_shared_commit(tb_engine *e, uint32_t file, bool passed, uint64_t bare, struct tb_told *told);
/*
 * Other nodes are to hear of something: bytes that are dirty, and what a flush or a call past the buffers has put on the PFS. With second
 * copies the keeper is told in any case: what it has there of this node counts as long as it knows no better.
 */
static inline bool tb_shared_has_news(const tb_engine *e, uint32_t file)
{
    const struct tb_file *f = &e->region.files[file];
    const struct tb_file_nodes *nodes = tb_is_shared(e, f) ? &e->region.file_nodes[file] : NULL;
    return nodes && (f->n_dirty || f->flags & TB_FILE_COHERENT || nodes->n_written != nodes->n_said || tb_has_copies(e));
}
/* This node has heard of no later version of the file. */
static inline bool tb_shared_is_latest(const tb_engine *e, uint32_t file, uint64_t version)
{
    return e->region.file_nodes[file].heard <= version;
}
/* Other nodes have to let go of bytes that this one committed. */
static inline bool tb_shared_owes(const tb_engine *e, uint32_t file)
{
    return tb_is_shared(e, &e->region.files[file]) && e->region.file_nodes[file].owes;
}
/* After a flush that a program asked for: what it committed has gone from the other nodes, as after tb_shared_commit. */
int tb_shared_finish(tb_engine *e, uint32_t file);
/* All bytes that other nodes have of it go to the PFS, before this returns. */
int tb_shared_settle(tb_engine *e, uint32_t file);
int tb_shared_settle_identity(tb_engine *e, const struct tb_identity *id);
/* The file was cut at `length`; its last name was removed. */
int tb_shared_cut(tb_engine *e, const struct tb_identity *id, uint64_t length);
int tb_shared_remove(tb_engine *e, const struct tb_identity *id);
/* Where its bytes end, at least: 0 where no other node has any. */
int tb_shared_end(tb_engine *e, const struct tb_identity *id, uint64_t *end);

/*
 * The grant of this thread to write to the PFS: what is dirty now is committed. It holds as
 * long as no other node has taken any of the file (n_let_go). One at a time: taking the next ends it.
 */
int tb_grant_take(tb_engine *e, uint32_t file);
/* For a write that is under way, which puts `n` bytes from `offset` on there. */
int tb_grant_take_to_write(tb_engine *e, uint32_t file, uint64_t offset, uint64_t n);
/* The same for the holder of the file's claim, of what is dirty: -EAGAIN where another node's flush does not end soon. */
int tb_grant_take_claimed(tb_engine *e, uint32_t file);
/* The last list of dirty bytes had some that are not this node's any more: they are about to go, and no flush takes them. */
static inline bool tb_has_voids(const tb_engine *e, uint32_t file)
{
    return tb_is_shared(e, &e->region.files[file]) && e->region.file_nodes[file].voids && e->region.files[file].n_dirty;
}
/* The last list had some that wait for other nodes' flushes of older bytes: this node's flush comes again for them. */
static inline bool tb_has_held(const tb_engine *e, uint32_t file)
{
    return tb_is_shared(e, &e->region.files[file]) && e->region.file_nodes[file].held && e->region.files[file].n_dirty;
}
/* What it covers; NULL: there is none, or it does not hold any more. */
const struct tb_ranges *tb_grant_of(const tb_engine *e, uint32_t file);
bool tb_grant_covers(const tb_engine *e, uint32_t file, uint64_t offset, uint64_t n);
/* All dirty bytes of one of its buffers. The chunk is locked, so no grant can be taken then. */
bool tb_grant_covers_buffer(const tb_engine *e, uint32_t file, const struct tb_buffer *b);
/* What it covered and is not dirty any more is on the PFS: all are told. */
void tb_grant_end(tb_engine *e, uint32_t file);

#endif
