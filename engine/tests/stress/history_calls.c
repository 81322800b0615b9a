/*
 * The calls of one worker on the file of a history, each noted with its time and what it got.
 *
 * Each cell of a write holds a value that no other cell of any write has. So a read tells which write it saw, and a cell
 * with bytes of two writes is seen as torn.
 */
#include "history.h"

#include <sched.h>

static uint32_t chance(struct actor *a, uint32_t below)
{
    return next_random(&a->seed) % below;
}

/* A cell says which it is; its other bytes follow from that. */
static uint64_t word_of(uint32_t value, uint32_t k)
{
    return (value + (uint64_t)k) * 0x9e3779b97f4a7c15ull >> 8 << 8 | (value & 0xff);
}

static void make_cells(const struct plan *p, unsigned char *to, uint32_t n, uint32_t value)
{
    for (uint32_t i = 0; i < n; i++, to += p->cell) {
        for (uint32_t at = 0; at < p->cell; at += 8) {
            uint64_t word = word_of(value + i, at);
            memcpy(to + at, &word, p->cell - at < 8 ? p->cell - at : 8);
        }
        memcpy(to, &(uint32_t){value + i}, sizeof(uint32_t));
    }
}

static uint32_t value_of(const struct plan *p, const unsigned char *cell)
{
    static const unsigned char zeros[BLOCK];
    unsigned char like[BLOCK];
    uint32_t value;
    memcpy(&value, cell, sizeof(value));
    if (value)
        make_cells(p, like, 1, value);
    return memcmp(cell, value ? like : zeros, p->cell) ? HISTORY_TORN : value;
}

/* Times of one worker differ, so that its calls do not overlap. */
static uint64_t later_than(uint64_t before)
{
    uint64_t now;
    do
        now = now_ns();
    while (now <= before);
    return now;
}

static struct history_call *begin(struct actor *a, enum history_kind kind, uint32_t at, uint32_t n)
{
    struct notes *s = a->notes;
    struct history_call *o = &s->calls[s->n_calls];
    *o = (struct history_call){.kind = kind, .worker = a->id, .at = at, .n = n, .got = s->n_values};
    o->begin = later_than(s->n_calls ? o[-1].end : 0);
    return o;
}

static void end(struct actor *a, struct history_call *o)
{
    o->end = now_ns();
    a->notes->n_calls++;
}

/* In cells; the file's length or offset is never inside one. */
static uint32_t cells_of(const struct plan *p, int64_t at, const char *what)
{
    int64_t from = at - (int64_t)p->origin;
    must(from >= 0 && from % p->cell == 0 && from / p->cell <= p->n_cells, "%s %lld, cells of %u from %llu on", what, (long long)at,
         p->cell, (unsigned long long)p->origin);
    return (uint32_t)(from / p->cell);
}

static uint32_t piece(struct actor *a)
{
    return 1 + chance(a, a->run->plan.longest);
}

static void write_cells(struct actor *a, enum history_kind kind)
{
    const struct plan *p = &a->run->plan;
    uint32_t n = piece(a), at = kind == HISTORY_WRITE ? chance(a, p->room - n + 1) : 0;
    uint32_t value = (a->id + 1) << 24 | a->serial++ * HISTORY_PIECE;
    struct tb_io *io = a->io;
    make_cells(p, a->bytes, n, value);
    struct history_call *o = begin(a, kind, at, n);
    ssize_t w = kind == HISTORY_WRITE  ? TB_IO(io, pwrite, a->both, a->bytes, n * p->cell, place(p, at))
              : kind == HISTORY_APPEND ? TB_IO(io, write, a->appends, a->bytes, n * p->cell)
                                       : TB_IO(io, write, a->both, a->bytes, n * p->cell);
    o->value = value;
    end(a, o);
    must(w == (ssize_t)(n * p->cell), "write of %u cells: %zd", n, w);
}

static void read_cells(struct actor *a, enum history_kind kind)
{
    const struct plan *p = &a->run->plan;
    uint32_t n = piece(a), at = chance(a, p->room);
    struct tb_io *io = a->io;
    struct history_call *o = begin(a, kind, at, n);
    ssize_t r = kind == HISTORY_READ ? TB_IO(io, pread, a->both, a->bytes, n * p->cell, place(p, at))
                                     : TB_IO(io, read, a->both, a->bytes, n * p->cell);
    end(a, o);
    must(r >= 0 && r % p->cell == 0, "read of %u cells at %u: %zd", n, at, r);
    o->result = (uint32_t)(r / p->cell);
    for (uint32_t i = 0; i < o->result; i++)
        a->notes->values[a->notes->n_values++] = value_of(p, a->bytes + i * p->cell);
}

static void cut(struct actor *a)
{
    const struct plan *p = &a->run->plan;
    uint32_t at = chance(a, p->room + 1);
    bool by_name = chance(a, 4) == 0;
    struct history_call *o = begin(a, HISTORY_CUT, at, 0);
    int rc = by_name ? TB_IO(a->io, truncate, a->run->name, place(p, at)) : TB_IO(a->io, ftruncate, a->both, place(p, at));
    end(a, o);
    must(rc == 0, "truncate: %d", rc);
}

