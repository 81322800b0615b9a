/*
 * Streams: patterns in the reads of each description, found by the reading process, and
 * the entries in the region by which the daemon reads ahead.
 */
#include "region/event.h"
#include "tiering/stream.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "buffer/heat.h"
#include "buffer/map.h"
#include "text/text.h"

#define PATTERN_STEPS 2u       /* three reads */
#define WAIT_NS 10000000       /* for a piece that is being fetched, */
#define WAITS 100              /* and how often, before the daemon counts as gone */
#define STALE_NS 2000000000ull /* an entry with a reader that has not moved for that long may be given to another */

/*
 * The entry is taken by its state; `serial` tells the old reader that it is no longer its
 * own. TB_NONE: all entries are in use.
 */
uint32_t tb_stream_open(tb_engine *e, uint32_t file, uint64_t offset, uint64_t length, uint64_t stride, uint64_t end)
{
    for (uint32_t i = 0; i < TB_STREAMS; i++) {
        struct tb_stream *s = &e->header->streams.entry[i];
        uint32_t state = s->state;
        if (state == TB_STREAM_OPENING || (state == TB_STREAM_OPEN && tb_now_coarse_ns() - s->moved_ns < STALE_NS) ||
            !atomic_compare_exchange_strong(&s->state, &state, TB_STREAM_OPENING))
            continue;
        s->file = file;
        s->inode = e->region.files[file].inode;
        s->birth_ns = e->region.files[file].birth_ns;
        s->length = length;
        s->stride = stride;
        s->end = end;
        s->position = offset;
        s->moved_ns = tb_now_coarse_ns();
        s->serial++;
        s->busy = (s->busy | 1) + 1; /* a daemon that was killed over its last use left it odd */
        s->state = TB_STREAM_OPEN;
        e->header->streams.event++;
        tb_event_wake(&e->header->streams.event);
        return i;
    }
    return TB_NONE;
}

void tb_stream_close(tb_engine *e, uint32_t stream)
{
    uint32_t open = TB_STREAM_OPEN;
    assert(stream < TB_STREAMS);
    atomic_compare_exchange_strong(&e->header->streams.entry[stream].state, &open, TB_STREAM_FREE);
}

/* The reader's stream, or NULL where it has none or the entry is another's by now. */
static struct tb_stream *stream_of(const tb_engine *e, const struct tb_reader *r)
{
    uint32_t i = atomic_load_explicit(&r->stream, memory_order_relaxed);
    struct tb_stream *s = i ? &e->header->streams.entry[i - 1] : NULL;
    return s && s->state == TB_STREAM_OPEN && s->serial == r->serial ? s : NULL;
}

static void leave_stream(tb_engine *e, struct tb_reader *r)
{
    if (stream_of(e, r))
        tb_stream_close(e, r->stream - 1);
    if (atomic_load_explicit(&r->stream, memory_order_relaxed))
        r->stream = 0;
}

/* The longest prefix wins, as with modes. */
enum tb_hint tb_hint_of(const tb_engine *e, const char *path)
{
    const struct tb_config *c = &e->header->config;
    int i = tb_path_longest(path, c->hints, c->n_hints, sizeof(c->hints[0]));
    return i < 0 ? TB_HINT_NORMAL : c->hints[i].hint;
}

/* A description starts without a pattern, also if its number was used before. */
void tb_reader_open(tb_engine *e, uint32_t open, const char *path)
{
    struct tb_reader *r = &e->readers[open];
    atomic_store_explicit(&r->start, 0, memory_order_relaxed);
    atomic_store_explicit(&r->stride, 0, memory_order_relaxed);
    atomic_store_explicit(&r->end, UINT64_MAX, memory_order_relaxed);
    atomic_store_explicit(&r->run, 0, memory_order_relaxed);
    atomic_store_explicit(&r->stream, 0, memory_order_relaxed);
    atomic_store_explicit(&r->hint, tb_hint_of(e, path), memory_order_relaxed);
    atomic_store_explicit(&r->hint_from, 0, memory_order_relaxed);
    atomic_store_explicit(&r->hint_to, UINT64_MAX, memory_order_relaxed);
}

void tb_reader_close(tb_engine *e, uint32_t open)
{
    leave_stream(e, &e->readers[open]);
}

