/*
 * Requests of clients, relayed (relay.h). What this node says of its own bytes has its turn (turn.h); after a commit that meets bytes of
 * other nodes those are made to let go (owed.h). A fetch asks the keeper where the bytes are, then the nodes that have them.
 */
#include "relay.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "copies/orphans.h"
#include "fetch/known.h"
#include "file/file.h"
#include "owed.h"
#include "region/mix.h"
#include "shared/commit.h"
#include "shared/local.h"
#include "turn.h"

#define LOOKED_MOST 16u /* extents that the answer to a look brings along */

#define NOTICE_NS 10000000 /* between two looks whether a node is lost that did not answer */
#define NOTICE_TRIES 100

/*
 * By a hash of the identity, which all nodes see alike: so every node finds the keeper without asking, and keepers are
 * spread over the nodes.
 */
unsigned relay_keeper(const struct tb_net *net, const struct tb_wire_file *file)
{
    return (unsigned)(tb_mix64(file->inode ^ tb_mix64((uint64_t)file->birth_ns)) % tb_net_count(net));
}

/* For messages only: the name may have changed since. */
static void path_of(tb_engine *e, const struct tb_wire_file *id, char *out, size_t size)
{
    uint32_t file = tb_local_find(e, id);
    snprintf(out, size, "inode %llu", (unsigned long long)id->inode);
    if (file != TB_NONE)
        tb_file_path(e, &e->region.files[file], out, size);
}

/* Tells which bytes could not be read (an empty range: not known which): in the log, once a second, and for `tierctl status`. */
static void say_lost(tb_engine *e, const struct tb_net *net, const struct tb_wire_file *id, uint64_t lo, uint64_t hi, unsigned node,
                     int64_t rc)
{
    static _Atomic time_t last;
    char path[TB_PATH_MAX], which[64], *out = e->header->asking.lost;
    path_of(e, id, path, sizeof(path));
    snprintf(which, sizeof(which), "bytes %llu to %llu", (unsigned long long)lo, (unsigned long long)hi);
    snprintf(out, sizeof(e->header->asking.lost), "%.4000s: %s: node %s: %s", path, lo < hi ? which : "who has its bytes",
             tb_net_name(net, node), strerror((int)-rc));
    time_t now = time(NULL);
    if (atomic_exchange(&last, now) != now)
        fprintf(stderr, "tierd: %s\n", out);
}

void relay_say_lost(tb_engine *e, const struct tb_net *net, const struct tb_wire *w, unsigned node, int64_t rc)
{
    say_lost(e, net, &w->file, w->lo, w->hi, node, rc);
}

/* What a client is told of a failure of the network or of another node. */
static int64_t as_told(tb_engine *e, const struct tb_net *net, const struct tb_wire_file *id, uint64_t lo, uint64_t hi, unsigned node,
                       int64_t rc)
{
    if (rc >= 0 || rc == -EAGAIN)
        return rc;
    say_lost(e, net, id, lo, hi, node, rc);
    return -EIO;
}

/* To oneself this costs no message. */
static int64_t ask_keeper(tb_engine *e, struct tb_net *net, const void *request, size_t n, void *answer, size_t room)
{
    const struct tb_wire *w = request;
    unsigned keeper = relay_keeper(net, &w->file);
    int64_t got = tb_net_call(net, keeper, request, n, answer, room);
    return as_told(e, net, &w->file, w->lo, w->hi, keeper, got);
}

/* One node's answer to one extent. */
static int64_t ask_holder(tb_engine *e, struct tb_net *net, enum tb_wire_op op, const struct tb_wire_file *id,
                          const struct tb_wire_extent *x, void *to, size_t room)
{
    struct tb_wire w = {.op = op, .file = *id, .lo = x->lo, .hi = x->hi, .version = x->version};
    int64_t got = tb_net_call(net, x->node, &w, sizeof(w), to, room);
    return got == -ESTALE ? -EAGAIN : as_told(e, net, id, x->lo, x->hi, x->node, got);
}

/* All of them have let go, and the keeper is told so with the same request: once more, since others may have come in between. */
static int64_t ask_without(tb_engine *e, struct tb_net *net, const char *request, size_t n, const struct relay_answer *conflicts,
                           char *answer, size_t room)
{
    size_t more = conflicts->told.n * sizeof(conflicts->extent[0]);
    char *again = malloc(n + more);
    if (!again)
        return -ENOMEM;
    memcpy(again, request, n);
    memcpy(again + n, conflicts->extent, more);
    ((struct tb_wire *)(void *)again)->n_gone = conflicts->told.n;
    int64_t got = ask_keeper(e, net, again, n + more, answer, room);
    free(again);
    return got;
}

