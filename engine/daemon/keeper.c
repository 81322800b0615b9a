/* The table of a keeper (keeper.h): files by identity, each with its extents in order of offset. One lock for all. */
#include "keeper.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "copies/store.h"
#include "kept/extents.h"
#include "region/mix.h"

#define BUCKETS 16384u

/*
 * Bytes that a node may still have dirty, though another node's commit (`by`) of that version has them: until it has let go of them it
 * commits none of these ranges.
 */
struct void_part {
    uint32_t node, by;
    uint64_t version;
    struct tb_ranges ranges;
    struct void_part *next;
};

/* What the node said before that moment of its own clock may be true no more: an older message comes late where its call has failed. */
struct moment {
    uint32_t node;
    uint64_t clock;
};

struct kept_file {
    struct tb_wire_file id;
    uint64_t version;
    struct tb_wire_extent *extent; /* n of them, in order, none overlaps another */
    uint32_t n, n_moments;
    struct void_part *voids;
    struct moment *moment; /* one a node, at most */
    struct kept_file *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct kept_file *bucket[BUCKETS];
static uint64_t n_changes, n_extents, n_files, n_moments;

/* The link that leads to the file, or the one at which it would be put in. */
static struct kept_file **link_to(const struct tb_wire_file *id)
{
    struct kept_file **link = &bucket[tb_mix64(id->inode ^ tb_mix64((uint64_t)id->birth_ns)) % BUCKETS];
    while (*link && !tb_wire_is(&(*link)->id, id))
        link = &(*link)->next;
    return link;
}

static struct kept_file *find(const struct tb_wire_file *id)
{
    return *link_to(id);
}

static struct kept_file *find_or_make(const struct tb_wire_file *id)
{
    struct kept_file **link = link_to(id);
    if (!*link && (*link = calloc(1, sizeof(**link)))) {
        (*link)->id = *id;
        n_files++;
    }
    return *link;
}

static bool has_void(const struct void_part *list, uint32_t node)
{
    while (list && list->node != node)
        list = list->next;
    return list != NULL;
}

/*
 * What the asker may know of the file before the call. Under the lock. `elsewhere` is for a reader: it may take the PFS's
 * bytes for the latest where it is 0.
 */
static struct tb_told tell(const struct kept_file *f, uint32_t asker)
{
    struct tb_told told = {0};
    if (!f)
        return told;
    told.before = told.version = f->version;
    for (uint32_t i = 0; i < f->n && !told.elsewhere; i++)
        told.elsewhere = f->extent[i].node != asker;
    told.end = f->n ? f->extent[f->n - 1].hi : 0;
    told.voids = has_void(f->voids, asker);
    return told;
}

/* The file has the new list, or after an error the old one: never half of either. */
static int replace(struct kept_file *f, struct extent_list *l)
{
    if (l->error) {
        free(l->at);
        return l->error;
    }
    n_extents += (uint64_t)l->n - f->n;
    free(f->extent);
    f->extent = l->at;
    f->n = l->n;
    return 0;
}

#define ANY_NODE UINT32_MAX

/* The extents that lose bytes: those of `node`, up to this version. */
struct losers {
    uint32_t node;
    uint64_t version;
};

/* Without the ranges, in one pass. Extents of a later commit stay: the node wrote those bytes again after what is taken out. */
static void keep(const struct kept_file *f, const struct tb_ranges *ranges, struct losers of, struct extent_list *kept)
{
    for (uint32_t i = 0; i < f->n; i++) {
        const struct tb_wire_extent *x = &f->extent[i];
        if ((of.node == ANY_NODE || x->node == of.node) && x->version <= of.version)
            extents_append_without(kept, x, ranges);
        else
            extents_append(kept, *x);
    }
}

static int take_out(struct kept_file *f, const struct tb_ranges *ranges, struct losers of)
{
    struct extent_list kept = {0};
    keep(f, ranges, of, &kept);
    return replace(f, &kept);
}

/*
 * What others have there. Returns how many found room; there may be more. Limited by the room of the answer. The asker then makes these
 * lose it, or flush it, and asks again.
 */
static uint32_t find_others(const struct kept_file *f, const struct tb_ranges *ranges, uint32_t asker, struct tb_wire_extent *out,
                            uint32_t most)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->n; i++) {
        const struct tb_wire_extent *x = &f->extent[i];
        uint64_t from, to;
        for (uint64_t at = x->lo; x->node != asker && n < most && at < x->hi && tb_ranges_inside(ranges, at, x->hi, &from, &to); at = to)
            out[n++] = (struct tb_wire_extent){from, to, x->version, x->node, 0};
    }
    return n;
}