/*
 * What is just being fetched arrives sooner than it could be read again. False: the daemon
 * has not moved for WAITS * WAIT_NS. It was killed over the piece, and `busy` stays odd
 * until the next use of the entry.
 */
static bool wait_for(struct tb_stream *s, uint64_t n, uint64_t offset)
{
    uint32_t serial = s->serial, busy;
    for (int i = 0; i < WAITS && (busy = s->busy) & 1 && s->serial == serial; i++) {
        if (offset >= s->busy_to || offset + n <= s->busy_from)
            return true;
        tb_event_wait(&s->busy, busy, WAIT_NS);
    }
    return !(s->busy & 1);
}

enum tb_hint tb_reader_hint(const tb_engine *e, uint32_t open, uint64_t offset)
{
    const struct tb_reader *r = &e->readers[open];
    enum tb_hint hint = (enum tb_hint)atomic_load_explicit(&r->hint, memory_order_relaxed);
    if (hint != TB_HINT_ONCE && hint != TB_HINT_KEEP)
        return hint;
    return offset >= atomic_load_explicit(&r->hint_from, memory_order_relaxed) &&
                   offset < atomic_load_explicit(&r->hint_to, memory_order_relaxed)
             ? hint
             : TB_HINT_NORMAL;
}

/* Called without locks: it may wait for the daemon. */
void tb_reader_before(struct tb_target *t, uint32_t open, uint64_t n, uint64_t offset)
{
    struct tb_reader *r = &t->engine->readers[open];
    struct tb_stream *s = stream_of(t->engine, r);
    t->hint = tb_reader_hint(t->engine, open, offset);
    t->continues = offset == atomic_load_explicit(&r->end, memory_order_relaxed);
    if (!s)
        return;
    if (s->busy & 1 && !wait_for(s, n, offset))
        leave_stream(t->engine, r); /* the daemon was killed over it */
    else if (s->position == offset) /* what the reader reads now, the daemon need not */
        atomic_store_explicit(&s->position, s->stride ? offset + s->stride : offset + n, memory_order_relaxed);
}

/* Used and not needed again. */
static void cool(tb_engine *e, uint32_t file, uint64_t n, uint64_t offset)
{
    for (uint64_t at = offset, end; at < offset + n; at = end) {
        uint64_t chunk = e->header->chunk.bytes, limit = (at / chunk + 1) * chunk;
        int stripe = tb_chunk_lock(e, file, at);
        if (stripe < 0)
            return;
        struct tb_buffer *b = tb_map_owner(e, file, at, limit < offset + n ? limit : offset + n, &end);
        if (b)
            tb_heat_set(e, b, 0, false);
        tb_chunk_unlock(e, stripe);
    }
}

static void move_stream(struct tb_stream *s, uint64_t to)
{
    atomic_store_explicit(&s->position, to, memory_order_relaxed);
    atomic_store_explicit(&s->moved_ns, tb_now_coarse_ns(), memory_order_relaxed);
}

static bool is_pattern(const struct tb_target *t, uint32_t run)
{
    return (run >= PATTERN_STEPS || t->hint == TB_HINT_SEQUENTIAL) && t->hint != TB_HINT_RANDOM;
}

/* A pattern becomes a stream only after a miss: what is buffered needs no reading ahead. */
void tb_reader_after(const struct tb_target *t, uint32_t open, uint64_t n, uint64_t offset)
{
    tb_engine *e = t->engine;
    struct tb_reader *r = &e->readers[open];
    uint32_t run = tb_reader_note(r, n, offset);
    uint64_t stride = r->stride, next = stride ? offset + stride : offset + n; /* another thread's read may change r->stride */
    if (t->hint == TB_HINT_ONCE)
        cool(e, t->file, n, offset);
    if (!e->header->config.organizer.prefetch || !e->header->config.organizer.enabled)
        return;
    struct tb_stream *s = stream_of(e, r);
    bool follows = is_pattern(t, run);
    if (s && follows && s->stride == stride)
        move_stream(s, next);
    else if (s)
        leave_stream(e, r);
    if (s || !follows || !t->missed)
        return;
    uint32_t opened = tb_stream_open(e, t->file, next, n, stride, UINT64_MAX);
    r->serial = opened == TB_NONE ? 0 : e->header->streams.entry[opened].serial;
    r->stream = opened == TB_NONE ? 0 : opened + 1;
}
