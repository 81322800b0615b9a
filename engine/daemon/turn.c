/*
 * Turns of files, and what is said in one (turn.h): commits, ends of grants, and cuts. A turn is a lock of many: files that
 * share one wait for each other, no more. Nothing of a turn outlives this process; bytes that a commit did not get to are still
 * dirty, and the next one lists them.
 */
#include "turn.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "copies/send.h"
#include "flush/backing.h"
#include "owed.h"
#include "region/mix.h"
#include "relay.h"
#include "shared/commit.h"
#include "shared/local.h"
#include "shared/recent.h"

#define TURNS 256u
#define RANGES_MOST ((uint32_t)((TB_NET_BYTES_MAX - sizeof(struct tb_wire)) / sizeof(struct tb_wire_range)))
#define HOLDERS_MOST 16u /* the next try names others */
#define LISTS_MOST 3     /* the keeper has heard a later number of us after a call that failed, and not again and again */

static pthread_mutex_t turns[TURNS];
static pthread_once_t made = PTHREAD_ONCE_INIT;

static void make(void)
{
    for (uint32_t i = 0; i < TURNS; i++)
        pthread_mutex_init(&turns[i], NULL);
}

static pthread_mutex_t *turn_of(const struct tb_wire_file *file)
{
    pthread_once(&made, make);
    return &turns[tb_mix64(file->inode ^ tb_mix64((uint64_t)file->birth_ns)) % TURNS];
}

void turn_take(const struct tb_wire_file *file)
{
    pthread_mutex_lock(turn_of(file));
}

void turn_drop(const struct tb_wire_file *file)
{
    pthread_mutex_unlock(turn_of(file));
}

/* What is said of a file in one turn. */
struct saying {
    tb_engine *e;
    struct tb_net *net;
    struct tb_wire_file id;
    uint32_t file; /* TB_NONE: nothing of it is here */
    uint64_t lo, hi, how;
    uint64_t clock, began; /* the numbers of what is said and of the list */
    uint32_t n_written;
    struct tb_ranges ranges, left;
    bool is_owed;                              /* others have to let go for it */
    bool leaves;                               /* no program waits for all of it: it may leave out what others have to flush first */
    bool sends;                                /* its second copies, though it is early */
    uint32_t held_by[HOLDERS_MOST], n_held_by; /* those of them that were named last */
    uint32_t copies;                           /* enum tb_copies */
    uint64_t state;                            /* of what is sent */
    struct tb_told told;
    struct relay_answer *answer;
};

/* Takes the turn also where it fails: `end` follows in any case. */
static int begin(struct saying *s, tb_engine *e, struct tb_net *net, const struct tb_wire *w)
{
    *s = (struct saying){.e = e, .net = net, .id = w->file, .lo = w->lo, .hi = w->hi, .how = w->version};
    s->leaves = s->how & TB_SAY_ON_PFS || (s->how & TB_SAY_RANGES && !(s->how & TB_SAY_WRITERS));
    s->answer = malloc(sizeof(*s->answer));
    turn_take(&s->id);
    s->file = tb_local_find(e, &s->id);
    return s->answer ? 0 : -ENOMEM;
}

/* The turn goes first: the next thread may list while this one frees. */
static void end(struct saying *s)
{
    turn_drop(&s->id);
    tb_ranges_free(&s->ranges);
    tb_ranges_free(&s->left);
    free(s->answer);
}

static struct tb_file_nodes *nodes_of(const struct saying *s)
{
    return s->file == TB_NONE ? NULL : &s->e->region.file_nodes[s->file];
}

/*
 * The count of writes is read first, so that a write which is missed here is one that was not said. A write that is under way while a
 * list is made is noted or done once more when it ends, so that its bytes are committed as a whole later (layer/write.c); a write that asks
 * for the list would never end then.
 */
