/*
 * Prefetch by the daemon: for each stream it reads ahead of the reader, piece by piece,
 * under the file's claim and without a lock, and publishes what was not written in
 * between.
 */
#include "region/event.h"
#include "tiering/prefetch.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "base/kill_point.h"
#include "base/scratch.h"
#include "buffer/heat.h"
#include "buffer/map.h"
#include "buffer/slab.h"
#include "file/claim.h"
#include "file/file.h"
#include "flush/backing.h"
#include "tiering/stage.h"
#include "tiering/stream.h"

#define PIECE (1u << 20)
#define PIECES_AHEAD 32u /* of a strided reader, at most */

static uint32_t n_spilled(const tb_engine *e, int stripe)
{
    return e->region.locks->chunk[stripe].n_spilled;
}

/*
 * The first bytes of [*lo, *hi) that no buffer owns, up to the end of their chunk; false:
 * there are none up to there. `spilled` is read under the chunk's lock, before the bytes.
 */
static bool find_gap(tb_engine *e, uint32_t file, uint64_t *lo, uint64_t *hi, uint32_t *spilled)
{
    uint64_t chunk_end = (*lo / e->header->chunk.bytes + 1) * e->header->chunk.bytes, end = *lo;
    *hi = *hi < chunk_end ? *hi : chunk_end;
    int stripe = tb_chunk_lock(e, file, *lo);
    if (stripe < 0)
        return false;
    bool owned = true;
    *spilled = n_spilled(e, stripe);
    for (; owned && *lo < *hi; *lo = owned ? end : *lo)
        owned = tb_map_owner(e, file, *lo, *hi, &end) != NULL;
    tb_chunk_unlock(e, stripe);
    if (owned)
        return false;
    *hi = end;
    return true;
}

/* Is there a buffer for it?  One that must be reclaimed is. */
static bool is_room(tb_engine *e, uint64_t bytes)
{
    struct tb_buffer *b = NULL;
    for (uint32_t t = 0; t < 2 * e->header->config.n_tiers && !b; t++)
        b = tb_tier_take(e, t % e->header->config.n_tiers, bytes, t < e->header->config.n_tiers ? 0 : TB_HEAT_AHEAD);
    if (b)
        tb_slab_give(e, b);
    return b != NULL;
}

/*
 * Bytes that were written during the fetch have owners, or went to the PFS: then the
 * chunk's count moved from `spilled`. They cannot have had an owner and lost it: no flush
 * runs while the file is claimed.
 */
static uint64_t publish(tb_engine *e, uint32_t file, const struct tb_staging *s, uint32_t spilled, const char *bytes, uint64_t lo,
                        uint64_t hi)
{
    uint64_t done = 0, end;
    assert(lo < hi && hi - lo <= PIECE);
    tb_model_defer_begin();
    int stripe = tb_chunk_lock(e, file, lo);
    bool unowned = stripe >= 0 && !tb_map_owner(e, file, lo, hi, &end) && end == hi;
    if (unowned && n_spilled(e, stripe) == spilled)
        done = tb_stage_publish(e, file, s, bytes, hi - lo, lo);
    if (stripe >= 0)
        tb_chunk_unlock(e, stripe);
    tb_model_defer_end();
    tb_model_settle(false);
    return done;
}

/* The file is claimed: no flush and no cut runs. `voided` is read before the bytes, too. */
static enum tb_fetch fetch_claimed(tb_engine *e, uint32_t file, int *fd, uint64_t *offset, uint64_t end)
{
    const struct tb_file *f = &e->region.files[file];
    uint64_t lo = *offset, hi = end < f->size ? end : f->size;
    assert(tb_file_is_claimed(e, file));
    if (f->flags & (TB_FILE_COHERENT | TB_FILE_SCRATCH | TB_FILE_UNLINKED) || lo >= hi)
        return TB_FETCH_OVER;
    hi = hi - lo < PIECE ? hi : lo + PIECE;
    uint32_t spilled;
    if (!find_gap(e, file, &lo, &hi, &spilled)) {
        *offset = hi;
        return TB_FETCH_DONE;
    }
    if (!is_room(e, hi - lo))
        return TB_FETCH_NO_ROOM;
    struct tb_staging s = {.voided = e->header->movement.voided, .heat = TB_HEAT_AHEAD, .limit = TB_HEAT_AHEAD, .ahead = true};
    char *bytes = tb_scratch_bytes(hi - lo);
    if (*fd < 0)
        *fd = tb_target_open(e, file, O_RDONLY);
    struct tb_target t = {.engine = e, .io = tb_file_io(e, file), .file = file, .fd = *fd, .can_read = true};
    if (*fd < 0 || !bytes || tb_target_read(&t, bytes, hi - lo, lo))
        return TB_FETCH_OVER;
    TB_MEETING("piece fetched");
    uint64_t done = publish(e, file, &s, spilled, bytes, lo, hi);
    assert(done <= hi - lo);
    e->header->totals.prefetched += done;
    *offset = lo + done;
    return lo + done == hi ? TB_FETCH_DONE : TB_FETCH_NO_ROOM;
}

