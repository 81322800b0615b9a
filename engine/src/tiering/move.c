/*
 * Moving bytes between tiers, with splitting and gathering of buffers: copy without the
 * lock, then publish under it if no version changed (tiering/move.h).
 * If killed while copying, repair frees the new buffers; while publishing, the next holder
 * of the chunk's lock undoes or finishes the move (buffer/swap.c).
 */
#include "tiering/move.h"

#include <errno.h>
#include <string.h>

#include "base/kill_point.h"
#include "base/scratch.h"
#include "base/valid.h"
#include "buffer/heat.h"
#include "buffer/interval.h"
#include "buffer/map.h"
#include "buffer/medium.h"
#include "buffer/of_file.h"
#include "buffer/slab.h"
#include "buffer/swap.h"
#include "flush/backing.h"

#define BLOCK TB_BLOCK_MIN

struct source {
    uint32_t buffer, version;
    uint32_t base; /* where it is in the frame */
};

struct target {
    uint32_t buffer, from, to; /* bytes of the frame that it takes */
};

/* A block of the frame: one valid and one dirty interval are as much as buffers can say. */
struct block {
    struct tb_interval bytes;
    uint32_t source; /* the file they belong to */
};

/* The frame is the cell of the largest buffer concerned. */
struct move {
    tb_engine *e;
    uint32_t file, tier, limit;
    struct tb_buffer *asked;
    uint64_t start; /* of the frame in the file */
    uint32_t size, class_index;
    bool is_promised;                     /* an fsync waits: a buffer that is half empty is better than a write to the PFS */
    bool gather;                          /* the target is larger than what was asked for: what else is in the frame comes along */
    uint16_t flags, heat;                 /* the hottest source's */
    uint32_t n_sources, n_targets, valid; /* `valid`: bytes */
    char *bytes;                          /* of the frame; the arrays below have an entry for each block */
    struct block *blocks;
    struct source *sources, *again; /* collected, and collected once more */
    struct target *targets;
    uint32_t *leaving, *arriving; /* numbers of sources and targets */
    unsigned char *stays;         /* a buffer that stays covers the block */
};

/* A buffer with a journal record stays: the record names its slab and place. */
static bool may_leave(const struct tb_buffer *b)
{
    return b->state == TB_BUFFER_LIVE && !(b->flags & TB_BUFFER_JOURNALED) && b->prev == TB_NONE;
}

static uint32_t base_of(const struct move *m, const struct tb_buffer *b)
{
    return (uint32_t)(tb_buffer_start(m->e, b) - m->start);
}

/*
 * The size of the tier's buffers that serves best: the same, else the largest smaller one,
 * else the smallest larger one. The counts are read without the slabs' locks, as a hint:
 * if the room is gone when the buffers are taken, the move fails with -ENOSPC.
 */
static uint32_t class_for(const struct move *m, uint32_t like)
{
    const struct tb_layout *l = &m->e->header->layout;
    const struct tb_slab *slab = m->e->region.slabs;
    uint32_t below = TB_NONE, above = TB_NONE;
    for (uint32_t s = l->tier_first_slab[m->tier]; tb_is_slab_of(l, s, m->tier); s++) {
        uint32_t c = l->slab[s].class_index;
        if (!tb_slab_n_free(m->e, s) && !(m->limit && slab[s].n_clean))
            continue;
        if (c <= like && (below == TB_NONE || c > below))
            below = c;
        if (c > like && (above == TB_NONE || c < above))
            above = c;
    }
    return below != TB_NONE ? below : above;
}