static uint32_t size_now(struct actor *a)
{
    struct stat st;
    struct history_call *o = begin(a, HISTORY_SIZE, 0, 0);
    int rc = TB_IO(a->io, fstat, a->both, &st);
    end(a, o);
    must(rc == 0, "fstat: %d", rc);
    return o->result = cells_of(&a->run->plan, st.st_size, "length");
}

static uint32_t offset_now(struct actor *a)
{
    struct history_call *o = begin(a, HISTORY_TELL, 0, 0);
    off_t at = TB_IO(a->io, lseek, a->both, 0, SEEK_CUR);
    end(a, o);
    return o->result = cells_of(&a->run->plan, at, "offset");
}

static void seek(struct actor *a)
{
    uint32_t at = chance(a, a->run->plan.room);
    struct history_call *o = begin(a, HISTORY_SEEK, at, 0);
    off_t to = TB_IO(a->io, lseek, a->both, place(&a->run->plan, at), SEEK_SET);
    end(a, o);
    must(to == place(&a->run->plan, at), "seek: %lld", (long long)to);
}

static void open_own(struct actor *a)
{
    a->both = TB_IO(a->io, open, a->run->name, O_RDWR, 0);
    a->appends = TB_IO(a->io, open, a->run->name, O_WRONLY | O_APPEND, 0);
    must(a->both >= 0 && a->appends >= 0, "open: %d, %d", a->both, a->appends);
}

static void close_own(struct actor *a)
{
    must(TB_IO(a->io, close, a->both) == 0 && TB_IO(a->io, close, a->appends) == 0, "close");
}

/* Calls that change nothing that a read could show. */
static void sync_or_reopen(struct actor *a)
{
    int rc = 0;
    if (chance(a, 2) || a->run->plan.one_description)
        rc = TB_IO(a->io, fsync, a->both, chance(a, 2));
    else {
        close_own(a);
        open_own(a);
    }
    must(rc == 0, "fsync: %d", rc);
}

static void append(struct actor *a)
{
    if (size_now(a) <= a->run->plan.room)
        write_cells(a, HISTORY_APPEND);
    else
        cut(a);
}

static void move_on(struct actor *a)
{
    if (chance(a, 4) == 0 || offset_now(a) >= a->run->plan.room)
        seek(a);
    else if (chance(a, 2) && !a->run->plan.only_appends)
        write_cells(a, HISTORY_WRITE_ON);
    else
        read_cells(a, HISTORY_READ_ON);
}

static void one_call(struct actor *a)
{
    const struct plan *p = &a->run->plan;
    uint32_t what = chance(a, 100);
    if (what < p->appends)
        append(a);
    else if ((what -= p->appends) < p->cuts)
        cut(a);
    else if ((what -= p->cuts) < 3)
        sync_or_reopen(a);
    else if (what < 10)
        size_now(a);
    else if (p->one_description && what < 50)
        move_on(a);
    else if (chance(a, 5) < 2 && !p->only_appends)
        write_cells(a, HISTORY_WRITE);
    else
        read_cells(a, HISTORY_READ);
    if (chance(a, 64) == 0)
        sched_yield();
}

static bool has_room(const struct notes *s, const struct plan *p)
{
    return s->n_calls + 3 < p->calls && s->n_values + HISTORY_PIECE < p->calls * VALUES_MAX;
}

void *history_act(void *arg)
{
    struct actor *a = arg;
    if (!a->run->plan.one_description)
        open_own(a);
    pthread_barrier_wait(&a->run->barrier);
    while (has_room(a->notes, &a->run->plan))
        one_call(a);
    if (!a->run->plan.one_description)
        close_own(a);
    a->run->busy--;
    return NULL;
}

void history_write_first(struct run *r, struct actor *a)
{
    const struct plan *p = &r->plan;
    int fd = open(r->name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    must(fd >= 0 && ftruncate(fd, place(p, 0)) == 0, "file");
    for (uint32_t at = 0, n; at < p->first; at += n) {
        n = p->first - at < HISTORY_PIECE ? p->first - at : HISTORY_PIECE;
        struct history_call *o = begin(a, HISTORY_WRITE, at, n);
        o->value = (a->id + 1) << 24 | a->serial++ * HISTORY_PIECE;
        make_cells(p, a->bytes, n, o->value);
        must(pwrite(fd, a->bytes, n * p->cell, place(p, at)) == (ssize_t)(n * p->cell), "first bytes");
        end(a, o);
    }
    close(fd);
}

void history_read_last(struct run *r, struct actor *a)
{
    const struct plan *p = &r->plan;
    a->io = tb_io_libc();
    a->both = open(r->name, O_RDONLY);
    must(a->both >= 0, "open");
    uint32_t size = size_now(a);
    for (uint32_t at = 0, n; at < size; at += n) {
        n = size - at < p->longest ? size - at : p->longest;
        struct history_call *o = begin(a, HISTORY_READ, at, n);
        ssize_t got = pread(a->both, a->bytes, n * p->cell, place(p, at));
        end(a, o);
        must(got == (ssize_t)(n * p->cell), "read of %u cells on the PFS: %zd", n, got);
        o->result = n;
        for (uint32_t i = 0; i < n; i++)
            a->notes->values[a->notes->n_values++] = value_of(p, a->bytes + i * p->cell);
    }
    close(a->both);
}
