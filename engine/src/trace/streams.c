/*
 * Calls on streams, counted as Darshan's STDIO module does: what the program moves
 * through the stream, whatever the stream's buffer makes of it.
 *
 * Streams are looked up without a lock: a place in the table goes from free to a
 * stream and from a stream to left, and is searched past when left.
 */
#include "trace/streams.h"

#include <assert.h>

#include "trace/records.h"

#define LEFT ((const void *)1)

/* Streams are allocated at multiples of 16, so the low bits say nothing. */
static uint32_t place_of(const void *stream)
{
    return (uint32_t)(((uintptr_t)stream >> 4) * 0x9e3779b1u) % TB_TRACE_STREAMS;
}

/* Ends at the first place that was never used; at most all of them are looked at. */
static struct tb_trace_stream *look_up(const struct tb_trace *t, const void *stream)
{
    for (uint32_t i = 0, at = place_of(stream); i < TB_TRACE_STREAMS; i++, at = (at + 1) % TB_TRACE_STREAMS) {
        const struct tb_trace_stream *s = &t->streams[at];
        const void *there = s->stream;
        if (there == stream)
            return (struct tb_trace_stream *)s;
        if (!there)
            break;
    }
    return NULL;
}

/* Without the lock: the program itself orders its calls on a stream, and other streams' places do not move. */
int tb_trace_stream_number(const struct tb_trace *t, const void *stream)
{
    const struct tb_trace_stream *s = t && stream ? look_up(t, stream) : NULL;
    return s ? (int)s->file - 1 : -1;
}

bool tb_trace_stream_is_known(tb_trace *t, const void *stream)
{
    return tb_trace_stream_number(t, stream) >= 0;
}

/*
 * A stream's place is stored last, so that a look-up without lock finds a complete entry. A
 * full table is no error: the stream is not recorded.
 */
static void keep(struct tb_trace *t, const void *stream, int number)
{
    tb_trace_take(&t->lock);
    struct tb_trace_stream *s = look_up(t, stream);
    for (uint32_t i = 0, at = place_of(stream); !s && i < TB_TRACE_STREAMS; i++, at = (at + 1) % TB_TRACE_STREAMS)
        if (!t->streams[at].stream || t->streams[at].stream == LEFT)
            s = &t->streams[at];
    if (s) {
        s->file = (uint32_t)(number + 1);
        s->stream = stream;
    }
    tb_trace_drop(&t->lock);
}

static struct tb_trace_stdio *begin(struct tb_trace *t, int number)
{
    assert(number < (int)TB_TRACE_FILES);
    struct tb_trace_stdio *s = number < 0 ? NULL : &t->file->stdio[number];
    if (s) {
        tb_trace_take(&s->slot.lock);
        tb_trace_mark(&s->slot);
    }
    return s;
}

static void end(struct tb_trace_stdio *s)
{
    if (s)
        tb_trace_drop(&s->slot.lock);
}

/* fdopen gives no name: the descriptor's record has it. A descriptor that is not recorded gives a stream that is not. */
static int file_of(struct tb_trace *t, const char *path, int fd)
{
    int posix = path ? -1 : tb_trace_of_fd(t, fd);
    if (path)
        return tb_trace_find(t, TB_TRACE_STDIO, path);
    return posix < 0 ? -1 : tb_trace_find_clean(t, TB_TRACE_STDIO, tb_trace_name_of(t->file, TB_TRACE_POSIX, posix));
}

void tb_trace_stream_open(tb_trace *t, const void *stream, const char *path, int fd, struct tb_trace_time time)
{
    if (!tb_trace_enter(t))
        return;
    int number = file_of(t, path, fd);
    struct tb_trace_stdio *s = begin(t, number);
    if (s) {
        struct tb_stdio_record *r = &s->record;
        if (path)
            s->offset = 0;
        r->counters[STDIO_OPENS]++;
        r->counters[STDIO_FDOPENS] += !path;
        tb_trace_note_first_last(&r->times[STDIO_F_OPEN_START], &r->times[STDIO_F_OPEN_END], time);
        tb_trace_add_time(&r->times[STDIO_F_META_TIME], &s->meta_until, time);
    }
    end(s);
    if (s || tb_trace_stream_number(t, stream) >= 0)
        keep(t, stream, number);
    tb_trace_leave();
}

/* Before fclose: afterwards the address may be another stream's. */
int tb_trace_stream_closing(tb_trace *t, const void *stream)
{
    int number = tb_trace_stream_number(t, stream);
    if (number < 0)
        return -1;
    tb_trace_take(&t->lock);
    struct tb_trace_stream *s = look_up(t, stream);
    if (s)
        s->stream = LEFT;
    tb_trace_drop(&t->lock);
    return number;
}

void tb_trace_stream_close(tb_trace *t, int closing, struct tb_trace_time time)
{
    if (closing < 0 || !tb_trace_enter(t))
        return;
    struct tb_trace_stdio *s = begin(t, closing);
    assert(s);
    double *times = s->record.times;
    tb_trace_note_first_last(&times[STDIO_F_CLOSE_START], &times[STDIO_F_CLOSE_END], time);
    tb_trace_add_time(&times[STDIO_F_META_TIME], &s->meta_until, time);
    end(s);
    tb_trace_leave();
}

/*
 * The offset is the trace's own: a stream's position cannot be asked without side effects.
 * In a stream that appends it is lower than the stream's, as in Darshan.
 */
static void transfer(tb_trace *t, const void *stream, enum tb_trace_access access, enum tb_stdio_counter op, size_t n,
                     struct tb_trace_time time)
{
    int number = tb_trace_stream_number(t, stream);
    if (number < 0 || !tb_trace_enter(t))
        return;
    struct tb_trace_stdio *s = begin(t, number);
    int64_t *c = s->record.counters;
    double *times = s->record.times;
    bool reads = access == TB_TRACE_READ;
    int64_t *highest = &c[reads ? STDIO_MAX_BYTE_READ : STDIO_MAX_BYTE_WRITTEN];
    s->offset += (int64_t)n;
    if (*highest < s->offset - 1)
        *highest = s->offset - 1;
    c[reads ? STDIO_BYTES_READ : STDIO_BYTES_WRITTEN] += (int64_t)n;
    c[op]++;
    tb_trace_note_first_last(&times[reads ? STDIO_F_READ_START : STDIO_F_WRITE_START], &times[reads ? STDIO_F_READ_END : STDIO_F_WRITE_END],
                             time);
    tb_trace_add_time(&times[reads ? STDIO_F_READ_TIME : STDIO_F_WRITE_TIME], &s->until[access], time);
    end(s);
    tb_trace_leave();
}

void tb_trace_stream_transfer(tb_trace *t, const void *stream, enum tb_trace_access access, size_t n, struct tb_trace_time time)
{
    transfer(t, stream, access, access == TB_TRACE_READ ? STDIO_READS : STDIO_WRITES, n, time);
}

void tb_trace_stream_flush(tb_trace *t, const void *stream, struct tb_trace_time time)
{
    transfer(t, stream, TB_TRACE_WRITE, STDIO_FLUSHES, 0, time);
}

void tb_trace_stream_seek(tb_trace *t, const void *stream, int64_t offset, struct tb_trace_time time)
{
    int number = tb_trace_stream_number(t, stream);
    if (number < 0 || !tb_trace_enter(t))
        return;
    struct tb_trace_stdio *s = begin(t, number);
    s->offset = offset;
    s->record.counters[STDIO_SEEKS]++;
    tb_trace_add_time(&s->record.times[STDIO_F_META_TIME], &s->meta_until, time);
    end(s);
    tb_trace_leave();
}