/* Everything is in one piece of the thread's scratch memory, so a move allocates nothing. */
static int make_frame(struct move *m)
{
    uint32_t like = tb_slab_layout(m->e, m->asked)->class_index, c = class_for(m, like);
    if (c == TB_NONE)
        return -ENOSPC;
    m->gather = c > like;
    m->class_index = m->gather ? c : like;
    m->size = (uint32_t)m->e->header->layout.class_size[m->class_index];
    m->start = tb_buffer_start(m->e, m->asked) / m->size * m->size;
    assert(tb_buffer_start(m->e, m->asked) - m->start < m->size && m->size % BLOCK == 0);
    size_t n = m->size / BLOCK;
    size_t each = sizeof(*m->blocks) + 2 * sizeof(*m->sources) + sizeof(*m->targets) + 2 * sizeof(uint32_t) + sizeof(*m->stays);
    m->bytes = tb_scratch_bytes(m->size + n * each);
    if (!m->bytes)
        return -ENOMEM;
    m->blocks = (struct block *)(m->bytes + m->size);
    m->sources = (struct source *)(m->blocks + n);
    m->again = m->sources + n;
    m->targets = (struct target *)(m->again + n);
    m->leaving = (uint32_t *)(m->targets + n);
    m->arriving = m->leaving + n;
    m->stays = (unsigned char *)(m->arriving + n);
    memset(m->blocks, 0, n * sizeof(*m->blocks));
    return 0;
}

/*
 * Of the same tier and not much hotter, or of the very size that is gathered into. For a promise
 * all of them: the frame has one owner then, and one record.
 */
static bool comes_along(const struct move *m, const struct tb_buffer *b, uint32_t class_index)
{
    uint32_t warm = tb_heat_of(m->e, m->asked);
    return b == m->asked || m->is_promised || class_index == m->class_index ||
           (tb_slab_layout(m->e, b)->tier == tb_slab_layout(m->e, m->asked)->tier &&
            tb_heat_of(m->e, b) <= (warm > TB_HEAT_READ ? warm : TB_HEAT_READ));
}

/* A smaller buffer inside one that stays must stay too: it owns its bytes, and without it the larger one would show old ones. */
static int collect_class(struct move *m, uint32_t class_index, struct source *out, uint32_t *n)
{
    uint32_t size = (uint32_t)m->e->header->layout.class_size[class_index];
    for (uint32_t at = 0; at < m->size; at += size) {
        struct tb_buffer *b = tb_map_find(m->e, m->file, class_index, (m->start + at) / size);
        if (!b)
            continue;
        if (!m->stays[at / BLOCK] && may_leave(b) && comes_along(m, b, class_index))
            out[(*n)++] = (struct source){tb_buffer_number(m->e, b), tb_buffer_see(b), at};
        else if (class_index == m->class_index)
            return -EBUSY; /* two of one size cannot have one cell */
        else
            memset(m->stays + at / BLOCK, 1, size / BLOCK);
    }
    return 0;
}

/* What surrounds the frame must hold nothing in it, since the gathered buffer will own all of it. */
static bool is_surrounded(const struct move *m)
{
    const struct tb_layout *l = &m->e->header->layout;
    uint32_t a, z;
    for (uint32_t c = m->class_index + 1; c < l->n_classes; c++) {
        const struct tb_buffer *b = tb_map_find(m->e, m->file, c, m->start / l->class_size[c]);
        uint32_t lo = b ? (uint32_t)(m->start - tb_buffer_start(m->e, b)) : 0;
        if (b && tb_interval_valid(m->e, b, lo, lo + m->size, &a, &z))
            return true;
    }
    return false;
}

/* The buffers that move, largest first. */
static int collect(struct move *m, struct source *out, uint32_t *n)
{
    *n = 0;
    if (!m->gather) {
        out[(*n)++] = (struct source){tb_buffer_number(m->e, m->asked), tb_buffer_see(m->asked), 0};
        return may_leave(m->asked) ? 0 : -EBUSY;
    }
    if (is_surrounded(m))
        return -EBUSY;
    memset(m->stays, 0, m->size / BLOCK);
    int rc = 0;
    for (uint32_t c = m->class_index + 1; c-- > 0 && !rc;)
        if (m->e->region.files[m->file].classes >> c & 1)
            rc = collect_class(m, c, out, n);
    return rc || m->stays[base_of(m, m->asked) / BLOCK] ? -EBUSY : 0;
}

