/*
 * The search of Wing and Gong (J. Parallel Distrib. Comput. 17, 1993), just in time
 * and with a memory as Lowe has it (Concurrency Computat. Pract. Exper. 29, 2017).
 *
 * It walks along the begins and returns in their order and keeps every configuration
 * that is still possible: the file, and which of the calls under way have taken
 * effect.  When a call returns, configurations in which it has not are continued by
 * other calls under way, in every order, until it has; those that can't are dropped.
 * If none is left, no order explains what was seen.  Reads change nothing: they take
 * effect as soon as the file is as they saw it, which leaves every continuation
 * open, so only writes branch.  Equal configurations are one.
 *
 * It is exact: what it refuses no order explains, and the other way round.  The work
 * grows linearly with the length and, at worst, exponentially with how many writes
 * are under way at once; beyond BYTES_MAX it gives up and says so (UNDECIDED).
 * Unique values keep it far from that: a read of a cell tells which write of it was
 * the last.  Zones as in stress_register.c would need no search, but know neither
 * calls on several cells, nor a length, nor an append of unknown place.
 *
 * Limits: what was never read is hardly checked; calls that failed are not part of
 * a history; a begin and a return at the same time count as overlapping.
 */
#include "history_check.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define BYTES_MAX (64u << 20) /* of configurations */
#define SHOWN 60u

/* One possible state; cells after `size` are 0. */
struct config {
    uint64_t done[HISTORY_WORKERS]; /* parts of each worker's call that have taken effect */
    uint32_t size, offset;
    uint32_t cell[];
};

struct search {
    const struct history *h;
    const struct history_call *under_way[HISTORY_WORKERS];
    uint64_t all_parts[HISTORY_WORKERS];
    size_t stride;
    char *configs;
    uint32_t n, room, most;
    uint32_t *table, table_size; /* of configurations by what they are; number + 1 */
};

struct event {
    uint64_t at;
    uint32_t call;
    bool is_return;
};

static struct config *config_at(const struct search *s, uint32_t i)
{
    return (struct config *)(s->configs + i * s->stride);
}

static int by_time(const void *a, const void *b)
{
    const struct event *x = a, *y = b;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return x->is_return - y->is_return;
}

static uint32_t cells_from(uint32_t size, uint32_t at, uint32_t n)
{
    return at >= size ? 0 : n < size - at ? n : size - at;
}

static bool is_read(const struct history_call *o)
{
    return o->kind == HISTORY_READ || o->kind == HISTORY_SIZE || o->kind == HISTORY_TELL;
}

/* Where the part that begins at `lo` ends; parts are of so many cells. */
static uint32_t part_end(const struct history *h, uint32_t part, uint32_t lo, uint32_t hi)
{
    uint32_t end = part ? (lo / part + 1) * part : hi;
    if (h->limits.split > lo && h->limits.split < end)
        end = h->limits.split;
    return end < hi ? end : hi;
}

static bool holds(const struct history *h, const struct config *c, uint32_t at, const uint32_t *seen, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (seen[i] != c->cell[at + i] && !(h->limits.torn && seen[i] == HISTORY_TORN))
            return false;
    return true;
}

static bool ends_there(const struct history *h, uint32_t size, uint32_t at, const struct history_call *o)
{
    if (h->limits.end == HISTORY_END_MEANWHILE)
        return o->result == o->n || size <= at + o->result;
    return cells_from(size, at, o->n) == o->result;
}

/* Bit 0: the length; then one for each part of what was read. */
static uint64_t read_parts_seen(const struct history *h, const struct config *c, const struct history_call *o)
{
    uint64_t seen = ends_there(h, c->size, o->at, o), bit = 2;
    for (uint32_t lo = o->at, hi = o->at + o->result, end; lo < hi; lo = end, bit <<= 1) {
        end = part_end(h, h->limits.read_part, lo, hi);
        if (holds(h, c, lo, h->values + o->got + (lo - o->at), end - lo))
            seen |= bit;
    }
    bool at_once = h->limits.end == HISTORY_END_AT_ONCE && bit <= 4;
    return at_once && seen != bit - 1 ? 0 : seen;
}

static uint64_t seen_of(const struct history *h, const struct config *c, const struct history_call *o)
{
    if (o->kind == HISTORY_READ)
        return read_parts_seen(h, c, o);
    return (o->kind == HISTORY_SIZE ? c->size : c->offset) == o->result;
}