/* Those have lost what they had, as far as it was of no later commit. */
static int take_out_gone(struct kept_file *f, const struct tb_wire_extent *gone, uint32_t n)
{
    int rc = 0;
    for (uint32_t i = 0; i < n && !rc; i++) {
        struct tb_wire_range range = {gone[i].lo, gone[i].hi};
        rc = take_out(f, &(struct tb_ranges){.at = &range, .n = 1}, (struct losers){gone[i].node, gone[i].version});
    }
    return rc;
}

/* What any node had there is of an older commit. It goes in the step in which the new ranges come: if these find no memory, it stays. */
static int put_in(struct kept_file *f, const struct tb_ranges *ranges, uint32_t node)
{
    struct extent_list all = {0};
    keep(f, ranges, (struct losers){ANY_NODE, UINT64_MAX}, &all);
    for (uint32_t i = 0; i < ranges->n; i++)
        extents_append(&all, (struct tb_wire_extent){ranges->at[i].lo, ranges->at[i].hi, f->version, node, 0});
    extents_sort(&all);
    return replace(f, &all);
}

/* One request, taken apart. */
struct question {
    uint32_t asker;
    const struct tb_wire *w;
    struct tb_ranges ranges;
    const struct tb_wire_extent *gone;
    struct tb_told *told;
    struct tb_wire_extent *extent; /* of the answer, `most` at most */
    uint32_t most;
};

/* The first part of the ranges that is in `b`, too. */
static bool meet(const struct tb_ranges *a, const struct tb_ranges *b, uint64_t *from, uint64_t *to)
{
    for (uint32_t i = 0; i < a->n; i++)
        if (tb_ranges_inside(b, a->at[i].lo, a->at[i].hi, from, to))
            return true;
    return false;
}

static void free_void(struct void_part *v)
{
    tb_ranges_free(&v->ranges);
    free(v);
}

/* False: no memory. */
static bool add_void(struct void_part **list, uint32_t node, uint32_t by, const struct tb_ranges *ranges)
{
    struct void_part *v = calloc(1, sizeof(*v));
    if (!v)
        return false;
    *v = (struct void_part){.node = node, .by = by, .version = n_changes + 1, .next = *list};
    *list = v;
    int rc = 0;
    for (uint32_t i = 0; i < ranges->n && !rc; i++)
        rc = tb_ranges_add(&v->ranges, ranges->at[i].lo, ranges->at[i].hi);
    return !rc;
}

/* What the asker has to let go of, of its own list: how many parts found room. */
static uint32_t find_own_voids(const struct kept_file *f, const struct question *q)
{
    uint32_t n = 0;
    for (const struct void_part *v = f->voids; v; v = v->next)
        for (uint32_t i = 0; v->node == q->asker && v->version > q->w->lo && i < q->ranges.n; i++) {
            uint64_t at = q->ranges.at[i].lo, from, to;
            for (; n < q->most && at < q->ranges.at[i].hi && tb_ranges_inside(&v->ranges, at, q->ranges.at[i].hi, &from, &to); at = to)
                q->extent[n++] = (struct tb_wire_extent){from, to, v->version, q->asker, 0};
        }
    return n;
}

/* What the asker does not have yet. Of the rest others may have newer bytes by now that they have not committed. */
static int find_fresh(const struct kept_file *f, const struct question *q, struct tb_ranges *out)
{
    struct tb_ranges own = {0};
    int rc = 0;
    for (uint32_t i = 0; i < f->n && !rc; i++)
        if (f->extent[i].node == q->asker && q->w->op == TB_WIRE_COMMIT)
            rc = tb_ranges_add(&own, f->extent[i].lo, f->extent[i].hi);
    tb_ranges_settle(&own);
    rc = rc ? rc : tb_ranges_without(&q->ranges, &own, out);
    tb_ranges_free(&own);
    return rc;
}