/* Locked by the chunk. What is described here is compared by version before the publication. */
static void describe(struct move *m, uint32_t source)
{
    const struct tb_buffer *b = &m->e->region.buffers[m->sources[source].buffer];
    uint32_t a, z;
    assert(may_leave(b) && m->sources[source].base + tb_buffer_size(m->e, b) <= m->size);
    m->leaving[source] = m->sources[source].buffer;
    for (uint32_t lo = b->valid_lo / BLOCK * BLOCK; lo < b->valid_hi; lo += BLOCK) {
        struct block *block = &m->blocks[(m->sources[source].base + lo) / BLOCK];
        if (!tb_interval_valid(m->e, b, lo, lo + BLOCK, &a, &z))
            continue;
        block->source = source;
        block->bytes.valid_lo = (uint16_t)(a - lo);
        block->bytes.valid_hi = (uint16_t)(z - lo);
        m->valid += z - a;
        if (tb_interval_dirty(m->e, b, lo, lo + BLOCK, &a, &z)) {
            block->bytes.dirty_lo = (uint16_t)(a - lo);
            block->bytes.dirty_hi = (uint16_t)(z - lo);
        }
    }
    if (source == 0 || tb_heat_decayed(m->e, b->heat) > tb_heat_decayed(m->e, m->heat))
        m->heat = b->heat;
    m->flags |= b->flags & TB_BUFFER_KEEP;
}

static bool inside(const struct move *m, uint32_t i, bool dirty, uint32_t source, uint32_t from, uint32_t limit, uint32_t *a, uint32_t *z)
{
    const struct block *block = &m->blocks[i];
    uint32_t lo = i * BLOCK + (dirty ? block->bytes.dirty_lo : block->bytes.valid_lo);
    uint32_t hi = i * BLOCK + (dirty ? block->bytes.dirty_hi : block->bytes.valid_hi);
    *a = lo > from ? lo : from;
    *z = hi < limit ? hi : limit;
    return *a < *z && (source == TB_NONE || block->source == source);
}

/* The next run of valid (dirty) bytes in [*lo, limit) of the frame, of one source or of any (TB_NONE). */
static bool next_run(const struct move *m, bool dirty, uint32_t source, uint32_t limit, uint32_t *lo, uint32_t *hi)
{
    uint32_t i = *lo / BLOCK, end = (limit + BLOCK - 1) / BLOCK, a, z;
    while (i < end && !inside(m, i, dirty, source, *lo, limit, &a, &z))
        i++;
    if (i >= end)
        return false;
    *lo = a;
    *hi = z;
    while (*hi == (i + 1) * BLOCK && ++i < end && inside(m, i, dirty, source, *hi, limit, &a, &z) && a == *hi)
        *hi = z;
    return true;
}

/* Bytes of sources in memory tiers are copied under the lock, those of other tiers outside it. */
static int read_sources(struct move *m, bool memory)
{
    int rc = 0;
    for (uint32_t i = 0; i < m->n_sources && !rc; i++) {
        const struct source *s = &m->sources[i];
        const struct tb_buffer *b = &m->e->region.buffers[s->buffer];
        if (tb_tier_is_memory(m->e, tb_slab_layout(m->e, b)->tier) != memory)
            continue;
        uint32_t end = s->base + (uint32_t)tb_buffer_size(m->e, b);
        for (uint32_t lo = s->base, hi; !rc && next_run(m, false, i, end, &lo, &hi); lo = hi)
            rc = tb_medium_read(m->e, b, lo - s->base, hi - lo, m->bytes + lo);
    }
    return rc;
}

/* A buffer of the tier, of the frame's size where bytes are gathered, else the largest up to it. */
static struct tb_buffer *take(const struct move *m)
{
    struct tb_buffer *b = tb_tier_take_class(m->e, m->tier, m->class_index, m->limit);
    for (uint32_t c = m->class_index; !b && !m->gather && c-- > 0;)
        b = tb_tier_take_class(m->e, m->tier, c, m->limit);
    return b;
}