static uint64_t all_parts(const struct history *h, const struct history_call *o)
{
    uint64_t bits = 1;
    if (o->kind == HISTORY_READ)
        for (uint32_t lo = o->at, hi = o->at + o->result; lo < hi; lo = part_end(h, h->limits.read_part, lo, hi))
            bits = bits << 1 | 1;
    return bits;
}

static void take_reads(const struct search *s, struct config *c)
{
    for (uint32_t w = 0; w < HISTORY_WORKERS; w++) {
        const struct history_call *o = s->under_way[w];
        if (!o || !is_read(o) || c->done[w] == s->all_parts[w])
            continue;
        c->done[w] |= seen_of(s->h, c, o);
    }
}

static void fill(struct config *c, uint32_t lo, uint32_t hi, uint32_t value)
{
    for (uint32_t i = lo; i < hi; i++)
        c->cell[i] = value + (i - lo);
    if (hi > c->size)
        c->size = hi;
}

/* Of a call that changes the file and is in its parts: where it began, and how many cells have been done.  Done, it is 1. */
static uint64_t in_parts(uint32_t from, uint32_t cells)
{
    return ((uint64_t)from + 1) << 32 | (uint64_t)cells << 1;
}

static uint32_t began_at(uint64_t done)
{
    return (uint32_t)(done >> 32) - 1;
}

static uint32_t cells_done(uint64_t done)
{
    return (uint32_t)done >> 1;
}

static bool is_in_parts(uint64_t done)
{
    return done >> 32;
}

static uint64_t write_part(const struct history *h, struct config *c, const struct history_call *o, uint64_t done)
{
    uint32_t place = o->kind == HISTORY_WRITE ? o->at : o->kind == HISTORY_APPEND ? c->size : c->offset;
    uint32_t from = done ? began_at(done) : place, lo = from + cells_done(done), hi = from + o->n;
    uint32_t end = part_end(h, h->limits.write_part, lo, hi);
    if (o->kind == HISTORY_WRITE_ON && c->offset != from)
        return 0;
    fill(c, lo, end, o->value + (lo - from));
    if (end < hi)
        return in_parts(from, end - from);
    if (o->kind == HISTORY_WRITE_ON)
        c->offset = hi;
    return 1;
}

/* Before the first cells. 0: the end is elsewhere; 1: the cells are next; else the end alone was looked at, and the cells are apart. */
static uint64_t look_at_end(const struct history *h, const struct config *c, const struct history_call *o, uint32_t from, bool apart)
{
    if (!ends_there(h, c->size, from, o))
        return 0;
    return apart && o->result ? in_parts(from, 0) : 1;
}

/* Where the end is apart, it is looked at before the cells; MEANWHILE, after them.  No other call moves the offset until it is done. */
static uint64_t read_on_part(const struct history *h, struct config *c, const struct history_call *o, uint64_t done)
{
    uint32_t from = done ? began_at(done) : c->offset, lo = from + cells_done(done), hi = from + o->result;
    uint32_t end = part_end(h, h->limits.read_part, lo, hi);
    bool ends_last = h->limits.end == HISTORY_END_MEANWHILE, apart = h->limits.end == HISTORY_END_APART || end < hi;
    if (c->offset != from)
        return 0;
    uint64_t looked = done || ends_last ? 1 : look_at_end(h, c, o, from, apart);
    if (looked != 1)
        return looked;
    if (!holds(h, c, lo, h->values + o->got + (lo - from), end - lo))
        return 0;
    if (lo < hi && (end < hi || ends_last))
        return in_parts(from, end - from);
    if (ends_last && !ends_there(h, c->size, from, o))
        return 0;
    c->offset = hi;
    return 1;
}

static uint32_t reach(const struct config *c, const struct history_call *o)
{
    uint32_t from = o->kind == HISTORY_WRITE_ON ? c->offset : o->kind == HISTORY_APPEND ? c->size : o->at;
    return from + o->n;
}

