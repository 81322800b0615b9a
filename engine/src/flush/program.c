/*
 * Flushes and commits that a program asks for (program.h): what they wait for, of the daemon and of other nodes, waits without the file's
 * claim.
 */
#include "flush/program.h"

#include <errno.h>
#include <sys/stat.h>
#include <time.h>

#include "file/state.h"
#include "flush/backing.h"
#include "flush/copy.h"
#include "flush/queue.h"
#include "region/clients.h"
#include "shared/commit.h"
#include "shared/local.h"

#define OWN_SECONDS 2e-3 /* of waiting for the PFS that a program's process does itself */
#define HELD_TRIES 2000  /* looks at what other nodes have to flush first: 10 s in all */
#define HELD_NS 5000000

/*
 * A program's own process writes with one thread and waits for each write. Where those waits are long the daemon's threads
 * do the most of it. They open the file by its name.
 */
static bool is_better_handed_over(tb_engine *e, uint32_t file)
{
    const struct tb_file *f = &e->region.files[file];
    bool long_waits = f->n_dirty > 1 && (f->n_dirty - 1) * tb_pfs_latency(e) > OWN_SECONDS;
    return long_waits && !e->flush_threads && tb_config_of(e)->flush.threads > 1 && !tb_is_shared(e, f) && tb_file_may_flush(f) &&
           tb_daemon_is_alive(e->header) && tb_target_is_named(e, file);
}

/* False: the record was freed, so it is flushed. */
static bool flush_once(tb_engine *e, uint32_t file, int fd, bool sync, struct tb_flush_result *sum)
{
    if (!tb_flush_claim(e, file))
        return false;
    struct tb_flush_result one = tb_flush_giving_way(e, file, fd, sync);
    sum->bytes += one.bytes;
    sum->error = one.error;
    return true;
}

/* A program asked for it: what it committed has gone from other nodes when this returns, and all of it could go to the PFS. */
struct tb_flush_result tb_flush_file(tb_engine *e, uint32_t file, int fd, bool sync)
{
    if (is_better_handed_over(e, file))
        tb_flush_hand_over(e, file);
    struct tb_flush_result result = {0, 0};
    if (!flush_once(e, file, fd, sync, &result))
        return result;
    for (int i = 0; i < HELD_TRIES && !result.error && tb_has_held(e, file); i++) {
        nanosleep(&(struct timespec){0, HELD_NS}, NULL);
        if (!flush_once(e, file, fd, sync, &result))
            return result;
    }
    int rc = tb_has_held(e, file) ? -EIO : tb_shared_finish(e, file);
    result.error = result.error ? result.error : rc;
    return result;
}

/*
 * What has no second copy goes to the PFS, and what writes have put there must not be in a cache of this node alone. Of the second
 * commit the keeper learns which older copies count no more: other programs may have committed newer ones meanwhile.
 */
int tb_flush_commit(struct tb_target *t, struct tb_told *told)
{
    tb_engine *e = t->engine;
    const struct tb_file *f = &e->region.files[t->file];
    bool coherent = f->flags & TB_FILE_COHERENT;
    struct tb_told own = {0};
    int rc = tb_has_copies(e) && tb_is_shared(e, f) && f->unsynced ? tb_target_sync(t) : 0;
    rc = rc ? rc : tb_shared_commit(e, t->file, coherent, 0, &own);
    if (rc >= 0 && own.bare) {
        int changed = rc;
        rc = tb_flush_file(e, t->file, t->can_write ? t->fd : -1, true).error;
        rc = rc ? rc : tb_shared_commit(e, t->file, coherent, own.said, &own);
        rc = rc ? rc : changed;
    }
    if (told)
        *told = own;
    return rc > 0 && !told ? 0 : rc;
}

/* What an fsync has promised stays: a program outside may have removed the file. */
static bool may_be_removed_elsewhere(const tb_engine *e, const struct tb_file *f)
{
    return e->header->config.several_nodes && f->n_dirty && !f->n_durable && tb_file_may_flush(f);
}

int tb_flush_meet_removal(tb_engine *e, uint32_t file, int fd)
{
    struct stat st;
    if (!may_be_removed_elsewhere(e, &e->region.files[file]) || TB_IO(tb_file_io(e, file), fstat, fd, &st) || st.st_nlink)
        return 0;
    return tb_local_lose_own(e, file);
}
