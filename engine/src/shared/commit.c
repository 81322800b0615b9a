/*
 * Commits, looks and grants of one file (shared/commit.h). All that is said to other nodes goes through the daemon: this file
 * asks it, and takes in what it tells. A grant belongs to one thread and is kept in this process's memory.
 */
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
 * The later of two answers counts, no matter which comes first: a version is a count of the file's keeper. Of one version, bytes
 * elsewhere can only become fewer, so an answer that has some is believed. An answer that is older than what this node has heard of
 * is void: since then bytes may have gone from here.
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
 * True: there were commits of others. The PFS's bytes are not read as the latest any more, what is being fetched is void, and
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
    if (!tb_is_shared(e, f))
        return 0;
    struct tb_wire w = {.op = TB_WIRE_LOOK, .file = wire_of(f)};
    int rc = ask(e, &w, NULL, 0, told);
    return rc ? rc : take_in(e, file, told);
}

/* What a client asks of its daemon: to commit what is dirty, and `n` bytes from `offset` on that are about to be. */
struct news {
    uint64_t offset, n;
    uint64_t how;   /* enum tb_say */
    bool has_claim; /* so it does not wait for other nodes' claims for long */
    bool was_taken; /* by the keeper */
    bool changed;   /* by other nodes, too, since this one last asked */
    struct tb_told told;
    struct tb_ranges ranges; /* with TB_SAY_RANGES */
};

static int take_ranges(struct news *news, const char *answer, int64_t got)
{
    const struct tb_wire_range *range = (const void *)(answer + sizeof(news->told));
    int rc = got == (int64_t)(sizeof(news->told) + news->told.n * sizeof(*range)) ? 0 : -EIO;
    for (uint32_t i = 0; i < news->told.n && !rc; i++)
        rc = tb_ranges_add(&news->ranges, range[i].lo, range[i].hi);
    return rc;
}

/* The daemon lists what is dirty, and asks the keeper: daemon/turn.h. */
static int say(tb_engine *e, uint32_t file, struct news *news)
{
    struct tb_wire w = {
        .op = TB_WIRE_SAY, .file = wire_of(&e->region.files[file]), .lo = news->offset, .hi = news->offset + news->n, .version = news->how};
    size_t room = news->how & TB_SAY_RANGES ? tb_ask_room(e) : sizeof(news->told);
    char *answer = malloc(room);
    int64_t got = answer ? tb_ask(e, &w, NULL, 0, answer, room) : -ENOMEM;
    int rc = got < 0 ? (int)got : got < (int64_t)sizeof(news->told) ? -EIO : 0;
    if (!rc) {
        memcpy(&news->told, answer, sizeof(news->told));
        news->was_taken = true;
        rc = news->how & TB_SAY_RANGES ? take_ranges(news, answer, got) : 0;
    }
    free(answer);
    return rc;
}

#define CLAIM_SECONDS 1 /* how long the holder of the file's claim waits for a claim on another node */

/* Other nodes' flushes of older bytes have ended, or these bytes are gone there. */
static int await_owed(tb_engine *e, uint32_t file, uint64_t version, enum tb_owed bearable, bool has_claim)
{
    struct tb_wire w = {.op = TB_WIRE_AWAIT, .file = wire_of(&e->region.files[file]), .lo = bearable, .version = version};
    struct tb_told told;
    int64_t got = tb_ask_for(e, &w, NULL, 0, &told, sizeof(told), has_claim ? CLAIM_SECONDS : TB_ASK_SECONDS);
    return got == -EAGAIN && !has_claim ? -EIO : got < 0 ? (int)got : 0;
}

/* A program's commit returns when no other node has the older bytes; for a flush it does that none flushes them. */
static int commit(tb_engine *e, uint32_t file, struct news *news)
{
    enum tb_owed bearable = news->how & TB_SAY_EARLY ? TB_OWED_BYTES : TB_OWED_NOTHING;
    int rc = say(e, file, news);
    if (!rc && news->told.owed > bearable)
        rc = await_owed(e, file, news->told.version, bearable, news->has_claim);
    if (!rc)
        news->changed = take_in(e, file, &news->told);
    return rc;
}

