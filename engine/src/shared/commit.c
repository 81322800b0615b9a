/* Commits, looks and grants of one file: shared/commit.h. */
#include "shared/commit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "buffer/interval.h"
#include "region/counters.h"
#include "shared/local.h"
#include "shared/requests.h"

/* What this thread may write to the PFS. */
struct grant {
    const tb_engine *engine;
    uint32_t file, n_let_go;
    uint64_t version;
    struct tb_wire_file id;
    struct tb_ranges ranges;
};

static _Thread_local struct grant grant;

/*
 * Devices have other numbers on other nodes. What a client and the daemons of all nodes call the same file: the inode and
 * the time of its birth.
 */
static struct tb_wire_file wire_of(const struct tb_file *f)
{
    return (struct tb_wire_file){f->inode, f->birth_ns};
}

/*
 * The later of two answers counts, whichever comes first: a version is a count of the file's keeper. Of one version, bytes
 * elsewhere can only become fewer, so who saw some is believed.
 */
void tb_shared_learn(tb_engine *e, uint32_t file, const struct tb_told *told)
{
    struct tb_file_nodes *f = &e->region.file_nodes[file];
    uint64_t known = f->known, now;
    do {
        bool later = told->version > known >> 1 || !told->version;
        now = told->version == known >> 1 ? known | told->elsewhere : later ? told->version << 1 | told->elsewhere : known;
    } while (!atomic_compare_exchange_weak(&f->known, &known, now));
}

/*
 * True: there were commits of others. Nobody reads the PFS's bytes for the latest any more, what is being fetched is void, and
 * clean bytes are gone; the version stays unknown, so that every other open looks, too, until one has done all that it asks for.
 */
static bool take_in(tb_engine *e, uint32_t file, const struct tb_told *told)
{
    struct tb_file_nodes *f = &e->region.file_nodes[file];
    bool changed = told->before != f->known >> 1;
    if (changed) {
        f->known |= told->elsewhere;
        f->n_cleaned++;
        tb_local_forget_clean(e, file);
    }
    if (told->end)
        tb_file_raise_size(&e->region.files[file], told->end);
    if (!changed)
        tb_shared_learn(e, file, told);
    return changed;
}

/* 0 with what the keeper told, or negative errno. */
static int ask(tb_engine *e, const struct tb_wire *w, const void *more, size_t n, struct tb_told *told)
{
    int64_t got = tb_ask(e, w, more, n, told, sizeof(*told));
    return got < 0 ? (int)got : got < (int64_t)sizeof(*told) ? -EIO : 0;
}

int tb_shared_look(tb_engine *e, uint32_t file, struct tb_told *told)
{
    const struct tb_file *f = &e->region.files[file];
    struct tb_wire w = {.op = TB_WIRE_LOOK, .file = wire_of(f)};
    int rc = tb_is_shared(e, f) ? ask(e, &w, NULL, 0, told) : 1;
    return rc ? (rc < 0 ? rc : 0) : take_in(e, file, told);
}

/* As many messages as the ranges need: one, but for a file of many pieces. */
static int send_ranges(tb_engine *e, struct tb_wire *w, const struct tb_ranges *ranges, struct tb_told *last, uint64_t *before)
{
    uint32_t most = (uint32_t)(tb_ask_room(e) / 2 / sizeof(struct tb_wire_range)), done = 0;
    int rc;
    do {
        w->n = ranges->n - done < most ? ranges->n - done : most;
        rc = ask(e, w, ranges->at + done, w->n * sizeof(*ranges->at), last);
        if (!rc && !done)
            *before = last->before;
        done += w->n;
    } while (!rc && done < ranges->n);
    return rc;
}

/* What this node is to say of a file now: bytes that are dirty, and `n` from `offset` on that are about to be. */
struct news {
    uint64_t offset, n;
    bool passed;                  /* the PFS changed, too */
    uint32_t n_let_go, n_cleaned; /* when it was listed */
    struct tb_ranges ranges;
    struct tb_told told;
};

/* n_let_go is read first: what goes after that makes the list an old one. */
static int list_news(tb_engine *e, uint32_t file, struct news *news)
{
    tb_ranges_free(&news->ranges);
    news->n_let_go = e->region.file_nodes[file].n_let_go;
    news->n_cleaned = e->region.file_nodes[file].n_cleaned;
    int rc = news->n ? tb_ranges_add(&news->ranges, news->offset, news->offset + news->n) : 0;
    return rc ? rc : tb_local_dirty(e, file, &news->ranges);
}