static int list_here(struct saying *s, struct tb_file_nodes *f)
{
    bool tears = !(s->how & TB_SAY_WRITERS);
    s->n_written = f->n_written;
    s->began = tb_recent_begin(s->e, s->file);
    s->told.n_let_go = f->n_let_go;
    f->n_torn += tears;
    int rc = tb_local_dirty(s->e, s->file, &s->ranges);
    f->n_torn += tears;
    return rc;
}

/* A new list: that of an earlier try may be out of date. */
static int list(struct saying *s)
{
    struct tb_file_nodes *f = nodes_of(s);
    tb_ranges_free(&s->ranges);
    tb_ranges_free(&s->left);
    s->told = (struct tb_told){0};
    s->clock = tb_local_tick(s->e);
    int rc = s->lo < s->hi ? tb_ranges_add(&s->ranges, s->lo, s->hi) : 0;
    rc = rc || !f ? rc : list_here(s, f);
    tb_ranges_settle(&s->ranges);
    return rc;
}

/* Of [at, at + n) of the ranges. 0 or negative errno; the answer is checked as far as its lengths go. */
static int ask(struct saying *s, struct tb_wire *w, uint32_t at, uint32_t n)
{
    char *request = malloc(sizeof(*w) + n * sizeof(*s->ranges.at));
    if (!request)
        return -ENOMEM;
    w->n = n;
    w->hi = s->clock;
    w->file = s->id;
    memcpy(request, w, sizeof(*w));
    if (n)
        memcpy(request + sizeof(*w), s->ranges.at + at, n * sizeof(*s->ranges.at));
    int rc = relay_ask_keeper(s->e, s->net, request, sizeof(*w) + n * sizeof(*s->ranges.at), s->answer);
    free(request);
    return rc;
}

/* The extents of one node, which are together in the answer. */
static int add_debt(struct saying *s, const struct tb_wire *w, const struct tb_wire_extent *x, uint32_t n,
                    const struct tb_wire_range *asked)
{
    struct tb_ranges ranges = {0};
    int rc = 0;
    for (uint32_t i = 0; i < (x->is_all ? w->n : n) && !rc; i++)
        rc = x->is_all ? tb_ranges_add(&ranges, asked[i].lo, asked[i].hi) : tb_ranges_add(&ranges, x[i].lo, x[i].hi);
    rc = rc ? rc : owed_add(s->e, &s->id, x->node, x->version, &ranges);
    tb_ranges_free(&ranges);
    return rc;
}

/* Each of them owes us that it lets go of what was committed, or cut off. */
static int add_debts(struct saying *s, const struct tb_wire *w, const struct tb_wire_range *asked)
{
    const struct relay_answer *a = s->answer;
    int rc = 0;
    s->is_owed |= a->told.n > 0;
    for (uint32_t i = 0, n; i < a->told.n && !rc; i += n) {
        for (n = 1; i + n < a->told.n && a->extent[i + n].node == a->extent[i].node && a->extent[i + n].version == a->extent[i].version;
             n++)
            ;
        rc = add_debt(s, w, &a->extent[i], n, asked);
    }
    return rc;
}

static bool is_refused(const struct saying *s)
{
    return s->answer->told.n && s->answer->extent[0].node == tb_net_self(s->net);
}

/* What was refused, but what was written here since: other nodes' commits have newer bytes of it. */
static int add_older(struct saying *s, const struct tb_wire_extent *x, struct tb_ranges *older)
{
    const struct tb_wire_range range = {x->lo, x->hi};
    const struct tb_ranges refused = {.at = (struct tb_wire_range *)&range, .n = 1};
    struct tb_ranges newer = {0};
    int rc = s->file == TB_NONE ? 0 : tb_recent_newer(s->e, s->file, x->version, &newer);
    rc = rc ? rc : tb_ranges_without(&refused, &newer, older);
    tb_ranges_free(&newer);
    return rc;
}