/* A file that has lost its name is not told of: no other node can open it. */
int tb_shared_commit(tb_engine *e, uint32_t file, bool passed, uint64_t bare, struct tb_told *told)
{
    const struct tb_file *f = &e->region.files[file];
    struct news news = {.offset = bare, .how = (passed ? TB_SAY_PASSED : 0) | (bare ? TB_SAY_ON_PFS : 0)};
    if (!tb_is_shared(e, f) || f->flags & TB_FILE_UNLINKED)
        return 0;
    int rc = commit(e, file, &news);
    rc = rc ? rc : tb_shared_finish(e, file);
    if (told)
        *told = news.told;
    return rc ? rc : told && news.changed;
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
    assert(!grant.engine); /* nothing on the way took another one, which would never be told of */
    grant = (struct grant){.engine = e,
                           .file = file,
                           .n_let_go = says ? news->told.n_let_go : nodes->n_let_go,
                           .id = wire_of(f),
                           .spills = news->n > 0,
                           .ranges = news->ranges};
    return 0;
}

int tb_grant_take(tb_engine *e, uint32_t file)
{
    struct news news = {.how = TB_SAY_EARLY | TB_SAY_RANGES};
    return tb_is_shared(e, &e->region.files[file]) ? take_grant(e, file, &news) : 0;
}

int tb_grant_take_to_write(tb_engine *e, uint32_t file, uint64_t offset, uint64_t n)
{
    struct news news = {.offset = offset, .n = n, .how = TB_SAY_EARLY | TB_SAY_WRITERS | TB_SAY_RANGES};
    if (!tb_is_shared(e, &e->region.files[file]))
        return 0;
    int rc = take_grant(e, file, &news);
    if (!rc && (n ? !tb_grant_covers(e, file, offset, n) : tb_has_voids(e, file)))
        nanosleep(&(struct timespec){0, VOID_NS}, NULL); /* older bytes of the range are about to go from here: the caller comes again */
    return rc;
}

bool tb_shared_note_write(tb_engine *e, uint32_t file, uint64_t offset, uint64_t n)
{
    if (!tb_is_shared(e, &e->region.files[file]))
        return true;
    e->region.file_nodes[file].n_written++;
    return tb_recent_add(e, file, offset, offset + n) == 0;
}

/* Of the write that asks a part may be there: it is done once more at its end, as any other one. */
int tb_shared_commit_notes(tb_engine *e, uint32_t file)
{
    struct news news = {.how = TB_SAY_EARLY};
    return commit(e, file, &news);
}

int tb_grant_take_claimed(tb_engine *e, uint32_t file)
{
    struct news news = {.how = TB_SAY_EARLY | TB_SAY_RANGES, .has_claim = true};
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

/* Under the claim or a chunk's lock the answer stays true as long as that is held: letting go needs both. */
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
    assert(tb_interval_is_valid(e, b)); /* the chunk is locked */
    for (uint32_t lo = b->dirty_lo, a, z; covers && tb_interval_dirty(e, b, lo, b->dirty_hi, &a, &z); lo = z)
        covers = tb_grant_covers(e, file, start + a, z - a);
    return covers;
}

/* What of the ranges is not dirty any more is not here: the daemon looks, and tells the keeper. */
static void say_end(tb_engine *e, struct tb_wire_file id, const struct tb_ranges *ranges)
{
    uint32_t most = (uint32_t)(tb_ask_room(e) / sizeof(struct tb_wire_range));
    int64_t got = 0;
    for (uint32_t done = 0, n; done < ranges->n && got >= 0; done += n) {
        n = ranges->n - done < most ? ranges->n - done : most;
        assert(n > 0); /* a message has room for a range, so this ends */
        struct tb_wire w = {.op = TB_WIRE_SAY_END, .file = id, .n = n};
        struct tb_told told;
        got = tb_ask(e, &w, ranges->at + done, n * sizeof(*ranges->at), &told, sizeof(told));
    }
}

/* An error is nothing to the caller: the keeper believes that bytes are here. */
void tb_grant_end(tb_engine *e, uint32_t file)
{
    if (grant.engine != e || grant.file != file)
        return;
    struct grant ending = grant;
    grant = (struct grant){0};
    say_end(e, ending.id, &ending.ranges);
    if (ending.spills && is_file(e, file, &ending.id))
        e->region.file_nodes[file].n_spilling--; /* not earlier: until then the keeper sends readers here */
    tb_ranges_free(&ending.ranges);
}