/* The daemon compares n_let_go before it makes others let go of anything. -ESTALE: the list is old. */
static int send_news(tb_engine *e, uint32_t file, struct news *news)
{
    const struct tb_file *f = &e->region.files[file];
    struct tb_wire w = {.op = TB_WIRE_COMMIT, .file = wire_of(f), .lo = news->n_let_go, .version = news->passed};
    uint64_t before = 0;
    int rc = send_ranges(e, &w, &news->ranges, &news->told, &before);
    news->told.before = before;
    return rc ? rc : e->region.file_nodes[file].n_let_go == news->n_let_go ? 0 : -ESTALE;
}

/*
 * What of the ranges is not dirty any more is not here. Commits of other processes of this node may have said later than `version` that it is:
 * all that ended before the list is made count. One that ends later looks itself, where a flush came between.
 */
static int end_ranges(tb_engine *e, uint32_t file, struct tb_wire_file id, const struct tb_ranges *ranges, uint64_t version)
{
    struct tb_ranges dirty = {0}, done = {0};
    struct tb_wire w = {.op = TB_WIRE_END, .file = id, .version = version};
    struct tb_told told;
    uint64_t before, committed = file == TB_NONE ? 0 : e->region.file_nodes[file].committed;
    w.version = committed > version ? committed : version;
    int rc = file == TB_NONE ? 0 : tb_local_dirty(e, file, &dirty);
    rc = rc ? rc : tb_ranges_without(ranges, &dirty, &done);
    if (!rc && done.n)
        rc = send_ranges(e, &w, &done, &told, &before);
    tb_ranges_free(&dirty);
    tb_ranges_free(&done);
    return rc;
}

static void note_committed(struct tb_file_nodes *f, uint64_t version)
{
    uint64_t before = f->committed;
    while (before < version && !atomic_compare_exchange_weak(&f->committed, &before, version))
        ;
}

/*
 * Another node may commit some of the same bytes at the same time, and then they go from here while the message is under way. What
 * was said of them is taken back, and the rest is said once more. Two nodes that write over each other's bytes do so at once.
 */
static int commit(tb_engine *e, uint32_t file, struct news *news)
{
    const struct tb_file *f = &e->region.files[file];
    int rc;
    do {
        rc = list_news(e, file, news);
        news->told = (struct tb_told){0};
        rc = rc ? rc : send_news(e, file, news);
        note_committed(&e->region.file_nodes[file], news->told.version);
        bool flushed = !rc && !news->n && e->region.file_nodes[file].n_cleaned != news->n_cleaned;
        int ended = rc == -ESTALE || flushed ? end_ranges(e, file, wire_of(f), &news->ranges, news->told.version) : 0;
        rc = ended ? ended : rc;
    } while (rc == -ESTALE);
    if (!rc)
        take_in(e, file, &news->told);
    return rc;
}

/* A file that has lost its name is not told of: no other node can open it. */
int tb_shared_commit(tb_engine *e, uint32_t file, bool passed)
{
    const struct tb_file *f = &e->region.files[file];
    struct news news = {.passed = passed};
    if (!tb_is_shared(e, f) || f->flags & TB_FILE_UNLINKED)
        return 0;
    int rc = commit(e, file, &news);
    tb_ranges_free(&news.ranges);
    return rc;
}

/* For names: the file may have no record here. */
static int ask_of_identity(tb_engine *e, const struct tb_identity *id, enum tb_wire_op op, uint64_t lo, struct tb_told *told)
{
    struct tb_wire w = {.op = op, .file = {id->inode, id->birth_ns}, .lo = lo, .hi = UINT64_MAX};
    *told = (struct tb_told){0};
    return e->shared_device && id->regular && id->device == e->shared_device ? ask(e, &w, NULL, 0, told) : 0;
}

int tb_shared_settle_identity(tb_engine *e, const struct tb_identity *id)
{
    struct tb_told told;
    return ask_of_identity(e, id, TB_WIRE_SETTLE, 0, &told);
}