/* `older` leaves the list. It stays in `left`, so that `note` does not count it as committed. */
static int leave_out(struct saying *s, struct tb_ranges *older)
{
    struct tb_ranges rest = {0};
    int rc = 0;
    tb_ranges_settle(older);
    for (uint32_t i = 0; i < older->n && !rc; i++)
        rc = tb_ranges_add(&s->left, older->at[i].lo, older->at[i].hi);
    tb_ranges_settle(&s->left);
    rc = rc ? rc : tb_ranges_without(&s->ranges, older, &rest);
    tb_ranges_free(&s->ranges);
    s->ranges = rest;
    return rc;
}

/*
 * 1: to be asked again, without what is older here than the commits of others that the keeper named; `known` is the latest of them.
 * -EAGAIN where that can't be told for all of it: this node lets go soon.
 */
static int heed(struct saying *s, uint64_t *known)
{
    const struct relay_answer *a = s->answer;
    struct tb_ranges older = {0};
    int rc = a->told.n == TB_WIRE_MOST || s->ranges.n > RANGES_MOST ? -EAGAIN : 0;
    for (uint32_t i = 0; i < a->told.n && !rc; i++) {
        rc = add_older(s, &a->extent[i], &older);
        *known = a->extent[i].version > *known ? a->extent[i].version : *known;
    }
    rc = rc ? rc : leave_out(s, &older);
    tb_ranges_free(&older);
    return rc ? rc : 1;
}

static void note_holder(struct saying *s, uint32_t node)
{
    uint32_t i = 0;
    while (i < s->n_held_by && s->held_by[i] != node)
        i++;
    if (i == s->n_held_by && i < HOLDERS_MOST)
        s->held_by[s->n_held_by++] = node;
}

/*
 * What the commit leaves to a later one. The keeper of a file has no second copy of its own bytes, and waits for the others with all of
 * them, so that a write is committed as a whole. They don't wait for it with theirs: where they have no copies for want of room they
 * leave out the held bytes alone, so no two nodes wait for each other.
 */
static int list_held(const struct saying *s, struct tb_ranges *held)
{
    const struct tb_wire_extent *x = s->answer->extent;
    bool all = relay_keeper(s->net, &s->id) == tb_net_self(s->net);
    int rc = 0;
    for (uint32_t i = 0; i < (all ? s->ranges.n : s->answer->told.n) && !rc; i++)
        rc = all ? tb_ranges_add(held, s->ranges.at[i].lo, s->ranges.at[i].hi) : tb_ranges_add(held, x[i].lo, x[i].hi);
    return rc;
}

/*
 * Other nodes have to flush bytes of the list first, as this node has no second copy of its own yet. -ESTALE: to be listed again and sent
 * first. 1: that can't be, so it is to be asked again without them. -EAGAIN where a program waits for all of it.
 */
static int leave_held(struct saying *s)
{
    if (s->how & TB_SAY_EARLY && !s->sends) {
        s->sends = true;
        return -ESTALE;
    }
    struct tb_ranges held = {0};
    for (uint32_t i = 0; i < s->answer->told.n; i++)
        note_holder(s, s->answer->extent[i].node);
    int rc = s->leaves && s->ranges.n <= RANGES_MOST ? list_held(s, &held) : -EAGAIN;
    rc = rc ? rc : leave_out(s, &held);
    tb_ranges_free(&held);
    return rc ? rc : 1;
}

/* One message that the keeper takes, or negative errno, or 1 as `heed`. */
static int send_some(struct saying *s, uint32_t at, uint32_t n, uint64_t *known)
{
    bool unsaid = s->file != TB_NONE && s->n_written != nodes_of(s)->n_said;
    struct tb_wire w = {.op = TB_WIRE_COMMIT, .lo = *known, .version = (s->how & TB_SAY_PASSED) || unsaid, .again = s->copies};
    w.version |= s->copies & TB_COPIES_VOID ? s->lo << 1 : 0;
    int rc = ask(s, &w, at, n);
    if (!rc && s->answer->told.held)
        return leave_held(s);
    if (!rc && is_refused(s))
        return heed(s, known);
    return rc ? rc : add_debts(s, &w, s->ranges.at + at);
}