/* Of another node nothing is believed that its length does not bear out. */
static int64_t told_of(const char *answer, int64_t got, struct tb_told *told)
{
    if (got < 0)
        return got;
    if (got < (int64_t)sizeof(*told))
        return -EPROTO;
    memcpy(told, answer, sizeof(*told));
    return got == (int64_t)(sizeof(*told) + told->n * sizeof(struct tb_wire_extent)) ? 0 : -EPROTO;
}

/*
 * A removal. Where others have to lose the file first, it takes two messages to the keeper and one to each of them; if the
 * second one meets newer extents, the client comes again.
 */
static int64_t remove_file(tb_engine *e, struct tb_net *net, char *bytes, size_t n)
{
    const struct tb_wire w = *(struct tb_wire *)(void *)bytes;
    struct relay_answer *a = malloc(sizeof(*a)), *b = malloc(sizeof(*b));
    int64_t rc = a && b ? ask_keeper(e, net, bytes, n, a, sizeof(*a)) : -ENOMEM;
    struct tb_told told = {0};
    rc = rc < 0 ? rc : told_of((char *)a, rc, &told);
    if (!rc && told.n) {
        for (uint32_t i = 0; i < told.n && rc >= 0; i++)
            rc = ask_holder(e, net, TB_WIRE_LOSE, &w.file, &a->extent[i], NULL, 0);
        rc = rc < 0 ? rc : ask_without(e, net, bytes, n, a, (char *)b, sizeof(*b));
        rc = rc < 0 ? rc : told_of((char *)b, rc, &told);
        rc = rc ? rc : told.n ? -EAGAIN : 0;
    }
    memcpy(bytes, &told, sizeof(told));
    free(a);
    free(b);
    return rc < 0 ? rc : (int64_t)sizeof(told);
}

int relay_ask_keeper(tb_engine *e, struct tb_net *net, const void *request, size_t n, struct relay_answer *answer)
{
    const struct tb_wire *w = request;
    unsigned keeper = relay_keeper(net, &w->file);
    struct tb_told told;
    int64_t got = tb_net_call(net, keeper, request, n, answer, sizeof(*answer));
    if (got != -ESTALE)
        got = as_told(e, net, &w->file, 0, 0, keeper, got);
    return (int)told_of((char *)answer, got, &told);
}

/*
 * After a commit or a cut: the keeper has it, and one message goes to each node that has older bytes, and one more to the keeper when
 * that has let go. What is not over when this returns is `owed`, for earlier commits of these bytes, too: the client awaits it.
 */
static int64_t change(tb_engine *e, struct tb_net *net, char *bytes, size_t n, size_t room)
{
    const struct tb_wire w = *(struct tb_wire *)(void *)bytes;
    int64_t size = n != sizeof(w) || room < sizeof(struct tb_told) ? -EPROTO
                 : w.op == TB_WIRE_CUT                             ? turn_cut(e, net, bytes)
                                                                   : turn_commit(e, net, bytes, room);
    if (size < 0)
        return size;
    struct tb_told *told = (void *)bytes;
    if (told->owed)
        owed_deliver(e, net, &w.file);
    int state = owed_state(&w.file, told->version);
    bool fails = state < 0 && told->owed;
    told->owed = (uint32_t)(state < 0 ? 0 : state);
    return fails ? state : size;
}

/* -EAGAIN until others owe no more than the client can bear. */
static int64_t await_owed(tb_engine *e, struct tb_net *net, char *bytes)
{
    const struct tb_wire w = *(struct tb_wire *)(void *)bytes;
    struct tb_told told = {0};
    owed_deliver(e, net, &w.file);
    int state = owed_state(&w.file, w.version);
    memcpy(bytes, &told, sizeof(told));
    return state < 0 ? state : (uint64_t)state > w.lo ? -EAGAIN : (int64_t)sizeof(told);
}

/*
 * The PFS has what this node committed and has in no buffer: it was flushed, and the keeper is about to learn it. Unless a write is about
 * to put it there: then these bytes are nowhere for a moment, and asking for them is -EAGAIN, as for other nodes.
 */
static bool is_on_pfs(tb_engine *e, const struct tb_net *net, const struct tb_wire_file *id, const struct tb_wire_extent *x)
{
    uint32_t file = x->node == tb_net_self(net) ? tb_local_find(e, id) : TB_NONE;
    return file != TB_NONE && !e->region.file_nodes[file].n_spilling;
}