static int take_targets(struct move *m)
{
    uint32_t hi, covered = 0;
    for (uint32_t at = 0; next_run(m, false, TB_NONE, m->size, &at, &hi);) {
        for (; at < hi; at = covered < hi ? covered : hi) {
            if (at < covered)
                continue;
            struct tb_buffer *b = take(m);
            if (!b)
                return -ENOSPC;
            uint32_t size = (uint32_t)tb_buffer_size(m->e, b);
            assert(size <= m->size && m->n_targets < m->size / BLOCK && tb_slab_layout(m->e, b)->tier == m->tier);
            b->cell = (m->start + at) / size;
            covered = at / size * size + size;
            m->arriving[m->n_targets] = tb_buffer_number(m->e, b);
            m->targets[m->n_targets++] = (struct target){tb_buffer_number(m->e, b), at, covered};
        }
    }
    return 0;
}

/* Of a move that failed: the buffers were never published. */
static void give_back(struct move *m)
{
    for (uint32_t i = 0; i < m->n_targets; i++)
        tb_buffer_discard(m->e, &m->e->region.buffers[m->targets[i].buffer]);
}

/* A flush lists the dirty buffers once: they must stay where they are. */
static bool is_being_flushed(const struct move *m)
{
    uint32_t lo = 0, hi;
    return m->e->region.files[m->file].flusher && next_run(m, true, TB_NONE, m->size, &lo, &hi);
}

/* What is to be done while the chunk is locked. */
static int prepare(struct move *m, const struct tb_buffer_ref *ref)
{
    int rc = !tb_buffer_is_at(m->asked, m->file, ref->cell)  ? -EAGAIN
           : tb_slab_layout(m->e, m->asked)->tier == m->tier ? -EBUSY
                                                             : make_frame(m);
    if (!rc)
        rc = collect(m, m->sources, &m->n_sources);
    for (uint32_t i = 0; i < m->n_sources && !rc; i++)
        describe(m, i);
    if (!rc && is_being_flushed(m))
        rc = -EBUSY;
    if (!rc && m->gather && !m->is_promised && m->valid < m->size / 2)
        rc = -ENOSPC;
    if (!rc)
        rc = take_targets(m);
    return rc ? rc : read_sources(m, true);
}

/* The targets hold as many valid and as many dirty bytes as the sources did. */
static __attribute__((unused)) bool is_whole(const struct move *m)
{
    uint64_t valid = 0, dirty = 0;
    for (uint32_t i = 0; i < m->n_targets; i++) {
        const struct tb_buffer *b = &m->e->region.buffers[m->targets[i].buffer];
        dirty += tb_interval_dirty_bytes(m->e, b);
        for (uint32_t lo = b->valid_lo, a, z; tb_interval_valid(m->e, b, lo, b->valid_hi, &a, &z); lo = z)
            valid += z - a;
    }
    for (uint32_t lo = 0, hi; next_run(m, true, TB_NONE, m->size, &lo, &hi); lo = hi)
        dirty -= hi - lo;
    return valid == m->valid && dirty == 0;
}

/* Valid first, then dirty: the targets are not published, so a kill leaves nothing. */
static int fill_target(struct move *m, const struct target *t)
{
    struct tb_buffer *b = &m->e->region.buffers[t->buffer];
    uint32_t base = base_of(m, b); /* may be a smaller target's: only bytes from `from` on are this one's */
    int rc = 0;
    for (uint32_t lo = t->from, hi; !rc && next_run(m, false, TB_NONE, t->to, &lo, &hi); lo = hi) {
        rc = tb_medium_write(m->e, b, lo - base, hi - lo, m->bytes + lo);
        if (!rc)
            rc = tb_interval_add(m->e, b, lo - base, hi - base, false);
    }
    for (uint32_t lo = t->from, hi; !rc && next_run(m, true, TB_NONE, t->to, &lo, &hi); lo = hi)
        rc = tb_interval_add(m->e, b, lo - base, hi - base, true);
    b->heat = m->heat;
    b->flags = m->flags;
    return rc;
}

