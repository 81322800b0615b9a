/*
 * Bytes of a shared file that one thread fetched from other nodes (flush/remote.h). They are asked for in pieces, several at once, so
 * that one is copied to the program while the next ones are on their way. For the length of one call they stay where the daemon put
 * them, in the answers to the requests, and are read from there once the chunk's lock is held again; where requests are scarce, in the
 * thread's own memory. They are void as soon as the file's counts say that another node has committed newer ones. Of reads that follow each
 * other the next pieces are asked for before the program does (flush/read_ahead.h).
 */
#include "flush/remote.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "flush/read_ahead.h"
#include "flush/stamp.h"
#include "shared/commit.h"
#include "shared/requests.h"

#define PAGE TB_BLOCK_MIN
#define PIECE (512u << 10) /* asked for at once: large beside the cost of a message, and two of them in a chunk of 1 MiB */
#define AT_ONCE 4u         /* pieces; also the most that stay in their requests */
#define AGAIN_NS 1000000   /* between two tries */

/* One request. Its answer is of [lo, until); the bytes are at `bytes`, in the request, or NULL: in the thread's memory. */
struct piece {
    struct tb_request *request;
    uint64_t lo, until;
    char *bytes;
    uint64_t ahead; /* up to where the answer goes, if it was asked ahead; else 0 */
};

static _Thread_local struct {
    const tb_engine *engine; /* NULL: nothing whole is here */
    uint32_t file;
    struct tb_stamp stamp; /* before */
    uint64_t lo, hi;
    char *own; /* the thread's memory for all of [lo, hi), made when it is needed */
    struct piece piece[AT_ONCE];
    uint32_t n;
    /* the program's memory for [from, from + size): each piece is copied there, too, when it comes */
    char *to;
    uint64_t from, size;
} fetched;

/* Answer to one request: what it tells, its extents, then bytes from `lo` on. */
struct answer {
    struct tb_told told;
    struct tb_wire_extent extent[TB_WIRE_MOST_FETCHED];
};

/* One that was asked ahead, and has bytes for the next read, waits for that. */
static void release(const struct piece *p)
{
    if (p->ahead > fetched.from + fetched.size)
        tb_ask_put_back(p->request);
    else
        tb_ask_give(p->request);
}

/* Given back at once, and not kept for the thread: most threads fetch nothing. */
void tb_remote_drop(void)
{
    for (uint32_t i = 0; i < fetched.n; i++)
        release(&fetched.piece[i]);
    fetched.n = 0;
    free(fetched.own);
    fetched.own = NULL;
    fetched.engine = NULL;
}

/* The part of a piece that is asked for, too. */
static void copy_part(const struct piece *p, char *to, uint64_t n, uint64_t offset)
{
    uint64_t lo = p->lo > offset ? p->lo : offset, hi = p->until < offset + n ? p->until : offset + n;
    if (lo < hi)
        memcpy(to + (lo - offset), p->bytes + (lo - p->lo), hi - lo);
}

/* It was copied there when it came. */
static bool is_in_place(const char *to, uint64_t n, uint64_t offset)
{
    return fetched.to && offset >= fetched.from && offset + n <= fetched.from + fetched.size && to == fetched.to + (offset - fetched.from);
}

bool tb_remote_has(const struct tb_target *t, uint64_t n, uint64_t offset)
{
    if (fetched.engine != t->engine || fetched.file != t->file || offset < fetched.lo || offset + n > fetched.hi)
        return false;
    struct tb_stamp now = tb_stamp_of(t->engine, t->file, offset);
    return tb_stamp_is(&fetched.stamp, &now);
}

bool tb_remote_give(const struct tb_target *t, void *to, uint64_t n, uint64_t offset)
{
    return (is_in_place(to, n, offset) && tb_remote_has(t, n, offset)) || tb_remote_copy(t, to, n, offset);
}