/* The part of an extent that is fetched. */
static struct tb_wire_extent part_of(const struct tb_wire *w, const struct relay_answer *a, uint32_t i)
{
    struct tb_wire_extent x = a->extent[i];
    x.lo = x.lo > w->lo ? x.lo : w->lo;
    x.hi = x.hi < a->told.before ? x.hi : a->told.before;
    return x;
}

/* Parts of an extent that the keeper has copies of. Another node may say anything, so they are looked at. */
static int add_parts(struct relay_answer *to, const struct relay_answer *parts, const struct tb_wire_extent *of)
{
    uint64_t at = of->lo;
    for (uint32_t i = 0; i < parts->told.n; i++) {
        struct tb_wire_extent x = parts->extent[i];
        if (x.lo < at || x.lo >= x.hi || x.hi > of->hi || to->told.n == TB_WIRE_MOST_FETCHED)
            return -EIO;
        x.is_all = 1;
        at = x.hi;
        to->extent[to->told.n++] = x;
    }
    return 0;
}

static int ask_parts(struct tb_net *net, const struct tb_wire_file *id, const struct tb_wire_extent *x, struct relay_answer *parts)
{
    struct tb_wire w = {.op = TB_WIRE_WHERE_COPY, .file = *id, .lo = x->lo, .hi = x->hi, .version = x->node};
    struct tb_told told;
    int64_t got = tb_net_call(net, relay_keeper(net, id), &w, sizeof(w), parts, sizeof(*parts));
    return (int)told_of((char *)parts, got, &told);
}

/*
 * With `copies: 2` a commit returns when its bytes are in a copy or on the PFS. So of a node that is lost the list has what is in a copy,
 * marked by `is_all`, and the rest is read from the PFS.
 */
static int list_copies(struct tb_net *net, const struct tb_wire *w, struct relay_answer *a, unsigned failed)
{
    struct relay_answer *to = calloc(2, sizeof(*to)), *parts = to + 1;
    int rc = to ? 0 : -ENOMEM;
    for (uint32_t i = 0; i < a->told.n && !rc; i++) {
        struct tb_wire_extent x = part_of(w, a, i);
        bool lives = x.is_all || (x.node != failed && tb_net_is_alive(net, x.node));
        if (lives && to->told.n < TB_WIRE_MOST_FETCHED)
            to->extent[to->told.n++] = x;
        else
            rc = lives ? -EIO : ask_parts(net, &w->file, &x, parts);
        rc = rc || lives ? rc : add_parts(to, parts, &x);
    }
    for (uint32_t i = 0; !rc && i < to->told.n; i++)
        a->extent[i] = to->extent[i];
    a->told.n = rc ? a->told.n : to->told.n;
    free(to);
    return rc;
}

/* A copy that has gone since it was listed has been replaced: -EAGAIN. */
static int64_t ask_copy(struct tb_net *net, const struct tb_wire_file *id, const struct tb_wire_extent *x, void *to, size_t room)
{
    struct tb_wire w = {.op = TB_WIRE_READ_COPY, .file = *id, .lo = x->lo, .hi = x->hi, .version = x->node};
    int64_t got = tb_net_call(net, relay_keeper(net, id), &w, sizeof(w), to, room);
    return got == -ESTALE ? -EAGAIN : got < 0 ? -EIO : got;
}

/* The bytes of the listed extents, in their places. `failed`: the node that could not be asked. */
static int64_t gather_listed(tb_engine *e, struct tb_net *net, const struct tb_wire *w, struct relay_answer *a, char *bytes,
                             unsigned *failed)
{
    size_t head = sizeof(a->told) + a->told.n * sizeof(a->extent[0]);
    for (uint32_t i = 0; i < a->told.n; i++) {
        struct tb_wire_extent x = part_of(w, a, i);
        if (x.lo >= x.hi || x.hi > w->hi) /* the bytes would go past the place of the range */
            return -EPROTO;
        char *to = bytes + head + (x.lo - w->lo);
        int64_t got =
            x.is_all ? ask_copy(net, &w->file, &x, to, x.hi - x.lo) : ask_holder(e, net, TB_WIRE_READ, &w->file, &x, to, x.hi - x.lo);
        *failed = x.is_all || got != -EIO ? *failed : x.node;
        if (got != (int64_t)(x.hi - x.lo))
            return got < 0 ? got : -EIO;
    }
    memcpy(bytes, a, head);
    return (int64_t)(head + (a->told.n ? a->told.before - w->lo : 0));
}