/*
 * The buffers are collected again and must be the same, with the same versions. A version
 * is never reset, so a buffer that was freed, and is LIVE at the same cell again, differs
 * too.
 */
static bool is_unchanged(struct move *m, const struct tb_buffer_ref *ref)
{
    uint32_t n;
    return tb_buffer_is_at(m->asked, m->file, ref->cell) && collect(m, m->again, &n) == 0 && n == m->n_sources &&
           memcmp(m->again, m->sources, n * sizeof(*m->sources)) == 0;
}

/* By the tier each byte came from: what is gathered may have been in several, also in the target's. */
static void count_moved(const struct move *m)
{
    for (uint32_t i = 0; i < m->size / BLOCK; i++) {
        const struct block *block = &m->blocks[i];
        const struct tb_buffer *from = &m->e->region.buffers[m->sources[block->source].buffer];
        tb_counters(m->e, from)->moved_to[m->tier] += (uint64_t)(block->bytes.valid_hi - block->bytes.valid_lo);
    }
}

/* Locked by the chunk. A write since the copy changed a version: then the move is given up. */
static int switch_over(struct move *m, const struct tb_buffer_ref *ref)
{
    int stripe = tb_chunk_lock(m->e, m->file, ref->start);
    if (stripe < 0)
        return stripe;
    bool unchanged = is_unchanged(m, ref) && !is_being_flushed(m);
    TB_ASSERT_WHOLE(is_whole(m));
    if (unchanged)
        tb_move_publish(m->e, stripe, m->leaving, m->n_sources, m->arriving, m->n_targets);
    tb_chunk_unlock(m->e, stripe);
    if (unchanged)
        count_moved(m);
    return unchanged ? 0 : -EAGAIN;
}

/*
 * Lock, prepare, unlock, copy, lock, publish. The slow tier is used between the locks only.
 * If killed before the publication, the targets are this client's and not published:
 * repair frees them.
 */
static int run(struct move *m, const struct tb_buffer_ref *ref)
{
    assert(m->tier < m->e->header->config.n_tiers);
    int stripe = tb_chunk_lock(m->e, m->file, ref->start);
    if (stripe < 0)
        return stripe;
    int rc = prepare(m, ref);
    tb_chunk_unlock(m->e, stripe);
    if (!rc)
        rc = read_sources(m, false);
    for (uint32_t i = 0; i < m->n_targets && !rc; i++)
        rc = fill_target(m, &m->targets[i]);
    TB_MEETING("move copied");
    if (!rc)
        rc = switch_over(m, ref);
    if (rc)
        give_back(m);
    return rc;
}

int tb_move(tb_engine *e, uint32_t file, const struct tb_buffer_ref *ref, uint32_t tier, uint32_t limit)
{
    struct move m = {.e = e, .file = file, .tier = tier, .limit = limit, .asked = &e->region.buffers[ref->buffer]};
    return run(&m, ref);
}

/* A tier that is full or fails is passed; a buffer that changed or may not be moved is the same for all of them. */
int tb_move_for_promise(tb_engine *e, uint32_t file, const struct tb_buffer_ref *ref)
{
    int rc = -ENOSPC;
    for (uint32_t t = 0; t < e->header->config.n_tiers && rc && rc != -EAGAIN && rc != -EBUSY; t++) {
        struct move m = {.e = e, .file = file, .tier = t, .limit = TB_HEAT_ANY, .asked = &e->region.buffers[ref->buffer]};
        m.is_promised = true;
        rc = tb_tier_is_directory(e, t) ? run(&m, ref) : rc;
    }
    return rc;
}
