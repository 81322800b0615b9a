/*
 * Copies by file and node (store.h), under one lock. A message's bytes are one block, and pieces refer to parts of it: so a piece is cut
 * without memory. A set is cut into a second list with room that was made before, so that no change fails half way.
 *
 * All of it is memory of this daemon. A daemon that is killed leaves nothing: the nodes that sent the bytes have them still.
 */
#include "copies/store.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "region/mix.h"

#define BUCKETS 4096u
#define RANGES_MOST 65536u
#define PATH_MOST 4096u
#define PIECE_COSTS 64u /* to know a piece */

struct block {
    uint32_t refs;
    size_t size; /* that counts for the limit */
    char bytes[];
};

struct piece {
    uint64_t lo, hi;
    struct block *block;
    const char *bytes;
};

/* In order, none overlaps another. */
struct set {
    struct piece *at, *spare; /* both with that room */
    uint32_t n, room;
};

/* Copies of one node's bytes of one file. */
struct copy {
    struct tb_wire_file file;
    uint32_t node;
    struct set now, staged;
    uint64_t clock;      /* of what is staged, or of the last commit: nothing older is taken */
    uint64_t taken;      /* the number of the commit that these are of */
    uint64_t round;      /* in which it was tried last */
    uint64_t saved_hi;   /* where what went to the PFS ended */
    bool saving, fenced; /* fenced: what went to the PFS may lie over newer bytes of that node, */
    bool saved;          /* and all of it is there */
    char *path;
    struct copy *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct copy *bucket[BUCKETS];
static uint64_t bytes_now, bytes_limit;

void copies_set_limit(uint64_t bytes)
{
    pthread_mutex_lock(&lock);
    bytes_limit = bytes;
    pthread_mutex_unlock(&lock);
}

uint64_t copies_bytes(void)
{
    pthread_mutex_lock(&lock);
    uint64_t n = bytes_now;
    pthread_mutex_unlock(&lock);
    return n;
}

void copies_enter(void)
{
    pthread_mutex_lock(&lock);
}

void copies_leave(void)
{
    pthread_mutex_unlock(&lock);
}

static struct copy **first_of(const struct tb_wire_file *id)
{
    return &bucket[tb_mix64(id->inode ^ tb_mix64((uint64_t)id->birth_ns)) % BUCKETS];
}

static struct copy *next_of(struct copy *c, const struct tb_wire_file *id)
{
    while (c && !tb_wire_is(&c->file, id))
        c = c->next;
    return c;
}

/* A file has few: one for each node that committed bytes of it which the PFS lacks. */
static struct copy *find(const struct tb_wire_file *id, uint32_t node)
{
    struct copy *c = next_of(*first_of(id), id);
    while (c && c->node != node)
        c = next_of(c->next, id);
    return c;
}

static struct copy *find_or_make(const struct tb_wire_file *id, uint32_t node)
{
    struct copy *c = find(id, node);
    if (c || !(c = calloc(1, sizeof(*c))))
        return c;
    struct copy **first = first_of(id);
    c->file = *id;
    c->node = node;
    c->next = *first;
    *first = c;
    return c;
}

/* A block counts for the limit until its last piece is gone: one small piece keeps the memory of its whole message. */
static void drop_block(struct block *b)
{
    if (--b->refs)
        return;
    bytes_now -= b->size;
    free(b);
}

static void empty(struct set *s)
{
    for (uint32_t i = 0; i < s->n; i++)
        drop_block(s->at[i].block);
    s->n = 0;
}

static void free_set(struct set *s)
{
    empty(s);
    free(s->at);
    free(s->spare);
    *s = (struct set){0};
}

/* Room for so many pieces, also after a cut: in both lists, since a cut swaps them. */
static int make_room(struct set *s, uint32_t n)
{
    if (n <= s->room)
        return 0;
    struct piece *at = realloc(s->at, n * sizeof(*at));
    s->at = at ? at : s->at;
    struct piece *spare = at ? realloc(s->spare, n * sizeof(*spare)) : NULL;
    s->spare = spare ? spare : s->spare;
    s->room = spare ? n : s->room;
    return spare ? 0 : -ENOMEM;
}

/* What a message of copies has, after its head: ranges, the path, the bytes. */
struct parcel {
    const struct tb_wire_range *range;
    const char *path, *bytes;
    size_t n_bytes;
};

/* It comes from another node: every length is checked, and the ranges are in order. */
static int open_parcel(const struct tb_wire *w, const void *more, size_t n, struct parcel *p)
{
    size_t head = (size_t)w->n * sizeof(*p->range) + w->n_gone;
    if (w->n == 0 || w->n > RANGES_MOST || w->n_gone == 0 || w->n_gone >= PATH_MOST || head > n)
        return -EPROTO;
    *p = (struct parcel){.range = more, .path = (const char *)more + (size_t)w->n * sizeof(*p->range), .bytes = (const char *)more + head};
    for (uint32_t i = 0; i < w->n; i++) {
        const struct tb_wire_range *r = &p->range[i];
        if (r->lo >= r->hi || r->hi - r->lo > n || (i && r->lo < p->range[i - 1].hi))
            return -EPROTO;
        p->n_bytes += r->hi - r->lo;
    }
    return p->n_bytes == n - head && p->path[0] == '/' && !memchr(p->path, 0, w->n_gone) ? 0 : -EPROTO;
}

/* Looked at and counted under one lock, so two messages never take the same room. NULL: there is none. */
static struct block *make_block(const struct parcel *p, uint32_t n_ranges)
{
    size_t size = p->n_bytes + (size_t)n_ranges * PIECE_COSTS;
    struct block *b = bytes_limit > bytes_now && size <= bytes_limit - bytes_now ? malloc(sizeof(*b) + p->n_bytes) : NULL;
    if (!b)
        return NULL;
    *b = (struct block){.refs = n_ranges, .size = size};
    memcpy(b->bytes, p->bytes, p->n_bytes);
    bytes_now += size;
    return b;
}

/* Of another list than what is staged, the first message begins again. */
static int begin_stage(struct copy *c, const struct tb_wire *w, const struct parcel *p)
{
    if (w->hi < c->clock)
        return -ESTALE;
    if (w->hi > c->clock)
        empty(&c->staged);
    c->clock = w->hi;
    if (c->staged.n && p->range[0].lo < c->staged.at[c->staged.n - 1].hi)
        return -EPROTO;
    char *path = strndup(p->path, w->n_gone);
    if (!path)
        return -ENOBUFS;
    free(c->path);
    c->path = path;
    return make_room(&c->staged, c->staged.n + w->n) ? -ENOBUFS : 0;
}

/* The older copies count until the commit comes. Where one message fails none of its list is kept; one that comes late changes nothing. */
static int stage(uint32_t from, const struct tb_wire *w, const void *more, size_t n)
{
    struct parcel p;
    int rc = open_parcel(w, more, n, &p);
    struct copy *c = rc ? NULL : find_or_make(&w->file, from);
    if (rc || !c)
        return rc ? rc : -ENOBUFS;
    rc = begin_stage(c, w, &p);
    if (rc == -ESTALE)
        return rc;
    struct block *b = rc ? NULL : make_block(&p, w->n);
    if (rc || !b) {
        empty(&c->staged);
        return rc ? rc : -ENOBUFS;
    }
    const char *bytes = b->bytes;
    for (uint32_t i = 0; i < w->n; i++) {
        c->staged.at[c->staged.n++] = (struct piece){p.range[i].lo, p.range[i].hi, b, bytes};
        bytes += p.range[i].hi - p.range[i].lo;
    }
    return 0;
}

/* Pieces are in order, so one pass finds all of the range. -ESTALE: not all of it is here; the reader asks the keeper again. */
static int64_t read_copy(const struct tb_wire *w, char *to, size_t room)
{
    const struct copy *c = find(&w->file, (uint32_t)w->version);
    uint64_t at = w->lo;
    if (w->lo >= w->hi || w->hi - w->lo > room)
        return -EPROTO;
    for (uint32_t i = 0; c && i < c->now.n && at < w->hi; i++) {
        const struct piece *p = &c->now.at[i];
        if (p->lo > at || p->hi <= at)
            continue;
        uint64_t end = p->hi < w->hi ? p->hi : w->hi;
        memcpy(to + (at - w->lo), p->bytes + (at - p->lo), end - at);
        at = end;
    }
    return at == w->hi ? (int64_t)(w->hi - w->lo) : -ESTALE;
}

/* -ENOBUFS: there are more parts than the answer has room for. */
static int64_t where_copy(const struct tb_wire *w, void *answer, size_t room)
{
    const struct copy *c = find(&w->file, (uint32_t)w->version);
    struct tb_told told = {.before = w->hi};
    struct tb_wire_extent *x = (void *)((char *)answer + sizeof(told));
    if (room < sizeof(told))
        return -EPROTO;
    size_t most = (room - sizeof(told)) / sizeof(*x);
    for (uint32_t i = 0; c && i < c->now.n; i++) {
        const struct piece *p = &c->now.at[i];
        if (p->hi <= w->lo || p->lo >= w->hi)
            continue;
        if (told.n == most)
            return -ENOBUFS;
        x[told.n++] = (struct tb_wire_extent){p->lo > w->lo ? p->lo : w->lo, p->hi < w->hi ? p->hi : w->hi, 0, c->node, 0};
    }
    memcpy(answer, &told, sizeof(told));
    return (int64_t)(sizeof(told) + told.n * sizeof(*x));
}

int64_t copies_answer(uint32_t from, const struct tb_wire *w, const void *more, size_t n, void *answer, size_t room)
{
    pthread_mutex_lock(&lock);
    int64_t rc = w->op == TB_WIRE_COPY       ? stage(from, w, more, n)
               : w->op == TB_WIRE_WHERE_COPY ? where_copy(w, answer, room)
                                             : read_copy(w, answer, room);
    pthread_mutex_unlock(&lock);
    return rc;
}

static bool is_of_file(const struct tb_wire *w)
{
    return w->op == TB_WIRE_COMMIT || w->op == TB_WIRE_CUT || w->op == TB_WIRE_REMOVE;
}

/* What went to the PFS may lie past the end that the file got there a moment before: then the cut is to be done once more. */
static int may_change(struct copy *c, uint32_t from, const struct tb_wire *w)
{
    if (c->saving && is_of_file(w))
        return -EAGAIN;
    if (c->fenced && c->node == from && w->op != TB_WIRE_REMOVE)
        return -EIO;
    if (w->op == TB_WIRE_CUT && c->saved_hi > w->lo) {
        c->saved_hi = w->lo;
        return -EIO;
    }
    return 0;
}

/* An extent may cut a piece in two. The room for that comes first: after the keeper's step nothing may fail any more. */
int copies_prepare(uint32_t from, const struct tb_wire *w, uint32_t most)
{
    int rc = 0;
    for (struct copy *c = next_of(*first_of(&w->file), &w->file); c && !rc; c = next_of(c->next, &w->file)) {
        rc = may_change(c, from, w);
        rc = rc ? rc : c->now.n ? make_room(&c->now, c->now.n + most) : 0;
        rc = rc ? rc : c->staged.n ? make_room(&c->staged, c->staged.n + most) : 0;
    }
    return rc;
}

/* The parts of a piece that the node has still. */
static void keep_piece(struct set *s, uint32_t *n, const struct piece *p, uint32_t node, const struct tb_wire_extent *x, uint32_t n_extents)
{
    for (uint32_t i = 0; i < n_extents; i++) {
        uint64_t lo = x[i].lo > p->lo ? x[i].lo : p->lo, hi = x[i].hi < p->hi ? x[i].hi : p->hi;
        if (x[i].node != node || lo >= hi)
            continue;
        s->spare[(*n)++] = (struct piece){lo, hi, p->block, p->bytes + (lo - p->lo)};
        p->block->refs++;
    }
}

/* The extents before the first one that reaches into the piece are of no use for later pieces either. */
static void keep(struct copy *c, const struct tb_wire_extent *x, uint32_t n_extents)
{
    struct set *s = &c->now;
    uint32_t n = 0, first = 0, last;
    for (uint32_t i = 0; i < s->n; i++) {
        while (first < n_extents && x[first].hi <= s->at[i].lo)
            first++;
        for (last = first; last < n_extents && x[last].lo < s->at[i].hi; last++)
            ;
        if (first < last) /* without extents there may be no list of them */
            keep_piece(s, &n, &s->at[i], c->node, x + first, last - first);
    }
    empty(s);
    struct piece *at = s->at;
    s->at = s->spare;
    s->spare = at;
    s->n = n;
}

/* What was sent for this commit is all that the PFS lacks of the node's: what it had here beside that is on the PFS. */
static void take_staged(struct copy *c, uint64_t clock)
{
    if (c->clock != clock)
        empty(&c->staged);
    c->clock = clock > c->clock ? clock : c->clock;
    free_set(&c->now);
    c->taken = clock;
    c->now = c->staged;
    c->staged = (struct set){0};
}

/* What a node has put under these on the PFS is not known, so that it did must be. */
static bool is_of_use(const struct copy *c)
{
    return c->now.n || c->staged.n || c->fenced || c->saving;
}

/* Those of no use go, or all of the file. */
static void remove_copies(const struct tb_wire_file *id, bool all)
{
    for (struct copy **link = first_of(id), *c; (c = *link);) {
        if (!tb_wire_is(&c->file, id) || (is_of_use(c) && !all)) {
            link = &c->next;
            continue;
        }
        *link = c->next;
        free_set(&c->now);
        free_set(&c->staged);
        free(c->path);
        free(c);
    }
}

/* In this order: first what the commit brings, then what its node says is void; then the extents cut what is left, of all nodes. */
void copies_follow(uint32_t from, const struct tb_wire *w, const struct tb_wire_extent *extent, uint32_t n, bool none)
{
    struct copy *c = w->op == TB_WIRE_COMMIT ? find(&w->file, from) : NULL;
    if (c && w->again & TB_COPIES_SENT)
        take_staged(c, w->hi);
    else if (c && c->clock <= w->hi) /* that list could not be sent as a whole */
        empty(&c->staged);
    if (c && w->again & TB_COPIES_VOID && c->taken <= w->version / 2)
        free_set(&c->now);
    for (c = next_of(*first_of(&w->file), &w->file); c; c = next_of(c->next, &w->file))
        keep(c, extent, n);
    remove_copies(&w->file, none);
}

static bool is_due(const struct copy *c, uint32_t node, bool lost)
{
    return c->node == node && c->now.n && !c->saved && (lost || c->fenced);
}

/* Looks at every bucket for each job. That is after a loss only, and each job waits for the PFS much longer. */
static struct copy *find_due(uint32_t node, bool lost, uint64_t round)
{
    for (uint32_t i = 0; i < BUCKETS; i++)
        for (struct copy *c = bucket[i]; c; c = c->next)
            if (is_due(c, node, lost) && !c->saving && c->round != round)
                return c;
    return NULL;
}

/* The blocks stay as long as the job: pieces may be cut off before it ends. */
static bool fill(struct copies_job *job, const struct copy *c)
{
    struct piece *holds = malloc(c->now.n * sizeof(*holds));
    *job = (struct copies_job){.file = c->file, .node = c->node, .n = c->now.n, .path = strdup(c->path), .holds = holds};
    job->part = malloc(job->n * sizeof(*job->part));
    for (uint32_t i = 0; holds && i < job->n; i++) {
        holds[i] = c->now.at[i];
        holds[i].block->refs++;
        if (job->part)
            job->part[i] = (struct copies_part){holds[i].lo, holds[i].hi, holds[i].bytes};
    }
    return job->path && job->part && holds;
}

/* Under the lock. */
static void release(struct copies_job *job)
{
    struct piece *holds = job->holds;
    for (uint32_t i = 0; holds && i < job->n; i++)
        drop_block(holds[i].block);
    free(job->holds);
    free(job->path);
    free(job->part);
    *job = (struct copies_job){.path = NULL};
}

/* A job without memory is passed over: its number of the round says that it was tried, so the loop ends. */
bool copies_begin_job(uint32_t node, bool lost, uint64_t round, struct copies_job *job)
{
    struct copy *c;
    pthread_mutex_lock(&lock);
    while ((c = find_due(node, lost, round))) {
        c->round = round;
        if ((c->saving = fill(job, c)))
            break;
        release(job);
    }
    pthread_mutex_unlock(&lock);
    return c;
}

void copies_end_job(struct copies_job *job, bool saved)
{
    pthread_mutex_lock(&lock);
    struct copy *c = find(&job->file, job->node);
    c->saving = false; /* a removal has waited for that, so it is there */
    c->fenced = true;  /* a part may be there also after an error */
    c->saved = saved;
    c->saved_hi = job->part[job->n - 1].hi;
    release(job);
    pthread_mutex_unlock(&lock);
}

uint64_t copies_of(uint32_t node, bool lost)
{
    uint64_t n = 0;
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < BUCKETS; i++)
        for (const struct copy *c = bucket[i]; c; c = c->next)
            for (uint32_t k = 0; is_due(c, node, lost) && k < c->now.n; k++)
                n += c->now.at[k].hi - c->now.at[k].lo;
    pthread_mutex_unlock(&lock);
    return n;
}

void copies_doubt(uint32_t node)
{
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < BUCKETS; i++)
        for (struct copy *c = bucket[i]; c; c = c->next)
            c->saved &= c->node != node;
    pthread_mutex_unlock(&lock);
}