/* The extents that the answer has and the PFS lacks, with their bytes in the places of the range. Once more where a node is found lost. */
static int64_t gather(tb_engine *e, struct tb_net *net, const struct tb_wire *w, struct relay_answer *a, char *bytes)
{
    unsigned failed = UINT32_MAX, before;
    uint32_t kept = 0;
    int64_t got;
    for (uint32_t i = 0; i < a->told.n; i++)
        if (!is_on_pfs(e, net, &w->file, &a->extent[i]))
            a->extent[kept++] = a->extent[i];
    a->told.n = kept;
    for (uint32_t i = 0; i < kept; i++)
        a->extent[i].is_all = 0;
    do {
        before = failed;
        got = tb_has_copies(e) ? list_copies(net, w, a, failed) : 0;
        got = got ? got : gather_listed(e, net, w, a, bytes, &failed);
    } while (got == -EIO && tb_has_copies(e) && failed != before);
    return got;
}

/*
 * A call that fails because its node is lost ends a moment before that is known of the node, or at the time when it would be: its
 * connections end one after the other, and signs of life are looked at once a second.
 */
static bool is_found_orphan(const tb_engine *e, const struct tb_net *net, const struct tb_wire_file *file, int64_t rc)
{
    if (!tb_has_copies(e) || (rc != -EHOSTDOWN && rc != -ETIMEDOUT))
        return false;
    for (int i = 0; i < NOTICE_TRIES && !orphans_has(e, net, file); i++)
        nanosleep(&(struct timespec){0, NOTICE_NS}, NULL);
    return orphans_has(e, net, file);
}

/*
 * Of the keeper, up to `hi`, which may be past what is wanted; or of all that live where that is lost, also if it is found lost by this
 * question.
 */
static int ask_where(tb_engine *e, struct tb_net *net, const struct tb_wire *w, uint64_t hi, struct relay_answer *a, size_t room)
{
    struct tb_told told;
    struct tb_wire asked = *w;
    unsigned keeper = relay_keeper(net, &w->file);
    asked.hi = hi;
    if (orphans_has(e, net, &w->file))
        return orphans_ask(e, net, w, a);
    int64_t got = tb_net_call(net, keeper, &asked, sizeof(asked), a, room);
    if (is_found_orphan(e, net, &w->file, got))
        return orphans_ask(e, net, w, a);
    return (int)told_of((char *)a, as_told(e, net, &w->file, w->lo, w->hi, keeper, got), &told);
}

/* Without what the keeper told of bytes past the range. The extents are in order. */
static void clip(struct relay_answer *a, uint64_t hi)
{
    while (a->told.n && a->extent[a->told.n - 1].lo >= hi)
        a->told.n--;
    a->told.before = a->told.before < hi ? a->told.before : hi;
}

/* The keeper is asked for more than the range, for the next fetches. With second copies nothing is kept: other nodes' ends matter then. */
static int ask_wide(tb_engine *e, struct tb_net *net, const struct tb_wire *w, struct relay_answer *a)
{
    size_t room = sizeof(a->told) + TB_WIRE_MOST_FETCHED * sizeof(a->extent[0]);
    uint64_t moment = known_moment(&w->file);
    if (tb_has_copies(e))
        return ask_where(e, net, w, w->hi, a, room);
    int rc = ask_where(e, net, w, UINT64_MAX, a, room);
    if (rc)
        return rc;
    known_keep(&w->file, moment, w->lo, a);
    clip(a, w->hi);
    return 0;
}

/* Of a node that has ended the keeper may have heard since that its bytes are on the PFS. */
static bool knows(tb_engine *e, const struct tb_net *net, const struct tb_wire *w, struct relay_answer *a)
{
    bool knows = !tb_has_copies(e) && known_find(w, a);
    for (uint32_t i = 0; knows && i < a->told.n; i++)
        knows = tb_net_is_alive(net, a->extent[i].node);
    return knows;
}

/* By what is known, if it is still so. */
static int64_t fetch_by_list(tb_engine *e, struct tb_net *net, const struct tb_wire *w, struct relay_answer *a, char *bytes)
{
    int64_t rc = -EAGAIN;
    if (knows(e, net, w, a)) {
        rc = gather(e, net, w, a, bytes);
        if (rc < 0)
            known_forget(&w->file);
    }
    if (rc != -EAGAIN)
        return rc;
    rc = ask_wide(e, net, w, a);
    rc = rc ? rc : gather(e, net, w, a, bytes);
    if (rc < 0)
        known_forget(&w->file);
    return rc;
}

/*
 * One message to each node that has some of the range, and one to the keeper where that is not known. A fetch asks for few extents at a
 * time. Where the answer is full, `before` says up to where it is whole, and the client asks for the rest.
 */
