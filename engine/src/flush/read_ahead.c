/*
 * Reading ahead of one thread (read_ahead.h): a queue of pieces, one after the other in the file, and where the last read ended. A read that
 * begins there makes the queue longer, up to all spare requests; any other read ends it. Pieces end where those of a whole chunk
 * do (`piece`), so a program that reads chunks takes whole answers.
 */
#include "flush/read_ahead.h"

#include <errno.h>

#include "shared/commit.h"

#define PAGE TB_BLOCK_MIN
#define MOST (TB_REQUESTS / 2) /* as many requests are spare */

struct asked {
    struct tb_asked asked;
    struct tb_stamp stamp; /* before */
    uint64_t lo, hi;
};

static _Thread_local struct {
    tb_engine *engine;
    uint64_t number; /* of that engine: a later one may be at the same address; 0: no read was before */
    uint32_t slot;   /* a forked child begins anew */
    uint32_t file;
    uint64_t end; /* of the last read */
    uint32_t window, n;
    struct asked piece[MOST];
} reader;

static void forget_first(void)
{
    tb_ask_forget(reader.engine, &reader.piece[0].asked);
    reader.n--;
    for (uint32_t i = 0; i < reader.n; i++)
        reader.piece[i] = reader.piece[i + 1];
}

/* The requests of another instance, or of the parent, are not touched: they count as free by themselves. */
static bool is_own(const tb_engine *e)
{
    return reader.number == e->number && reader.slot == e->slot;
}

static void stop(const tb_engine *e)
{
    while (reader.n && is_own(e))
        forget_first();
    reader.n = reader.window = 0;
    reader.number = 0;
}

void tb_read_ahead_stop(void)
{
    reader.window = 0;
    while (reader.n)
        forget_first();
}

bool tb_read_ahead_take(const struct tb_target *t, uint64_t at, const struct tb_stamp *now, uint64_t until, struct tb_ahead *out)
{
    if (!is_own(t->engine) || reader.file != t->file)
        return false;
    uint32_t i = 0;
    while (i < reader.n && reader.piece[i].hi <= at) /* of this read: they are the caller's still */
        i++;
    const struct asked *p = &reader.piece[i];
    if (i == reader.n || at < p->lo)
        return false;
    if (!tb_stamp_is(&p->stamp, now))
        return tb_read_ahead_stop(), false;
    *out = (struct tb_ahead){p->asked.request, p->lo, p->hi, tb_ask_claim(t->engine, &p->asked, until)};
    return out->n != -ENOENT;
}

/* Up to the end of a piece of its chunk, and of the file. */
static uint64_t end_of_piece(const struct tb_target *t, uint64_t lo, uint64_t piece)
{
    uint64_t chunk = t->engine->header->chunk.bytes, start = lo / chunk * chunk, size = t->engine->region.files[t->file].size;
    uint64_t hi = start + ((lo - start) / piece + 1) * piece, end = (size + PAGE - 1) / PAGE * PAGE;
    hi = hi < start + chunk ? hi : start + chunk;
    return hi < end ? hi : end;
}

static bool ask_next(struct tb_target *t, uint64_t piece)
{
    struct asked *p = &reader.piece[reader.n];
    const struct tb_file *f = &t->engine->region.files[t->file];
    p->lo = reader.n ? p[-1].hi : reader.end / PAGE * PAGE;
    p->hi = end_of_piece(t, p->lo, piece);
    if (p->lo >= p->hi)
        return false;
    struct tb_wire w = {.op = TB_WIRE_FETCH, .file = {f->inode, f->birth_ns}, .lo = p->lo, .hi = p->hi};
    p->stamp = tb_stamp_of(t->engine, t->file, p->lo);
    if (!tb_ask_ahead(t->engine, &w, &p->asked))
        return false;
    reader.n++;
    return true;
}

void tb_read_ahead_go_on(struct tb_target *t, uint64_t offset, uint64_t n, uint64_t piece)
{
    tb_engine *e = t->engine;
    bool follows = is_own(e) && reader.file == t->file && reader.end == offset;
    if (!follows)
        stop(e);
    reader.engine = e;
    reader.number = e->number;
    reader.slot = e->slot;
    reader.file = t->file;
    reader.end = offset + n;
    reader.window = !follows || tb_has_copies(e) ? 0 : reader.window ? 2 * reader.window : 1;
    reader.window = reader.window < MOST ? reader.window : MOST;
    while (reader.n && reader.piece[0].hi <= reader.end)
        forget_first();
    while (reader.n < reader.window && ask_next(t, piece))
        ;
}