/* What the keeper says of one message more. Where others came in between, it is as if they had come before. */
static void add_told(struct saying *s, bool first)
{
    const struct tb_told *told = &s->answer->told;
    bool between = !first && told->before != s->told.version;
    s->told.before = first ? told->before : between ? UINT64_MAX : s->told.before;
    s->told.version = told->version;
    s->told.end = told->end;
    s->told.elsewhere = told->elsewhere;
    s->told.voids |= told->voids;
}

/*
 * The version of the first message counts for all of the list: of a list that needs several nothing is refused, so what others have
 * to let go of for the later ones is not here for a version in between.
 */
static int send_list(struct saying *s, uint64_t *version)
{
    uint64_t known = 0;
    uint32_t done = 0;
    int rc;
    do {
        uint32_t n = s->ranges.n - done < RANGES_MOST ? s->ranges.n - done : RANGES_MOST;
        rc = send_some(s, done, n, &known);
        if (rc)
            continue;
        add_told(s, !done);
        *version = done ? *version : s->told.version;
        done += n;
    } while (rc == 1 || (!rc && done < s->ranges.n));
    return rc;
}

/* Only upwards: threads of several commits come here in any order. */
static void raise(_Atomic uint64_t *at, uint64_t to)
{
    uint64_t before = *at;
    while (before < to && !atomic_compare_exchange_weak(at, &before, to))
        ;
}

/* What the keeper took is committed. */
static void note(struct saying *s, uint64_t version)
{
    struct tb_file_nodes *f = nodes_of(s);
    if (!f)
        return;
    const struct tb_recent_taken taken = {.began = s->began, .version = version, .keep = s->told.voids, .left = s->left};
    tb_recent_committed(s->e, s->file, &taken);
    f->voids = s->left.n > 0;
    f->held = s->n_held_by > 0;
    f->n_said = s->n_written;
    raise(&f->committed, s->told.version);
    if (!s->told.voids)
        raise(&f->settled, version);
}

/*
 * What was sent last of some files, so that it is not sent again if nothing has changed. The number is in the file's record, too: one that
 * was made again has none. An entry is of files that have one turn.
 */
#define SENT (16 * TURNS)
static struct sent {
    struct tb_wire_file id;
    uint32_t number;
    uint64_t state;
} sent[SENT];

static struct sent *sent_of(const struct saying *s)
{
    return &sent[tb_mix64(s->id.inode ^ tb_mix64((uint64_t)s->id.birth_ns)) % SENT];
}

static bool is_sent(const struct saying *s)
{
    const struct sent *of = sent_of(s);
    return tb_wire_is(&of->id, &s->id) && of->number && of->number == nodes_of(s)->copied && of->state == s->state;
}

/* 0: nothing counts any more. */
static void note_sent(const struct saying *s, uint64_t state)
{
    static _Atomic uint32_t numbers;
    uint32_t number = state ? ++numbers : 0;
    *sent_of(s) = (struct sent){s->id, number, state};
    nodes_of(s)->copied = number;
}

/* As a digest. */
static uint64_t state_of(const struct saying *s)
{
    const struct tb_file_nodes *f = nodes_of(s);
    uint64_t state = tb_mix64(s->n_written + 1) ^ tb_mix64((uint64_t)f->n_let_go << 32 | s->e->region.files[s->file].n_cuts);
    for (uint32_t i = 0; i < s->ranges.n; i++)
        state = tb_mix64(state ^ s->ranges.at[i].lo) ^ s->ranges.at[i].hi;
    return state ? state : 1;
}

/* The bytes of an early commit are not promised, so it has copies only where other nodes' bytes would go for it. */
static bool wants_copies(const struct saying *s)
{
    return tb_has_copies(s->e) && s->file != TB_NONE && (s->sends || !(s->how & TB_SAY_EARLY));
}