bool tb_remote_copy(const struct tb_target *t, void *to, uint64_t n, uint64_t offset)
{
    if (!tb_remote_has(t, n, offset))
        return false;
    if (fetched.own) /* what is in requests is copied over it */
        memcpy(to, fetched.own + (offset - fetched.lo), n);
    for (uint32_t i = 0; i < fetched.n; i++)
        copy_part(&fetched.piece[i], to, n, offset);
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

/* The place of [lo, ...) in the thread's memory; NULL: no memory. */
static char *own_at(uint64_t lo)
{
    if (!fetched.own)
        fetched.own = malloc(fetched.hi - fetched.lo);
    return fetched.own ? fetched.own + (lo - fetched.lo) : NULL;
}

/* In the thread's memory from now on; the request is free for others. */
static int move_home(struct piece *p)
{
    char *to = own_at(p->lo);
    if (to)
        memcpy(to, p->bytes, p->until - p->lo);
    release(p);
    p->request = NULL;
    p->bytes = to;
    return to ? 0 : -ENOMEM;
}

/* Of all that have come. */
static int move_all_home(void)
{
    int rc = 0;
    for (uint32_t i = 0; i < fetched.n; i++) {
        int moved = move_home(&fetched.piece[i]);
        rc = rc ? rc : moved;
    }
    fetched.n = 0;
    return rc;
}

/* Some of it is on the PFS: all of it is read from there, and the bytes of other nodes come over that. */
static int mix(struct tb_target *t, const struct answer *a, struct piece *p)
{
    char *to = own_at(p->lo);
    int rc = to ? tb_target_read_pfs(t, to, p->until - p->lo, p->lo) : -ENOMEM;
    if (!rc)
        overlay(a, p->bytes, p->lo, p->until, to);
    p->bytes = to;
    return rc;
}

/* What another node said is not believed to be whole: lengths and bounds are checked, and all that is wrong is EIO. */
static int read_answer(struct piece *p, int64_t n, uint64_t hi, struct answer *a)
{
    char *got = p->request->bytes;
    memcpy(&a->told, got, sizeof(a->told));
    if (n < (int64_t)sizeof(a->told) || a->told.n > TB_WIRE_MOST_FETCHED || a->told.before <= p->lo || a->told.before > hi)
        return -EIO;
    p->until = a->told.before;
    p->bytes = got + head_of(&a->told);
    memcpy(a->extent, got + sizeof(a->told), a->told.n * sizeof(*a->extent));
    return a->told.n && n < (int64_t)(head_of(&a->told) + (p->until - p->lo)) ? -EIO : 0;
}

static int take_in(struct tb_target *t, struct piece *p, int64_t n, uint64_t hi)
{
    struct answer a;
    int rc = read_answer(p, n, hi, &a);
    if (rc)
        return rc;
    uint64_t rest = beside(&a, p->lo, p->until);
    t->engine->header->totals.remote_read += p->until - p->lo - rest;
    return rest ? mix(t, &a, p) : 0;
}

/* It has come: to the program, and it stays in its request where there is a place for it. */
static int keep(struct piece *p)
{
    bool is_home = fetched.own && p->bytes == fetched.own + (p->lo - fetched.lo);
    if (fetched.to && p->bytes)
        copy_part(p, fetched.to, fetched.size, fetched.from);
    if (is_home)
        tb_ask_give(p->request);
    else if (!fetched.to || fetched.n == AT_ONCE)
        return move_home(p);
    else
        fetched.piece[fetched.n++] = *p;
    return 0;
}

static struct tb_wire wire_of(const struct tb_target *t, uint64_t lo, uint64_t hi)
{
    const struct tb_file *f = &t->engine->region.files[t->file];
    return (struct tb_wire){.op = TB_WIRE_FETCH, .file = {f->inode, f->birth_ns}, .lo = lo, .hi = hi};
}

/* The answer to [p->lo, hi), begun already or not. Where it is asked again nothing is held. */
static int64_t await(struct tb_target *t, struct piece *p, uint64_t hi, uint64_t until)
{
    int64_t got = -EAGAIN;
    int rc = 0;
    while (got == -EAGAIN && !rc && tb_now_ns() < until) {
        if (!p->request) {
            struct tb_wire w = wire_of(t, p->lo, hi);
            rc = move_all_home();
            p->request = rc ? NULL : tb_ask_begin(t->engine, &w, until);
        }
        got = p->request ? tb_ask_end(t->engine, p->request, until) : -EIO;
        p->request = got < 0 ? NULL : p->request;
        if (got == -EAGAIN)
            nanosleep(&(struct timespec){0, AGAIN_NS}, NULL);
    }
    return rc ? rc : got == -EAGAIN ? -EIO : got;
}

/* [p->lo, hi): as much as one answer holds, then the rest. */
static int finish(struct tb_target *t, struct piece *p, uint64_t hi, uint64_t until)
{
    int rc = 0;
    for (; p->lo < hi && !rc; p->lo = p->until) {
        int64_t n = await(t, p, hi, until);
        if (n < 0)
            return (int)n;
        rc = take_in(t, p, n, hi);
        if (rc)
            tb_ask_give(p->request);
        else
            rc = keep(p);
        p->request = NULL;
    }
    return rc;
}

/* Those that were begun for nothing. */
static void leave(struct piece *p, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (p[i].request)
            tb_ask_leave(p[i].request);
}

/* Up to AT_ONCE pieces, each of `size` bytes but the last. The first has a request in any case; the others where one is spare. */
static int fetch_some(struct tb_target *t, uint64_t lo, uint64_t hi, uint64_t size, uint64_t until)
{
    struct piece p[AT_ONCE] = {0};
    uint32_t n = 0;
    int rc = 0;
    for (uint64_t at = lo; at < hi && n < AT_ONCE; at += size, n++) {
        struct tb_wire w = wire_of(t, at, hi - at < size ? hi : at + size);
        p[n].lo = at;
        p[n].request = n && !p[n - 1].request ? NULL : tb_ask_begin(t->engine, &w, n ? 0 : until);
        if (!n && !p[n].request)
            return -EIO;
    }
    for (uint32_t i = 0; i < n && !rc; i++) {
        uint64_t end = hi - p[i].lo < size ? hi : p[i].lo + size;
        rc = finish(t, &p[i], end, until);
        if (rc)
            leave(p + i + 1, n - i - 1);
    }
    return rc;
}

/*
 * 1: what was asked ahead has byte `at`, and the piece is what this read wants of that. 0: no answer has it, or one that lacks some bytes: those
 * are on the PFS, and may have changed since.
 */
static int take_ahead(struct tb_target *t, uint64_t at, uint64_t hi, uint64_t until, struct piece *p)
{
    struct tb_ahead got;
    struct answer a;
    if (!tb_read_ahead_take(t, at, &fetched.stamp, until, &got))
        return 0;
    if (got.n < 0)
        return (int)got.n;
    *p = (struct piece){.request = got.request, .lo = got.lo, .ahead = got.hi};
    if (read_answer(p, got.n, got.hi, &a) || p->until != got.hi || beside(&a, p->lo, p->until)) {
        tb_ask_give(p->request);
        tb_read_ahead_stop();
        return 0;
    }
    p->bytes += at - p->lo;
    p->lo = at;
    p->until = hi < p->until ? hi : p->until;
    t->engine->header->totals.remote_read += p->until - p->lo;
    return 1;
}

/* What of [*at, hi) came ahead, from its first byte on. */
static int fetch_ahead(struct tb_target *t, uint64_t *at, uint64_t hi, uint64_t until)
{
    struct piece p;
    int rc = 1;
    while (*at < hi && rc > 0 && (rc = take_ahead(t, *at, hi, until, &p)) > 0) {
        *at = p.until;
        rc = keep(&p) ? -ENOMEM : 1;
    }
    return rc < 0 ? rc : 0;
}

/* So that pieces are alike, and of whole pages. */
static uint64_t size_of_pieces(const tb_engine *e, uint64_t n)
{
    uint64_t most = (tb_ask_room(e) - sizeof(struct answer)) / PAGE * PAGE, size = PIECE < most ? PIECE : most;
    uint64_t pieces = (n + size - 1) / size;
    return (n / PAGE + pieces - 1) / pieces * PAGE;
}

static int fetch_rest(struct tb_target *t, uint64_t at, uint64_t hi, uint64_t until)
{
    uint64_t size = size_of_pieces(t->engine, hi - at);
    int rc = 0;
    for (; at < hi && !rc; at += AT_ONCE * size) {
        rc = move_all_home(); /* of earlier ones: their requests are needed */
        rc = rc ? rc : fetch_some(t, at, hi - at < AT_ONCE * size ? hi : at + AT_ONCE * size, size, until);
    }
    return rc;
}

/* Whole pages, since staging keeps whole pages (tiering/stage.c). The stamp is taken first. No read waits for longer than the one deadline. */
int tb_remote_fetch(struct tb_target *t, uint64_t offset, uint64_t n, char *to)
{
    tb_engine *e = t->engine;
    uint64_t lo = offset / PAGE * PAGE, hi = (offset + n + PAGE - 1) / PAGE * PAGE, at = lo;
    uint64_t until = tb_now_ns() + TB_FETCH_SECONDS * 1000000000ull;
    tb_remote_drop();
    fetched.stamp = tb_stamp_of(e, t->file, offset);
    fetched.lo = lo;
    fetched.hi = hi;
    fetched.to = to;
    fetched.from = offset;
    fetched.size = n;
    int rc = to ? fetch_ahead(t, &at, hi, until) : 0;
    rc = rc || at == hi ? rc : fetch_rest(t, at, hi, until);
    if (rc) {
        tb_remote_drop();
        return rc;
    }
    fetched.engine = e;
    fetched.file = t->file;
    return 0;
}

void tb_remote_end(struct tb_target *t, uint64_t offset, uint64_t n)
{
    tb_remote_drop();
    if (n)
        tb_read_ahead_go_on(t, offset, n, size_of_pieces(t->engine, t->engine->header->chunk.bytes));
}
