/* Commits, looks and grants of one file: shared/commit.h. */
#include "shared/commit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "buffer/interval.h"
#include "region/counters.h"
#include "shared/local.h"
#include "shared/recent.h"
#include "shared/requests.h"

#define VOID_NS 1000000

/* What this thread may write to the PFS. */
struct grant {
    const tb_engine *engine;
    uint32_t file, n_let_go;
    uint64_t version;
    struct tb_wire_file id;
    bool spills; /* counted in n_spilling */
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
 * elsewhere can only become fewer, so who saw some is believed. An answer that is older than what this node has heard of is void:
 * since then bytes may have gone from here.
 */
void tb_shared_learn(tb_engine *e, uint32_t file, const struct tb_told *told)
{
    struct tb_file_nodes *f = &e->region.file_nodes[file];
    uint64_t known = f->known, now;
    do {
        bool later = tb_shared_is_latest(e, file, told->version);
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
    tb_local_hear(e, file, told->version);
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

/* What the keeper refused: other nodes' commits have newer bytes there, and this node has yet to let go of its own. */
struct refusal {
    bool any;
    uint64_t version;       /* of the latest of these commits */
    struct tb_ranges older; /* of what was sent: all but what was written here since */
};

static int note_refused(tb_engine *e, uint32_t file, const struct tb_wire_extent *x, bool keep, struct refusal *r)
{
    const struct tb_wire_range range = {x->lo, x->hi};
    const struct tb_ranges refused = {.at = (struct tb_wire_range *)&range, .n = 1};
    struct tb_ranges newer = {0};
    int rc = keep ? tb_recent_newer(e, file, x->version, &newer) : 0;
    rc = rc ? rc : tb_ranges_without(&refused, &newer, &r->older);
    tb_ranges_free(&newer);
    r->any = true;
    r->version = keep && x->version > r->version ? x->version : r->version;
    return rc;
}

/* One message. -ERESTART with `r`: the ranges are to be sent without what is older. */
static int send_some(tb_engine *e, uint32_t file, const struct tb_wire *w, const struct tb_wire_range *range, struct tb_told *told,
                     struct refusal *r)
{
    struct {
        struct tb_told told;
        struct tb_wire_extent extent[TB_WIRE_MOST];
    } answer;
    int64_t got = tb_ask(e, w, range, w->n * sizeof(*range), &answer, sizeof(answer));
    if (got < (int64_t)sizeof(answer.told))
        return got < 0 ? (int)got : -EIO;
    *told = answer.told;
    if (told->n > TB_WIRE_MOST || got < (int64_t)(sizeof(answer.told) + told->n * sizeof(answer.extent[0])))
        return -EIO;
    int rc = 0;
    for (uint32_t i = 0; i < told->n && !rc; i++)
        rc = note_refused(e, file, &answer.extent[i], told->n < TB_WIRE_MOST, r);
    return rc ? rc : told->n ? -ERESTART : 0;
}

/* As many messages as the ranges need: one, but for a file of many pieces. `last` is what the last one was told, with `owed` of all. */
static int send_ranges(tb_engine *e, uint32_t file, struct tb_wire *w, const struct tb_ranges *ranges, struct tb_told *last,
                       struct refusal *refusal)
{
    uint32_t most = (uint32_t)(tb_ask_room(e) / 2 / sizeof(struct tb_wire_range)), done = 0, owed = 0;
    uint64_t before = 0, first = 0;
    int rc;
    do {
        w->n = ranges->n - done < most ? ranges->n - done : most;
        rc = send_some(e, file, w, ranges->at + done, last, refusal);
        if (!rc && !done)
            before = last->before, first = last->version;
        owed = !rc && last->owed > owed ? last->owed : owed;
        done += w->n;
    } while (!rc && done < ranges->n);
    last->before = before;
    last->owed = owed;
    w->version = first;
    return rc;
}

/* What this node is to say of a file now: bytes that are dirty, and `n` from `offset` on that are about to be. */
struct news {
    uint64_t offset, n;
    bool passed;                  /* the PFS changed, too */
    bool is_early;                /* no program asked for this commit: it may take a part of a write along, */
    bool is_writers;              /* of the one that asks for it */
    bool has_claim;               /* so it does not wait for other nodes' claims for long */
    bool was_taken;               /* by the keeper, once at least */
    uint32_t n_let_go, n_cleaned; /* when it was listed, */
    uint64_t clock, began;        /* this node's clock, and the number of the list */
    struct tb_ranges ranges;
    struct tb_told told;
};

/*
 * The clock and n_let_go are read first: what goes after that makes the list an old one. A write that is under way while an early
 * list is made is done once more when it ends, so that its bytes are committed as a whole later (layer/write.c).
 */
static int list_news(tb_engine *e, uint32_t file, struct news *news)
{
    struct tb_file_nodes *f = &e->region.file_nodes[file];
    tb_ranges_free(&news->ranges);
    news->clock = e->header->asking.clock;
    news->began = tb_recent_begin(e, file);
    news->n_let_go = f->n_let_go;
    news->n_cleaned = f->n_cleaned;
    bool tears = news->is_early && !news->is_writers && tb_is_elsewhere(e, file);
    f->n_torn += tears;
    int rc = news->n ? tb_ranges_add(&news->ranges, news->offset, news->offset + news->n) : 0;
    rc = rc ? rc : tb_local_dirty(e, file, &news->ranges);
    f->n_torn += tears;
    return rc;
}

static int leave_out(struct tb_ranges *ranges, struct tb_ranges *older)
{
    struct tb_ranges rest = {0};
    tb_ranges_settle(older);
    int rc = tb_ranges_without(ranges, older, &rest);
    tb_ranges_free(ranges);
    *ranges = rest;
    return rc;
}

/* How a list was taken. */
struct taken {
    bool has_turn, refused;
    uint64_t version;      /* of the first message that was taken */
    struct tb_ranges left; /* out */
};

static int add_all(struct tb_ranges *to, const struct tb_ranges *from)
{
    int rc = 0;
    for (uint32_t i = 0; i < from->n && !rc; i++)
        rc = tb_ranges_add(to, from->at[i].lo, from->at[i].hi);
    tb_ranges_settle(to);
    return rc;
}

/* Again and again without what is refused. -ERESTART: it is, and this commit has no turn yet (tb_recent_hold). */
static int send_list(tb_engine *e, uint32_t file, struct news *news, struct taken *taken)
{
    uint64_t known = 0;
    int rc;
    do {
        struct refusal r = {0};
        struct tb_wire w = {
            .op = TB_WIRE_COMMIT, .file = wire_of(&e->region.files[file]), .lo = known, .hi = news->clock, .version = news->passed};
        rc = send_ranges(e, file, &w, &news->ranges, &news->told, &r);
        taken->version = w.version;
        taken->refused |= r.any;
        known = r.version > known ? r.version : known;
        int left = rc == -ERESTART ? leave_out(&news->ranges, &r.older) : 0;
        left = left ? left : add_all(&taken->left, &r.older);
        rc = left ? left : rc;
        tb_ranges_free(&r.older);
    } while (rc == -ERESTART && taken->has_turn);
    return rc;
}

/* Before n_let_go is read: what went until then was kept. */
static void note_taken(tb_engine *e, uint32_t file, const struct news *news, const struct taken *taken)
{
    bool own = !taken->has_turn && tb_recent_hold(e, file);
    tb_recent_committed(e, file, news->began, taken->version, taken->refused, &taken->left);
    e->region.file_nodes[file].voids = taken->left.n > 0;
    if (own)
        tb_recent_release(e, file);
}

/*
 * The keeper compares the list's time with when bytes stopped being dirty here, before other nodes have to let go of anything for it.
 * -ESTALE: the list is old, as far as it meets theirs; or at all. -ERESTART: it needs a turn.
 */
static int send_news(tb_engine *e, uint32_t file, struct news *news, bool has_turn)
{
    struct taken taken = {.has_turn = has_turn};
    int rc = send_list(e, file, news, &taken);
    if (!rc)
        note_taken(e, file, news, &taken);
    news->was_taken |= !rc;
    tb_ranges_free(&taken.left);
    return rc ? rc : e->region.file_nodes[file].n_let_go == news->n_let_go ? 0 : -ESTALE;
}

/* List and send: once, and where that was refused once more with a turn. */
static int say_news(tb_engine *e, uint32_t file, struct news *news)
{
    int rc = list_news(e, file, news);
    rc = rc ? rc : send_news(e, file, news, false);
    if (rc != -ERESTART)
        return rc;
    bool own = tb_recent_hold(e, file);
    rc = list_news(e, file, news);
    rc = rc ? rc : send_news(e, file, news, true);
    if (own)
        tb_recent_release(e, file);
    return rc;
}

/*
 * What of the ranges is not dirty any more is not here. Commits of other processes of this node may have said later than `version` that it is:
 * all that ended before the list is made count. One that ends later looks itself, where a flush came between.
 */
static int end_ranges(tb_engine *e, uint32_t file, struct tb_wire_file id, const struct tb_ranges *ranges, uint64_t version)
{
    struct tb_ranges dirty = {0}, done = {0};
    struct refusal none = {0};
    struct tb_wire w = {.op = TB_WIRE_END, .file = id, .hi = tb_local_tick(e)};
    struct tb_told told;
    uint64_t committed = file == TB_NONE ? 0 : e->region.file_nodes[file].committed;
    w.version = committed > version ? committed : version;
    int rc = file == TB_NONE ? 0 : tb_local_dirty(e, file, &dirty);
    rc = rc ? rc : tb_ranges_without(ranges, &dirty, &done);
    if (!rc && done.n)
        rc = send_ranges(e, file, &w, &done, &told, &none);
    tb_ranges_free(&dirty);
    tb_ranges_free(&done);
    return rc;
}

/* All but what is about to be written: other nodes may have let go of it already, so until then no other node is asked for it. */
static int take_back(tb_engine *e, uint32_t file, const struct news *news)
{
    const struct tb_wire_range coming = {news->offset, news->offset + news->n};
    const struct tb_ranges all = {.at = (struct tb_wire_range *)&coming, .n = news->n > 0};
    struct tb_ranges rest = {0};
    int rc = tb_ranges_without(&news->ranges, &all, &rest);
    rc = rc ? rc : end_ranges(e, file, wire_of(&e->region.files[file]), &rest, news->told.version);
    tb_ranges_free(&rest);
    return rc;
}

static void note_committed(struct tb_file_nodes *f, uint64_t version)
{
    uint64_t before = f->committed;
    while (before < version && !atomic_compare_exchange_weak(&f->committed, &before, version))
        ;
}

#define CLAIM_SECONDS 1 /* how long who has the claim of the file waits for a claim on another node */

/* Other nodes' flushes of older bytes have ended, or these bytes are gone there. */
static int await_owed(tb_engine *e, uint32_t file, uint64_t version, enum tb_owed bearable, bool has_claim)
{
    struct tb_wire w = {.op = TB_WIRE_AWAIT, .file = wire_of(&e->region.files[file]), .lo = bearable, .version = version};
    struct tb_told told;
    int64_t got = tb_ask_for(e, &w, NULL, 0, &told, sizeof(told), has_claim ? CLAIM_SECONDS : TB_ASK_SECONDS);
    return got == -EAGAIN && !has_claim ? -EIO : got < 0 ? (int)got : 0;
}

/*
 * Another node may commit some of the same bytes at the same time, and then they go from here while the message is under way. What
 * was said of them is taken back, and the rest is said once more. Nodes that write over each other's bytes do so at once; each commit
 * waits for later ones alone (a node flushes what it can't let go of), so none waits for itself.
 */
static int commit_list(tb_engine *e, uint32_t file, struct news *news)
{
    int rc;
    do {
        news->told = (struct tb_told){0};
        rc = say_news(e, file, news);
        note_committed(&e->region.file_nodes[file], news->told.version);
        bool flushed = !rc && !news->n && e->region.file_nodes[file].n_cleaned != news->n_cleaned;
        int ended = rc == -ESTALE || flushed ? take_back(e, file, news) : 0;
        rc = ended ? ended : rc;
    } while (rc == -ESTALE);
    return rc;
}

/* A program's commit returns when no other node has the older bytes; for a flush it does that none flushes them. */
static int commit(tb_engine *e, uint32_t file, struct news *news)
{
    enum tb_owed bearable = news->is_early ? TB_OWED_BYTES : TB_OWED_NOTHING;
    int rc = commit_list(e, file, news);
    if (!rc && news->told.owed > bearable)
        rc = await_owed(e, file, news->told.version, bearable, news->has_claim);
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
    return rc ? rc : tb_shared_finish(e, file);
}

int tb_shared_finish(tb_engine *e, uint32_t file)
{
    if (!tb_shared_owes(e, file))
        return 0;
    return await_owed(e, file, e->region.file_nodes[file].committed, TB_OWED_NOTHING, false);
}

/* For names: the file may have no record here. */
static int ask_of_identity(tb_engine *e, const struct tb_identity *id, enum tb_wire_op op, uint64_t lo, struct tb_told *told)
{
    struct tb_wire w = {.op = op, .file = {id->inode, id->birth_ns}, .lo = lo, .hi = op == TB_WIRE_CUT ? tb_local_tick(e) : UINT64_MAX};
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

/* As a commit it returns when the others have let go. */
int tb_shared_cut(tb_engine *e, const struct tb_identity *id, uint64_t length)
{
    struct tb_told told;
    int rc = ask_of_identity(e, id, TB_WIRE_CUT, length, &told);
    if (rc || !told.owed)
        return rc;
    struct tb_wire w = {.op = TB_WIRE_AWAIT, .file = {id->inode, id->birth_ns}, .lo = TB_OWED_NOTHING, .version = told.version};
    return ask(e, &w, NULL, 0, &told);
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
static int take_grant(tb_engine *e, uint32_t file, struct news *news)
{
    const struct tb_file *f = &e->region.files[file];
    struct tb_file_nodes *nodes = &e->region.file_nodes[file];
    bool says = news->n || f->n_dirty;
    if (grant.engine)
        tb_grant_end((tb_engine *)grant.engine, grant.file);
    nodes->n_spilling += news->n > 0;
    int rc = says ? commit(e, file, news) : 0;
    if (rc) {
        tb_ranges_free(&news->ranges);
        /* where others have let go for it, its bytes are nowhere: reading them stays an error until they are written */
        nodes->n_spilling -= news->n > 0 && !news->was_taken;
        return rc;
    }
    grant = (struct grant){.engine = e,
                           .file = file,
                           .n_let_go = says ? news->n_let_go : nodes->n_let_go,
                           .version = news->told.version,
                           .id = wire_of(f),
                           .spills = news->n > 0,
                           .ranges = news->ranges};
    return 0;
}

int tb_grant_take(tb_engine *e, uint32_t file)
{
    struct news news = {.is_early = true};
    return tb_is_shared(e, &e->region.files[file]) ? take_grant(e, file, &news) : 0;
}

int tb_grant_take_to_write(tb_engine *e, uint32_t file, uint64_t offset, uint64_t n)
{
    struct news news = {.offset = offset, .n = n, .is_early = true, .is_writers = true};
    if (!tb_is_shared(e, &e->region.files[file]))
        return 0;
    int rc = take_grant(e, file, &news);
    if (!rc && (n ? !tb_grant_covers(e, file, offset, n) : tb_has_voids(e, file)))
        nanosleep(&(struct timespec){0, VOID_NS}, NULL); /* older bytes of the range are about to go from here: the caller comes again */
    return rc;
}

int tb_shared_note_write(tb_engine *e, uint32_t file, uint64_t offset, uint64_t n)
{
    int rc;
    while (n && (rc = tb_recent_add(e, file, offset, offset + n)) == -ENOBUFS) {
        struct news news = {.is_early = true, .is_writers = true};
        rc = commit(e, file, &news);
        tb_ranges_free(&news.ranges);
        if (rc)
            return rc;
    }
    return 0;
}

int tb_grant_take_claimed(tb_engine *e, uint32_t file)
{
    struct news news = {.is_early = true, .has_claim = true};
    return tb_is_shared(e, &e->region.files[file]) ? take_grant(e, file, &news) : 0;
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
    bool there = is_file(e, file, &ending.id);
    end_ranges(e, ending.ranges.n && there ? file : TB_NONE, ending.id, &ending.ranges, ending.version);
    if (ending.spills && there)
        e->region.file_nodes[file].n_spilling--; /* not earlier: until then the keeper sends readers here */
    tb_ranges_free(&ending.ranges);
}