static int64_t fetch(tb_engine *e, struct tb_net *net, char *bytes, size_t room)
{
    struct tb_wire w = *(struct tb_wire *)(void *)bytes;
    struct relay_answer *a = malloc(sizeof(*a));
    size_t head = sizeof(struct tb_told) + TB_WIRE_MOST_FETCHED * sizeof(struct tb_wire_extent);
    int64_t rc = a ? 0 : -ENOMEM;
    w.op = TB_WIRE_WHERE;
    w.version = TB_WIRE_MOST_FETCHED;
    if (!rc && (w.lo >= w.hi || w.hi - w.lo + head > room))
        rc = -EINVAL;
    rc = rc ? rc : fetch_by_list(e, net, &w, a, bytes);
    free(a);
    return rc;
}

/* Ask for flushes, and be asked again until the keeper knows of none but the own bytes. */
static int64_t settle(tb_engine *e, struct tb_net *net, char *bytes)
{
    struct tb_wire w = *(struct tb_wire *)(void *)bytes;
    struct relay_answer *a = malloc(sizeof(*a));
    struct tb_told told = {0};
    w.op = TB_WIRE_WHERE;
    w.version = TB_WIRE_MOST;
    w.hi = UINT64_MAX;
    int64_t rc = a ? ask_keeper(e, net, &w, sizeof(w), a, sizeof(*a)) : -ENOMEM;
    rc = rc < 0 ? rc : told_of((char *)a, rc, &told);
    for (uint32_t i = 0; !rc && i < told.n; i++)
        if (a->extent[i].node != tb_net_self(net) && (i == 0 || a->extent[i].node != a->extent[i - 1].node))
            rc = ask_holder(e, net, TB_WIRE_FLUSH, &w.file, &a->extent[i], NULL, 0);
    rc = rc ? rc : told.elsewhere ? -EAGAIN : 0;
    told.before = told.version;
    told.n = 0;
    memcpy(bytes, &told, sizeof(told));
    free(a);
    return rc < 0 ? rc : (int64_t)sizeof(told);
}

/* The answer is the client's. It brings the first extents along, so that a read of a file in few pieces needs no other message. */
static int64_t look(tb_engine *e, struct tb_net *net, char *bytes, size_t n)
{
    struct relay_answer a;
    struct tb_wire w = *(struct tb_wire *)(void *)bytes;
    uint64_t moment = known_moment(&w.file);
    bool keeps = !tb_has_copies(e);
    if (keeps)
        w = (struct tb_wire){.op = TB_WIRE_WHERE, .file = w.file, .version = LOOKED_MOST};
    int rc = n == sizeof(w) ? ask_where(e, net, &w, keeps ? UINT64_MAX : w.hi, &a, sizeof(a)) : -EPROTO;
    if (rc || !keeps)
        known_forget(&w.file);
    else
        known_look(&w.file, moment, &a);
    if (rc)
        return rc;
    if (keeps)
        a.told.before = a.told.version; /* as of a look */
    a.told.n = keeps ? 0 : a.told.n;
    memcpy(bytes, &a.told, sizeof(a.told));
    return sizeof(a.told);
}

/* What changes the file for this node. A list that was asked for in between may be of before, or of after it. */
static int64_t relay_change(tb_engine *e, struct tb_net *net, char *bytes, size_t n, size_t room)
{
    const struct tb_wire w = *(const struct tb_wire *)(const void *)bytes;
    int64_t rc = -EINVAL;
    known_forget(&w.file);
    switch (w.op) {
    case TB_WIRE_SAY:
    case TB_WIRE_CUT: rc = change(e, net, bytes, n, room); break;
    case TB_WIRE_SAY_END: rc = turn_end(e, net, bytes, n); break;
    case TB_WIRE_REMOVE: rc = remove_file(e, net, bytes, n); break;
    case TB_WIRE_AWAIT: rc = await_owed(e, net, bytes); break;
    case TB_WIRE_SETTLE: rc = settle(e, net, bytes); break;
    }
    known_forget(&w.file);
    return rc;
}

/* A client wrote the message, so its operation is one of these or an error of the call. */
int64_t relay_request(tb_engine *e, struct tb_net *net, char *bytes, size_t n, size_t room)
{
    const struct tb_wire *w = (const void *)bytes;
    if (n < sizeof(*w))
        return -EPROTO;
    switch (w->op) {
    case TB_WIRE_LOOK: return look(e, net, bytes, n);
    case TB_WIRE_FETCH: return fetch(e, net, bytes, room);
    default: return relay_change(e, net, bytes, n, room);
    }
}