/* The nodes that have bytes in the fresh ranges, or may still have some: each once. False: no memory. */
static bool list_displaced(const struct kept_file *f, const struct question *q, const struct tb_ranges *fresh, struct void_part **out)
{
    bool all = true;
    uint64_t from, to;
    for (uint32_t i = 0; i < f->n && all; i++) {
        const struct tb_wire_extent *x = &f->extent[i];
        if (x->node != q->asker && !has_void(*out, x->node) && tb_ranges_inside(fresh, x->lo, x->hi, &from, &to))
            all = add_void(out, x->node, q->asker, fresh);
    }
    for (const struct void_part *v = f->voids; v && all; v = v->next)
        if (v->node != q->asker && !has_void(*out, v->node) && meet(&v->ranges, fresh, &from, &to))
            all = add_void(out, v->node, q->asker, fresh);
    return all;
}

static void free_voids(struct void_part *list)
{
    for (struct void_part *v = list, *next; v; v = next) {
        next = v->next;
        free_void(v);
    }
}

static struct moment *moment_of(const struct kept_file *f, uint32_t node)
{
    for (uint32_t i = 0; i < f->n_moments; i++)
        if (f->moment[i].node == node)
            return &f->moment[i];
    return NULL;
}

static int note_moment(struct kept_file *f, uint32_t node, uint64_t clock)
{
    struct moment *m = moment_of(f, node);
    if (!m) {
        m = realloc(f->moment, (f->n_moments + 1) * sizeof(*m));
        if (!m)
            return -ENOMEM;
        f->moment = m;
        m = &f->moment[f->n_moments++];
        n_moments++;
        *m = (struct moment){.node = node};
    }
    m->clock = clock > m->clock ? clock : m->clock;
    return 0;
}

/* 0, and from now on this is the latest that the asker said; or -ESTALE. */
static int note_said(struct kept_file *f, const struct question *q)
{
    const struct moment *m = moment_of(f, q->asker);
    return m && q->w->hi < m->clock ? -ESTALE : note_moment(f, q->asker, q->w->hi);
}

static uint32_t count_ranges(const struct void_part *list)
{
    uint32_t n = 0;
    for (; list; list = list->next)
        n += list->ranges.n;
    return n;
}

static uint32_t count_voids(const struct void_part *list)
{
    uint32_t n = 0;
    for (; list; list = list->next)
        n++;
    return n;
}

/* With `is_all` its ranges are not named. */
static void tell_void(struct question *q, const struct void_part *v, bool is_all)
{
    static const struct tb_wire_range all = {0, UINT64_MAX};
    for (uint32_t i = 0; i < (is_all ? 1 : v->ranges.n); i++) {
        const struct tb_wire_range *range = is_all ? &all : &v->ranges.at[i];
        q->extent[q->told->n++] = (struct tb_wire_extent){range->lo, range->hi, v->version, v->node, is_all};
    }
}

/* Of earlier commits of the asker: the answer to one may have been lost. */
static void tell_undone(const struct kept_file *f, struct question *q)
{
    for (const struct void_part *v = f->voids; v; v = v->next)
        if (v->by == q->asker && v->ranges.n <= q->most - q->told->n)
            tell_void(q, v, false);
}

/* They are told by the asker's daemon, which then says that they are gone. Of many pieces: all that the asker named. */
static void tell_displaced(struct kept_file *f, struct question *q, struct void_part *displaced)
{
    bool each = count_ranges(displaced) <= q->most;
    for (struct void_part *v = displaced; v; v = v->next)
        tell_void(q, v, !each);
    tell_undone(f, q);
    for (struct void_part *v = displaced, *next; v; v = next) {
        next = v->next;
        v->next = f->voids;
        f->voids = v;
    }
}

/*
 * From this moment on the asker has the ranges, and readers are sent to it; others let go of theirs after that. So some node
 * has them at each moment. A version is given out only with a change, so a node that sees the same version knows that nothing happened.
 */