/* Before the keeper hears of the commit: it has the copies then, or the commit is bare and its program puts the bytes on the PFS. */
static int copy_out(struct saying *s)
{
    s->copies = tb_has_copies(s->e) ? TB_COPIES_NONE : 0;
    s->state = 0;
    if (!wants_copies(s))
        return 0;
    if (s->how & TB_SAY_ON_PFS) {
        s->copies |= TB_COPIES_VOID;
        return 0;
    }
    s->state = state_of(s);
    if (is_sent(s))
        return 0;
    int rc = s->ranges.n > RANGES_MOST ? -ENOBUFS : copies_send(s->e, s->net, s->file, &s->id, &s->ranges, s->clock);
    s->copies = rc ? TB_COPIES_NONE : TB_COPIES_SENT;
    s->told.bare = rc == -ENOBUFS && s->ranges.n && !s->sends;
    s->told.said = s->clock;
    s->state = rc ? 0 : s->state;
    return rc == -ENOBUFS ? 0 : rc;
}

/* Only what the keeper took is noted. After any error the bytes are still dirty and not noted, so the next commit lists them again. */
static int commit(struct saying *s)
{
    uint64_t version = 0;
    int rc = -ESTALE;
    for (int i = 0; i < LISTS_MOST && rc == -ESTALE; i++) {
        rc = list(s);
        rc = rc ? rc : copy_out(s);
        rc = rc ? rc : send_list(s, &version);
    }
    if (!rc)
        note(s, version);
    if (nodes_of(s) && wants_copies(s))
        note_sent(s, rc ? 0 : s->state);
    return rc == -ESTALE ? -EAGAIN : rc;
}

/* The first of so many ranges: a writer needs those from where it writes on. */
static uint32_t first_of(const struct saying *s, uint32_t n)
{
    uint32_t first = 0;
    while (s->ranges.n - first > n && s->ranges.at[first].hi <= s->lo)
        first++;
    return first;
}

/* `told`, and after it as many ranges as fit into the answer. */
static int64_t answer_commit(const struct saying *s, char *bytes, size_t room)
{
    struct tb_told told = s->told;
    size_t most = (room - sizeof(told)) / sizeof(*s->ranges.at);
    told.owed = s->is_owed;
    told.n = !(s->how & TB_SAY_RANGES) ? 0 : s->ranges.n < most ? s->ranges.n : (uint32_t)most;
    memcpy(bytes, &told, sizeof(told));
    if (told.n)
        memcpy(bytes + sizeof(told), s->ranges.at + first_of(s, told.n), told.n * sizeof(*s->ranges.at));
    return (int64_t)(sizeof(told) + told.n * sizeof(*s->ranges.at));
}

/* After the turn, since it may wait for another node. -EIO: one of them is lost, so this will not pass. */
static int ask_holders(struct saying *s)
{
    int rc = 0;
    for (uint32_t i = 0; i < s->n_held_by && !rc; i++) {
        struct tb_wire w = {.op = TB_WIRE_FLUSH, .file = s->id};
        int64_t got = tb_net_call(s->net, s->held_by[i], &w, sizeof(w), NULL, 0);
        if (got >= 0 || got == -EAGAIN)
            continue;
        relay_say_lost(s->e, s->net, &w, s->held_by[i], got);
        rc = -EIO;
    }
    return rc;
}

/* The message and the answer share `bytes`: all that is needed of the message is copied by `begin`. */
int64_t turn_commit(tb_engine *e, struct tb_net *net, char *bytes, size_t room)
{
    struct saying s;
    int64_t rc = begin(&s, e, net, (const void *)bytes);
    rc = rc ? rc : commit(&s);
    rc = rc ? rc : answer_commit(&s, bytes, room);
    end(&s);
    int asked = ask_holders(&s);
    return asked ? asked : rc;
}