/* Returns when the keeper knows of no bytes of other nodes any more, so the PFS has them and this call may pass through. */
int tb_shared_settle(tb_engine *e, uint32_t file)
{
    const struct tb_file *f = &e->region.files[file];
    struct tb_wire w = {.op = TB_WIRE_SETTLE, .file = wire_of(f), .hi = UINT64_MAX};
    struct tb_told told;
    int rc = tb_is_shared(e, f) ? ask(e, &w, NULL, 0, &told) : 1;
    if (!rc)
        take_in(e, file, &told);
    return rc < 0 ? rc : 0;
}

int tb_shared_cut(tb_engine *e, const struct tb_identity *id, uint64_t length)
{
    struct tb_told told;
    return ask_of_identity(e, id, TB_WIRE_CUT, length, &told);
}

int tb_shared_remove(tb_engine *e, const struct tb_identity *id)
{
    struct tb_told told;
    return ask_of_identity(e, id, TB_WIRE_REMOVE, 0, &told);
}

int tb_shared_end(tb_engine *e, const struct tb_identity *id, uint64_t *end)
{
    struct tb_told told;
    int rc = ask_of_identity(e, id, TB_WIRE_LOOK, 0, &told);
    *end = told.end;
    return rc;
}

/*
 * Without anything to say there is no message, and the grant covers nothing. One grant a thread: an older one is ended
 * first, since what it covers would not be told of otherwise.
 */
int tb_grant_take(tb_engine *e, uint32_t file, uint64_t offset, uint64_t n)
{
    const struct tb_file *f = &e->region.files[file];
    struct news news = {.offset = offset, .n = n};
    if (!tb_is_shared(e, f))
        return 0;
    if (grant.engine)
        tb_grant_end((tb_engine *)grant.engine, grant.file);
    int rc = n || f->n_dirty ? commit(e, file, &news) : 0;
    if (rc)
        tb_ranges_free(&news.ranges);
    else
        grant = (struct grant){.engine = e,
                               .file = file,
                               .n_let_go = n || f->n_dirty ? news.n_let_go : e->region.file_nodes[file].n_let_go,
                               .version = news.told.version,
                               .id = wire_of(f),
                               .ranges = news.ranges};
    return rc;
}

static bool is_file(const tb_engine *e, uint32_t file, const struct tb_wire_file *id)
{
    const struct tb_file *f = &e->region.files[file];
    return f->inode == id->inode && f->birth_ns == id->birth_ns;
}

/* The record's number may belong to another file by now, so the identity is compared, too. */
static bool is_of(const tb_engine *e, uint32_t file)
{
    return grant.engine == e && grant.file == file && is_file(e, file, &grant.id);
}

/* Under the claim or a chunk's lock the answer stays true as long as that is held: who lets go needs both. */
const struct tb_ranges *tb_grant_of(const tb_engine *e, uint32_t file)
{
    return is_of(e, file) && e->region.file_nodes[file].n_let_go == grant.n_let_go ? &grant.ranges : NULL;
}

bool tb_grant_covers(const tb_engine *e, uint32_t file, uint64_t offset, uint64_t n)
{
    const struct tb_ranges *r = tb_is_shared(e, &e->region.files[file]) ? tb_grant_of(e, file) : NULL;
    return !tb_is_shared(e, &e->region.files[file]) || (r && tb_ranges_cover(r, offset, offset + n));
}

/* Each dirty part alone: between two of them there may be bytes of another node, which this node must not write. */
bool tb_grant_covers_buffer(const tb_engine *e, uint32_t file, const struct tb_buffer *b)
{
    uint64_t start = tb_buffer_start(e, b);
    bool covers = true;
    for (uint32_t lo = b->dirty_lo, a, z; covers && tb_interval_dirty(e, b, lo, b->dirty_hi, &a, &z); lo = z)
        covers = tb_grant_covers(e, file, start + a, z - a);
    return covers;
}

/* Of a file whose record is gone nothing is dirty. An error is nothing to the caller: the keeper believes that bytes are here. */
void tb_grant_end(tb_engine *e, uint32_t file)
{
    if (grant.engine != e || grant.file != file)
        return;
    struct grant ending = grant;
    grant = (struct grant){0};
    end_ranges(e, ending.ranges.n && is_file(e, file, &ending.id) ? file : TB_NONE, ending.id, &ending.ranges, ending.version);
    tb_ranges_free(&ending.ranges);
}