static int record(struct kept_file *f, struct question *q, struct void_part **displaced)
{
    uint64_t before = q->told->version;
    struct tb_ranges fresh = {0};
    bool listed = find_fresh(f, q, &fresh) == 0 && list_displaced(f, q, &fresh, displaced);
    tb_ranges_free(&fresh);
    if (!listed)
        return -ENOMEM;
    if (count_voids(*displaced) > q->most)
        return -ENOBUFS;
    if (q->ranges.n || q->w->version)
        f->version = ++n_changes;
    int rc = q->w->op == TB_WIRE_COMMIT ? put_in(f, &q->ranges, q->asker) : take_out(f, &q->ranges, (struct losers){ANY_NODE, UINT64_MAX});
    *q->told = tell(f, q->asker);
    q->told->before = before;
    return rc;
}

/*
 * With `copies: 2`: of a commit without copies. Its node may be lost before it has flushed these bytes, and then the older ones of the
 * others, which were committed, must not have gone yet.
 */
static bool is_held(const struct kept_file *f, struct question *q)
{
    if (!(q->w->again & TB_COPIES_NONE))
        return false;
    q->told->n = find_others(f, &q->ranges, q->asker, q->extent, q->most);
    q->told->held = q->told->n > 0;
    return q->told->held;
}

/* A commit or a cut. */
static int change(struct question *q)
{
    bool commits = q->w->op == TB_WIRE_COMMIT;
    struct kept_file *f = commits ? find_or_make(&q->w->file) : find(&q->w->file);
    struct void_part *displaced = NULL;
    if (!f)
        return commits ? -ENOMEM : 0;
    int rc = note_said(f, q);
    *q->told = tell(f, q->asker);
    q->told->n = commits && !rc ? find_own_voids(f, q) : 0;
    if (rc || q->told->n || (commits && is_held(f, q)))
        return rc;
    rc = record(f, q, &displaced);
    if (rc)
        free_voids(displaced);
    else
        tell_displaced(f, q, displaced);
    return rc;
}

static int gone(struct question *q)
{
    struct kept_file *f = find(&q->w->file);
    int rc = 0;
    for (uint32_t i = 0; f && i < q->w->n_gone && !rc; i++) {
        struct void_part **link = &f->voids, *v;
        while ((v = *link) && (v->node != q->gone[i].node || v->version != q->gone[i].version))
            link = &v->next;
        rc = note_moment(f, q->gone[i].node, q->w->hi);
        if (v && !rc) {
            *link = v->next;
            free_void(v);
        }
    }
    *q->told = tell(f, q->asker);
    return rc;
}

/* A removed file is forgotten with its number: another file of the same inode number has another time of birth. */
static int forget(struct question *q)
{
    struct kept_file **link = link_to(&q->w->file), *f = *link;
    if (!f)
        return 0;
    int rc = take_out_gone(f, q->gone, q->w->n_gone);
    *q->told = tell(f, q->asker);
    q->told->n = rc ? 0 : find_others(f, &q->ranges, q->asker, q->extent, q->most);
    if (rc || q->told->n)
        return rc;
    n_extents -= f->n;
    n_moments -= f->n_moments;
    n_files--;
    *link = f->next;
    free_voids(f->voids);
    free(f->moment);
    free(f->extent);
    free(f);
    *q->told = (struct tb_told){0};
    return 0;
}

/* `before` of the answer: up to where it is whole. */
static int where(struct question *q)
{
    const struct kept_file *f = find(&q->w->file);
    uint64_t until = q->w->hi;
    *q->told = tell(f, q->asker);
    for (uint32_t i = 0; f && i < f->n; i++) {
        const struct tb_wire_extent *x = &f->extent[i];
        if (x->hi <= q->w->lo || x->lo >= q->w->hi)
            continue;
        if (q->told->n == q->most) {
            until = x->lo;
            break;
        }
        q->extent[q->told->n++] = *x;
    }
    q->told->before = until;
    return 0;
}

/* Not a change: bytes that move from a tier to the PFS are the same bytes, and a node that has clean ones keeps them. */
static int end(struct question *q)
{
    struct kept_file *f = find(&q->w->file);
    int rc = f ? note_said(f, q) : 0;
    rc = f && !rc ? take_out(f, &q->ranges, (struct losers){q->asker, UINT64_MAX}) : rc;
    *q->told = tell(f, q->asker);
    return rc;
}