/* The next part of worker w's call takes effect.  False: it can't have now. */
static bool take_effect(const struct search *s, struct config *c, uint32_t w)
{
    const struct history_call *o = s->under_way[w];
    switch (o->kind) {
    case HISTORY_WRITE:
    case HISTORY_APPEND:
    case HISTORY_WRITE_ON: c->done[w] = write_part(s->h, c, o, c->done[w]); return c->done[w];
    case HISTORY_READ_ON: c->done[w] = read_on_part(s->h, c, o, c->done[w]); return c->done[w];
    case HISTORY_CUT:
        if (o->at < c->size)
            memset(&c->cell[o->at], 0, (c->size - o->at) * sizeof(c->cell[0]));
        c->size = o->at;
        break;
    case HISTORY_SEEK: c->offset = o->at; break;
    default: return false;
    }
    c->done[w] = 1;
    return true;
}

static bool make_room(struct search *s)
{
    if (s->n < s->room)
        return true;
    uint32_t room = s->room ? 2 * s->room : 64;
    char *more = room * s->stride <= BYTES_MAX ? realloc(s->configs, room * s->stride) : NULL;
    if (!more)
        return false;
    s->configs = more;
    s->room = room;
    return true;
}

static uint32_t *slot_of(const struct search *s, uint32_t i)
{
    const struct config *c = config_at(s, i);
    uint32_t at = (uint32_t)XXH3_64bits(c, s->stride) & (s->table_size - 1);
    while (s->table[at] && memcmp(config_at(s, s->table[at] - 1), c, s->stride) != 0)
        at = (at + 1) & (s->table_size - 1);
    return &s->table[at];
}

static bool index_all(struct search *s, uint32_t size)
{
    uint32_t *table = calloc(size, sizeof(*table));
    if (!table)
        return false;
    free(s->table);
    s->table = table;
    s->table_size = size;
    for (uint32_t i = 0; i < s->n; i++)
        *slot_of(s, i) = i + 1;
    return true;
}

/* The configuration after the last is kept if it is new.  False: too many. */
static bool keep_new(struct search *s)
{
    uint32_t *slot = slot_of(s, s->n);
    if (*slot)
        return true;
    *slot = ++s->n;
    return s->n * 2 < s->table_size || index_all(s, 2 * s->table_size);
}

static bool is_write(const struct history_call *o)
{
    return o->kind == HISTORY_WRITE || o->kind == HISTORY_APPEND || o->kind == HISTORY_WRITE_ON;
}

/* Another write is in its parts, and this call would have to wait for it. */
static bool has_to_wait(const struct search *s, const struct config *c, uint32_t w)
{
    const struct history_call *o = s->under_way[w];
    if (!s->h->limits.turns || !(is_write(o) || o->kind == HISTORY_CUT))
        return false;
    for (uint32_t i = 0; i < HISTORY_WORKERS; i++)
        if (i != w && s->under_way[i] && is_write(s->under_way[i]) && is_in_parts(c->done[i]))
            return true;
    return false;
}

/* Configuration i, and what follows from it by one more part of one more call. */
static bool continue_one(struct search *s, uint32_t i)
{
    for (uint32_t w = 0; w < HISTORY_WORKERS; w++) {
        const struct history_call *o = s->under_way[w];
        if (!o || is_read(o) || config_at(s, i)->done[w] == s->all_parts[w] || has_to_wait(s, config_at(s, i), w))
            continue;
        if (!make_room(s) || reach(config_at(s, i), o) > s->h->n_cells)
            return false;
        struct config *c = config_at(s, s->n);
        memcpy(c, config_at(s, i), s->stride);
        if (!take_effect(s, c, w))
            continue;
        take_reads(s, c);
        if (!keep_new(s))
            return false;
    }
    return true;
}

static bool is_done_everywhere(const struct search *s, uint32_t w)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (config_at(s, i)->done[w] != s->all_parts[w])
            return false;
    return true;
}

/* Worker w's call has returned: it has taken effect by now. */
static bool on_return(struct search *s, uint32_t w)
{
    uint32_t kept = 0, size = 64;
    while (size < 4 * s->n)
        size *= 2;
    if (!is_done_everywhere(s, w)) {
        if (!index_all(s, size))
            return false;
        for (uint32_t i = 0; i < s->n; i++)
            if (config_at(s, i)->done[w] != s->all_parts[w] && !continue_one(s, i))
                return false;
    }
    s->most = s->n > s->most ? s->n : s->most;
    for (uint32_t i = 0; i < s->n; i++) {
        if (config_at(s, i)->done[w] != s->all_parts[w])
            continue;
        config_at(s, i)->done[w] = 0;
        memmove(config_at(s, kept++), config_at(s, i), s->stride);
    }
    s->n = kept;
    s->under_way[w] = NULL;
    return true;
}