/* Never waits for the claim, since a flush or a cut goes first: BUSY, and the caller goes on with another stream. */
enum tb_fetch tb_fetch(tb_engine *e, uint32_t file, int *fd, uint64_t *offset, uint64_t end)
{
    if (!tb_file_try_claim(e, file))
        return TB_FETCH_BUSY;
    enum tb_fetch result = fetch_claimed(e, file, fd, offset, end);
    tb_file_unclaim(e, file);
    return result;
}

/* Serial 0 is of no stream. */
void tb_prefetch_start(struct tb_prefetcher *p)
{
    for (uint32_t i = 0; i < TB_STREAMS; i++) {
        p->stream[i].fd = -1;
        p->stream[i].serial = 0;
    }
}

static void close_backing(tb_engine *e, struct tb_prefetcher *p, uint32_t i)
{
    if (p->stream[i].fd >= 0)
        TB_IO(e->pfs, close, p->stream[i].fd);
    p->stream[i].fd = -1;
}

void tb_prefetch_end(tb_engine *e, struct tb_prefetcher *p)
{
    for (uint32_t i = 0; i < TB_STREAMS; i++)
        close_backing(e, p, i);
}

/* Where the next piece begins and ends, for a reader that is at `position`. */
static bool next_piece(const tb_engine *e, const struct tb_stream *s, uint64_t position, uint64_t *lo, uint64_t *hi)
{
    uint64_t window = e->header->config.organizer.prefetch, until = s->end;
    if (*lo < position)
        *lo = position; /* the reader was faster */
    if (s->stride == 0) {
        if (s->end == UINT64_MAX) /* else all of it was asked for */
            until = position + window;
        *hi = until;
        return *lo < until;
    }
    uint64_t step = (*lo - position) / s->stride, at = position + step * s->stride;
    if (*lo >= at + s->length)
        *lo = at = position + ++step * s->stride;
    *hi = at + s->length;
    return step < PIECES_AHEAD && step * s->length < window;
}

static TB_UNLOCKED bool is_same_file(const tb_engine *e, const struct tb_stream *s)
{
    const struct tb_file *f = &e->region.files[s->file];
    return f->magic == TB_FILE_MAGIC && f->inode == s->inode && f->birth_ns == s->birth_ns;
}

/* While it is fetched, its reader waits rather than reading it too. */
static enum tb_fetch fetch_for(tb_engine *e, struct tb_stream *s, int *fd, uint64_t *lo, uint64_t hi)
{
    s->busy_from = *lo;
    s->busy_to = hi - *lo < PIECE ? hi : *lo + PIECE;
    s->busy = s->busy | 1;
    enum tb_fetch result = is_same_file(e, s) ? tb_fetch(e, s->file, fd, lo, hi) : TB_FETCH_OVER;
    s->busy = (s->busy | 1) + 1; /* even, whatever an earlier daemon left */
    tb_event_wake(&s->busy);
    return result;
}

/* A stream without room waits until its reader has moved. */
static bool serve(tb_engine *e, struct tb_prefetcher *p, uint32_t i)
{
    struct tb_stream *s = &e->header->streams.entry[i];
    uint64_t position = s->position, hi;
    if (p->stream[i].serial != s->serial) {
        close_backing(e, p, i);
        p->stream[i].serial = s->serial;
        p->stream[i].next = position;
        p->stream[i].stopped_at = UINT64_MAX;
    }
    if (position == p->stream[i].stopped_at || !next_piece(e, s, position, &p->stream[i].next, &hi))
        return false;
    enum tb_fetch result = fetch_for(e, s, &p->stream[i].fd, &p->stream[i].next, hi);
    if (result == TB_FETCH_NO_ROOM)
        p->stream[i].stopped_at = position;
    if (result == TB_FETCH_OVER || p->stream[i].next >= s->end)
        tb_stream_close(e, i);
    return result == TB_FETCH_DONE;
}

bool tb_prefetch_step(tb_engine *e, struct tb_prefetcher *p)
{
    bool worked = false;
    for (uint32_t i = 0; i < TB_STREAMS; i++) {
        if (e->header->streams.entry[i].state == TB_STREAM_OPEN)
            worked |= serve(e, p, i);
        else
            close_backing(e, p, i);
    }
    return worked;
}