static int act(struct question *q)
{
    switch (q->w->op) {
    case TB_WIRE_LOOK: *q->told = tell(find(&q->w->file), q->asker); return 0;
    case TB_WIRE_WHERE: return where(q);
    case TB_WIRE_END: return end(q);
    case TB_WIRE_GONE: return gone(q);
    case TB_WIRE_REMOVE: return forget(q);
    default: return change(q);
    }
}

/* It was refused, and nothing has changed. */
static bool is_refused(const struct question *q)
{
    return q->w->op == TB_WIRE_COMMIT && (q->told->held || (q->told->n && q->extent[0].node == q->asker));
}

/* Copies follow in the same step. */
static int act_and_follow(struct question *q)
{
    const struct kept_file *f = find(&q->w->file);
    bool follows = q->w->op == TB_WIRE_COMMIT || q->w->op == TB_WIRE_END || q->w->op == TB_WIRE_CUT || q->w->op == TB_WIRE_REMOVE;
    copies_enter();
    int rc = follows ? copies_prepare(q->asker, q->w, (f ? f->n : 0) + 2 * q->ranges.n + 1) : 0;
    rc = rc ? rc : act(q);
    f = find(&q->w->file);
    if (!rc && follows && !is_refused(q))
        copies_follow(q->asker, q->w, f ? f->extent : NULL, f ? f->n : 0, !f);
    copies_leave();
    return rc;
}

/*
 * A cut and a removal are of one range, to the end. Lengths and ranges come from another node, so each is checked before
 * it is used; after this the ranges are sorted and none overlaps another.
 */
static int take_apart(struct question *q, const void *more, size_t n)
{
    const struct tb_wire *w = q->w;
    const struct tb_wire_range *range = more;
    size_t ranges = (size_t)w->n * sizeof(*range), gone = (size_t)w->n_gone * sizeof(*q->gone);
    if (w->n > 1u << 20 || w->n_gone > 1u << 20 || n != ranges + gone)
        return -EPROTO;
    q->gone = (const void *)((const char *)more + ranges);
    int rc = 0;
    for (uint32_t i = 0; i < w->n && !rc; i++)
        rc = range[i].lo < range[i].hi ? tb_ranges_add(&q->ranges, range[i].lo, range[i].hi) : -EPROTO;
    if (!rc && (w->op == TB_WIRE_CUT || w->op == TB_WIRE_REMOVE) && w->lo < UINT64_MAX)
        rc = tb_ranges_add(&q->ranges, w->lo, UINT64_MAX);
    tb_ranges_settle(&q->ranges);
    return rc;
}

/*
 * The request is taken apart outside the lock, and the work under it is in memory alone: no thread holds it while it
 * waits.
 */
int64_t keeper_answer(uint32_t from, const struct tb_wire *w, const void *more, size_t n, void *answer, size_t room)
{
    struct tb_told told = {0};
    if (room < sizeof(told) + sizeof(struct tb_wire_extent))
        return -ENOBUFS;
    size_t most = w->op == TB_WIRE_WHERE && w->version < TB_WIRE_MOST ? w->version : TB_WIRE_MOST;
    if (most > (room - sizeof(told)) / sizeof(struct tb_wire_extent))
        most = (room - sizeof(told)) / sizeof(struct tb_wire_extent);
    struct question q = {.asker = from, .w = w, .told = &told, .extent = (void *)((char *)answer + sizeof(told)), .most = (uint32_t)most};
    int rc = take_apart(&q, more, n);
    pthread_mutex_lock(&lock);
    rc = rc ? rc : act_and_follow(&q);
    pthread_mutex_unlock(&lock);
    tb_ranges_free(&q.ranges);
    memcpy(answer, &told, sizeof(told));
    return rc ? rc : (int64_t)(sizeof(told) + told.n * sizeof(struct tb_wire_extent));
}

uint64_t keeper_count(void)
{
    pthread_mutex_lock(&lock);
    uint64_t n = n_extents;
    pthread_mutex_unlock(&lock);
    return n;
}

uint64_t keeper_bytes(void)
{
    pthread_mutex_lock(&lock);
    uint64_t n = n_files * sizeof(struct kept_file) + n_extents * sizeof(struct tb_wire_extent) + n_moments * sizeof(struct moment);
    pthread_mutex_unlock(&lock);
    return n;
}