static void on_begin(struct search *s, const struct history_call *o)
{
    assert(!s->under_way[o->worker]);
    s->under_way[o->worker] = o;
    s->all_parts[o->worker] = all_parts(s->h, o);
    for (uint32_t i = 0; is_read(o) && i < s->n; i++)
        take_reads(s, config_at(s, i));
}

static struct event *events_of(const struct history *h)
{
    struct event *e = malloc((2 * (size_t)h->n_calls + 1) * sizeof(*e));
    for (uint32_t i = 0; e && i < h->n_calls; i++) {
        e[2 * i] = (struct event){h->calls[i].begin, i, false};
        e[2 * i + 1] = (struct event){h->calls[i].end, i, true};
    }
    if (e)
        qsort(e, 2 * (size_t)h->n_calls, sizeof(*e), by_time);
    return e;
}

static struct history_finding walk(struct search *s, const struct event *events)
{
    const struct history *h = s->h;
    for (uint32_t i = 0; i < 2 * h->n_calls; i++) {
        const struct event *e = &events[i];
        if (!e->is_return)
            on_begin(s, &h->calls[e->call]);
        else if (!on_return(s, h->calls[e->call].worker))
            return (struct history_finding){HISTORY_UNDECIDED, e->call, s->most};
        if (!s->n)
            return (struct history_finding){HISTORY_IMPOSSIBLE, e->call, s->most};
    }
    return (struct history_finding){HISTORY_POSSIBLE, 0, s->most};
}

struct history_finding history_check(const struct history *h)
{
    struct history_finding found = {HISTORY_UNDECIDED, 0, 0};
    struct search s = {.h = h};
    s.stride = (sizeof(struct config) + h->n_cells * sizeof(uint32_t) + 7) / 8 * 8;
    struct event *events = events_of(h);
    if (events && make_room(&s)) {
        memset(s.configs, 0, s.stride);
        config_at(&s, 0)->size = h->size;
        s.n = 1;
        found = walk(&s, events);
    }
    free(events);
    free(s.configs);
    free(s.table);
    return found;
}

static const char *const kinds[HISTORY_KINDS] = {"write", "append", "read", "cut", "size", "seek", "tell", "write on", "read on"};

static void show_call(FILE *out, const struct history *h, const struct history_call *o, uint64_t from)
{
    fprintf(out, "  %8lld %8lld  worker %u: %s", (long long)(o->begin - from), (long long)(o->end - from), o->worker, kinds[o->kind]);
    if (o->kind == HISTORY_SIZE || o->kind == HISTORY_TELL)
        fprintf(out, " is %u", o->result);
    else if (o->kind != HISTORY_APPEND && o->kind != HISTORY_WRITE_ON && o->kind != HISTORY_READ_ON)
        fprintf(out, " at %u", o->at);
    if (o->kind == HISTORY_WRITE || o->kind == HISTORY_APPEND || o->kind == HISTORY_WRITE_ON)
        fprintf(out, ", %u cells of %x", o->n, o->value);
    if (o->kind == HISTORY_READ || o->kind == HISTORY_READ_ON) {
        fprintf(out, ", %u of %u:", o->result, o->n);
        for (uint32_t i = 0; i < o->result; i++)
            fprintf(out, " %x", h->values[o->got + i]);
    }
    fputc('\n', out);
}

static int by_begin(const void *a, const void *b)
{
    const struct history_call *x = *(const struct history_call *const *)a, *y = *(const struct history_call *const *)b;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

void history_show(FILE *out, const struct history *h, uint32_t call)
{
    const struct history_call *last = &h->calls[call], **before = malloc((h->n_calls + 1) * sizeof(*before));
    uint32_t n = 0;
    for (uint32_t i = 0; before && i < h->n_calls; i++)
        if (h->calls[i].begin <= last->end)
            before[n++] = &h->calls[i];
    if (n)
        qsort(before, n, sizeof(*before), by_begin);
    fprintf(out, "no order explains this call: begin, end in ns from its begin\n");
    show_call(out, h, last, last->begin);
    fprintf(out, "those that began before it returned:\n");
    for (uint32_t i = n > SHOWN ? n - SHOWN : 0; i < n; i++)
        show_call(out, h, before[i], last->begin);
    free(before);
}