/* A client wrote the message into the region, so its lengths and its ranges are checked here. */
static int take_ranges(struct saying *s, const char *bytes, size_t n)
{
    const struct tb_wire *w = (const void *)bytes;
    const struct tb_wire_range *range = (const void *)(w + 1);
    int rc = n == sizeof(*w) + (size_t)w->n * sizeof(*range) ? 0 : -EPROTO;
    for (uint32_t i = 0; i < w->n && !rc; i++)
        rc = range[i].lo < range[i].hi ? tb_ranges_add(&s->ranges, range[i].lo, range[i].hi) : -EPROTO;
    tb_ranges_settle(&s->ranges);
    return rc;
}

/* The keeper drops its copies of these bytes. Flushes sync what they wrote, but writes past full tiers do not. */
static int sync_written(const struct saying *s)
{
    struct tb_target t = {.engine = s->e, .file = s->file, .fd = -1};
    if (!tb_has_copies(s->e) || s->file == TB_NONE || !s->e->region.files[s->file].unsynced)
        return 0;
    t.io = tb_file_io(s->e, s->file);
    return tb_target_sync(&t);
}

/* No commit is on its way, so what is not dirty now the keeper may forget, no matter of which commit it was. */
static int say_end(struct saying *s)
{
    struct tb_ranges dirty = {0}, rest = {0};
    int rc = s->file == TB_NONE ? 0 : tb_local_dirty(s->e, s->file, &dirty);
    rc = rc ? rc : tb_ranges_without(&s->ranges, &dirty, &rest);
    tb_ranges_free(&dirty);
    tb_ranges_free(&s->ranges);
    s->ranges = rest;
    rc = rc ? rc : sync_written(s);
    s->clock = tb_local_tick(s->e);
    for (uint32_t done = 0, n; done < s->ranges.n && !rc; done += n) {
        struct tb_wire w = {.op = TB_WIRE_END};
        n = s->ranges.n - done < RANGES_MOST ? s->ranges.n - done : RANGES_MOST;
        rc = ask(s, &w, done, n);
    }
    return rc;
}

/* The answer says nothing: what is told of the file comes with the next look or commit. */
int64_t turn_end(tb_engine *e, struct tb_net *net, char *bytes, size_t n)
{
    struct saying s;
    struct tb_told told = {0};
    int rc = begin(&s, e, net, (const void *)bytes);
    rc = rc ? rc : take_ranges(&s, bytes, n);
    rc = rc ? rc : say_end(&s);
    end(&s);
    memcpy(bytes, &told, sizeof(told));
    return rc ? rc : (int64_t)sizeof(told);
}

/*
 * This node has cut it. What was written there since is in no commit, and the keeper may have forgotten one: so it is committed
 * once more.
 */
static int say_cut(struct saying *s)
{
    struct tb_wire w = {.op = TB_WIRE_CUT, .lo = s->lo};
    s->clock = tb_local_tick(s->e);
    int rc = ask(s, &w, 0, 0);
    rc = rc ? rc : add_debts(s, &w, NULL);
    struct tb_told told = s->answer->told;
    uint64_t from, to;
    s->lo = s->hi = 0;
    s->how = TB_SAY_EARLY;
    s->leaves = true;
    rc = rc ? rc : list(s);
    if (!rc && tb_ranges_inside(&s->ranges, w.lo, UINT64_MAX, &from, &to))
        rc = commit(s);
    s->told = told;
    return rc;
}

/* -EAGAIN where the keeper has heard a later number of this node: the client comes again with a new one. */
int64_t turn_cut(tb_engine *e, struct tb_net *net, char *bytes)
{
    struct saying s;
    int64_t rc = begin(&s, e, net, (const void *)bytes);
    rc = rc ? rc : say_cut(&s);
    s.how = 0;
    rc = rc == -ESTALE ? -EAGAIN : rc ? rc : answer_commit(&s, bytes, sizeof(s.told));
    end(&s);
    return rc;
}
