/*
 * Bytes of a shared file that one thread fetched from other nodes (flush/remote.h). They are kept in the thread's own memory for
 * the length of one call, and are read from there once the chunk's lock is held again. They are void as soon as the file's
 * counts say that another node has committed newer ones.
 */
#include "flush/remote.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "buffer/map.h"
#include "shared/commit.h"
#include "shared/requests.h"

#define PAGE TB_BLOCK_MIN

/* Counts of a file. If one of them has moved since the fetch, bytes may be missing both in the buffers and in what was fetched. */
struct stamp {
    uint64_t known;
    uint32_t n_let_go, n_cleaned, n_spilled;
};

static _Thread_local struct {
    const tb_engine *engine;
    uint32_t file;
    struct stamp stamp; /* before */
    uint64_t lo, hi;
    char *bytes;
} fetched;

/* Answer to one request: what it tells, its extents, then bytes from `lo` on. */
struct answer {
    struct tb_told told;
    struct tb_wire_extent extent[TB_WIRE_MOST_FETCHED];
};

/* Given back at once, and not kept for the thread: most threads fetch nothing. */
void tb_remote_drop(void)
{
    free(fetched.bytes);
    fetched.bytes = NULL;
    fetched.engine = NULL;
}

static struct stamp stamp_of(const tb_engine *e, uint32_t file, uint64_t offset)
{
    const struct tb_file_nodes *f = &e->region.file_nodes[file];
    const struct tb_chunk_lock *chunk = &e->region.locks->chunk[tb_chunk_of(e, file, offset).stripe];
    return (struct stamp){f->known, f->n_let_go, f->n_cleaned, *(const volatile uint32_t *)&chunk->n_spilled};
}

static bool is_same(struct stamp a, struct stamp b)
{
    return a.known == b.known && a.n_let_go == b.n_let_go && a.n_cleaned == b.n_cleaned && a.n_spilled == b.n_spilled;
}

bool tb_remote_copy(const struct tb_target *t, void *to, uint64_t n, uint64_t offset)
{
    if (fetched.engine != t->engine || fetched.file != t->file || offset < fetched.lo || offset + n > fetched.hi ||
        !is_same(fetched.stamp, stamp_of(t->engine, t->file, offset)))
        return false;
    memcpy(to, fetched.bytes + (offset - fetched.lo), n);
    return true;
}

static size_t head_of(const struct tb_told *told)
{
    return sizeof(*told) + told->n * sizeof(struct tb_wire_extent);
}

/* The bytes of other nodes over those of the PFS. */
static void overlay(const struct answer *a, const char *bytes, uint64_t lo, uint64_t until, char *to)
{
    for (uint32_t i = 0; i < a->told.n; i++) {
        uint64_t from = a->extent[i].lo > lo ? a->extent[i].lo : lo, end = a->extent[i].hi < until ? a->extent[i].hi : until;
        if (from < end)
            memcpy(to + (from - lo), bytes + (from - lo), end - from);
    }
}

/* How many bytes are beside the extents, which are in order. */
static uint64_t beside(const struct answer *a, uint64_t lo, uint64_t until)
{
    uint64_t n = until - lo;
    for (uint32_t i = 0; i < a->told.n; i++)
        n -= (a->extent[i].hi < until ? a->extent[i].hi : until) - (a->extent[i].lo > lo ? a->extent[i].lo : lo);
    return n;
}

/* What another node said is not believed to be whole: lengths and bounds are checked, and all that is wrong is EIO. */
static int take_in(struct tb_target *t, const char *got, int64_t n, uint64_t lo, uint64_t hi, char *to, uint64_t *until)
{
    struct answer a;
    memcpy(&a.told, got, sizeof(a.told));
    if (n < (int64_t)sizeof(a.told) || a.told.n > TB_WIRE_MOST_FETCHED || a.told.before <= lo || a.told.before > hi)
        return -EIO;
    *until = a.told.before;
    memcpy(a.extent, got + sizeof(a.told), a.told.n * sizeof(*a.extent));
    if (a.told.n && n < (int64_t)(head_of(&a.told) + (*until - lo)))
        return -EIO;
    uint64_t rest = beside(&a, lo, *until);
    int rc = rest ? tb_target_read_pfs(t, to, *until - lo, lo) : 0;
    if (!rc)
        overlay(&a, got + head_of(&a.told), lo, *until, to);
    t->engine->header->totals.remote_read += *until - lo - rest;
    return rc;
}

/* As much of [lo, hi) as one answer holds. */
static int fetch_some(struct tb_target *t, uint64_t lo, uint64_t hi, char *to, char *got, size_t room, uint64_t *until)
{
    const struct tb_file *f = &t->engine->region.files[t->file];
    struct tb_wire w = {.op = TB_WIRE_FETCH, .file = {f->inode, f->birth_ns}, .lo = lo, .hi = hi};
    int64_t n = tb_ask(t->engine, &w, NULL, 0, got, room);
    return n < 0 ? (int)n : take_in(t, got, n, lo, hi, to, until);
}

/* Whole pages, since staging keeps whole pages (tiering/stage.c). The stamp is taken first. */
int tb_remote_fetch(struct tb_target *t, uint64_t offset, uint64_t n)
{
    tb_engine *e = t->engine;
    size_t room = tb_ask_room(e), most = (room - sizeof(struct answer)) / PAGE * PAGE;
    uint64_t lo = offset / PAGE * PAGE, hi = (offset + n + PAGE - 1) / PAGE * PAGE;
    char *got = malloc(room);
    int rc;
    tb_remote_drop();
    fetched.stamp = stamp_of(e, t->file, offset);
    fetched.bytes = malloc(hi - lo);
    rc = got && fetched.bytes ? 0 : -ENOMEM;
    for (uint64_t at = lo; at < hi && !rc;)
        rc = fetch_some(t, at, hi - at < most ? hi : at + most, fetched.bytes + (at - lo), got, room, &at);
    free(got);
    if (rc) {
        tb_remote_drop();
        return rc;
    }
    fetched.engine = e;
    fetched.file = t->file;
    fetched.lo = lo;
    fetched.hi = hi;
    return 0;
}
