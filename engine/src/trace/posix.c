/*
 * Calls on descriptors.  The counters are Darshan's to the letter, where its rules
 * are peculiar too: the offset of read and write is the file's, not the
 * descriptor's, and an open sets it to 0, also for appending.
 */
#include <assert.h>

#include "trace/records.h"
#include "trace/segments.h"
#include "trace/settle.h"
#include "trace/streams.h"

#define MEMORY_ALIGNMENT 8

/*
 * The record of a descriptor with its lock held, or NULL: not recorded.  Then `end`. Another
 * thread may have closed the descriptor since its number was looked up: the call is counted
 * for the file that it was.
 */
static inline struct tb_trace_posix *begin(struct tb_trace *t, int number)
{
    assert(number < (int)TB_TRACE_FILES);
    struct tb_trace_posix *p = number < 0 ? NULL : &t->file->posix[number];
    if (p) {
        tb_trace_take(&p->slot.lock);
        tb_trace_mark(&p->slot);
    }
    return p;
}

static inline void end(struct tb_trace_posix *p)
{
    if (p)
        tb_trace_drop(&p->slot.lock);
}

/* `also`: the counter of the way it was opened; POSIX_OPENS itself: none besides. */
static void count_open(struct tb_trace_posix *p, int also, struct tb_trace_time t)
{
    struct tb_posix_record *r = &p->record;
    r->counters[POSIX_OPENS]++;
    if (also != POSIX_OPENS)
        r->counters[also]++;
    tb_trace_note_first_last(&r->times[POSIX_F_OPEN_START], &r->times[POSIX_F_OPEN_END], t);
    tb_trace_add_time(&r->times[POSIX_F_META_TIME], &p->meta_until, t);
}

/*
 * The descriptor is set also where nothing is recorded: its number may have been another
 * file's, and a call on it must not count there.
 */
void tb_trace_open(tb_trace *t, int fd, const char *path, mode_t mode, struct tb_trace_time time)
{
    if (!tb_trace_enter(t))
        return;
    int number = tb_trace_find(t, TB_TRACE_POSIX, path);
    tb_trace_count_name(t, mode ? TB_TRACE_CREATED : TB_TRACE_OPENED, path, time);
    struct tb_trace_posix *p = begin(t, number);
    tb_trace_set_fd(t, fd, number);
    if (p) {
        if (mode)
            p->record.counters[POSIX_MODE] = mode;
        p->offset = 0;
        p->anew = 1;
        count_open(p, POSIX_OPENS, time);
    }
    end(p);
    tb_trace_leave();
}

/* Darshan counts a dup as an open of the file. `made` is set also where the source is not recorded, as after an open. */
void tb_trace_dup(tb_trace *t, int fd, int made, struct tb_trace_time time)
{
    if (!t || (tb_trace_of_fd(t, fd) < 0 && tb_trace_of_fd(t, made) < 0) || !tb_trace_enter(t))
        return;
    int number = tb_trace_of_fd(t, fd);
    struct tb_trace_posix *p = begin(t, number);
    tb_trace_set_fd(t, made, number);
    if (p)
        count_open(p, POSIX_DUPS, time);
    end(p);
    tb_trace_leave();
}

/* For close_range: descriptors that are closed without a call for each. A range may reach to the last number there can be. */
void tb_trace_forget(tb_trace *t, unsigned first, unsigned last)
{
    for (unsigned fd = first; t && fd <= last && fd <= (unsigned)t->highest; fd++)
        tb_trace_set_fd(t, (int)fd, -1);
}

/* The descriptor is forgotten before the close, because afterwards its number may be another file's. */
int tb_trace_closing(tb_trace *t, int fd)
{
    int number = t ? tb_trace_of_fd(t, fd) : -1;
    if (number >= 0)
        tb_trace_set_fd(t, fd, -1);
    return number;
}

void tb_trace_close(tb_trace *t, int closing, struct tb_trace_time time)
{
    if (closing < 0 || !tb_trace_enter(t))
        return;
    struct tb_trace_posix *p = begin(t, closing);
    assert(p);
    double *times = p->record.times;
    p->anew = 1;
    tb_trace_note_first_last(&times[POSIX_F_CLOSE_START], &times[POSIX_F_CLOSE_END], time);
    tb_trace_add_time(&times[POSIX_F_META_TIME], &p->meta_until, time);
    end(p);
    tb_trace_leave();
}

/* What depends on the order of reads and writes, and what no segment says, is counted at once. */
static inline void note_order(struct tb_trace_posix *p, enum tb_trace_access access, const void *buf)
{
    if ((uintptr_t)buf % MEMORY_ALIGNMENT != 0)
        p->record.counters[POSIX_MEM_NOT_ALIGNED]++;
    if (p->last == 1u + access)
        return;
    p->record.counters[POSIX_RW_SWITCHES] += p->last != 0;
    p->last = 1u + access;
}

/* `unsettled` leads to the first chunk with transfers that no counter has: with none before, that is the new one. */
static struct tb_trace_chunk *next_chunk(struct tb_trace *t, int number, struct tb_trace_posix *p, enum tb_trace_access access)
{
    struct tb_trace_chunk *c = tb_trace_chunk_more(t, TB_TRACE_POSIX, number, access);
    if (c && !p->unsettled[access])
        p->unsettled[access] = p->slot.chunk[access];
    return c;
}

/*
 * After an open or a close, Darshan's "sequential" starts again. What was written down before
 * is counted with the old last byte, so it is settled first.
 */
static void begin_anew(struct tb_trace *t, struct tb_trace_posix *p)
{
    tb_trace_settle(t->file, p);
    p->last_byte[0] = p->last_byte[1] = 0;
    p->anew = 0;
}

/*
 * Without room for the segment. What was written down before is counted first, to keep the
 * order: strides and switches depend on it.
 */
static void count_now(struct tb_trace *t, struct tb_trace_posix *p, enum tb_trace_access access, struct tb_dxt_segment s)
{
    tb_trace_settle(t->file, p);
    tb_trace_count_transfers(p, access, &s, 1);
}

/*
 * The hot path: one lock, one segment, no division. All else is counted later
 * (trace/settle.c). A descriptor has no offset of its own here, since Darshan keeps one for
 * the file.
 */
void tb_trace_transfer(tb_trace *t, int fd, enum tb_trace_access access, int64_t offset, const void *buf, size_t n,
                       struct tb_trace_time time)
{
    int number = t ? tb_trace_of_fd(t, fd) : -1;
    if (number < 0 || !tb_trace_enter(t))
        return;
    struct tb_trace_posix *p = begin(t, number);
    if (offset == TB_TRACE_HERE)
        offset = p->offset;
    p->offset = offset + (int64_t)n;
    note_order(p, access, buf);
    if (p->anew)
        begin_anew(t, p);
    struct tb_trace_chunk *c = tb_trace_chunk_of(t->file, &p->slot, access);
    if (!c || c->count == c->room)
        c = next_chunk(t, number, p, access);
    if (c)
        tb_trace_append(c, offset, (int64_t)n, time);
    else
        count_now(t, p, access, (struct tb_dxt_segment){offset, (int64_t)n, time.start, time.end});
    end(p);
    tb_trace_leave();
}

/* One more of a counter, and its time. */
static void count_meta(tb_trace *t, int number, enum tb_posix_counter counter, struct tb_trace_time time)
{
    struct tb_trace_posix *p = begin(t, number);
    if (p) {
        p->record.counters[counter]++;
        tb_trace_add_time(&p->record.times[POSIX_F_META_TIME], &p->meta_until, time);
    }
    end(p);
}

void tb_trace_seek(tb_trace *t, int fd, int64_t offset, struct tb_trace_time time)
{
    int number = t ? tb_trace_of_fd(t, fd) : -1;
    if (number < 0 || !tb_trace_enter(t))
        return;
    struct tb_trace_posix *p = begin(t, number);
    p->offset = offset;
    p->record.counters[POSIX_SEEKS]++;
    tb_trace_add_time(&p->record.times[POSIX_F_META_TIME], &p->meta_until, time);
    end(p);
    tb_trace_leave();
}

/* A flush counts as writing. Its time is added after those of the writes before it, so these are settled first. */
void tb_trace_sync(tb_trace *t, int fd, bool data_only, struct tb_trace_time time)
{
    int number = t ? tb_trace_of_fd(t, fd) : -1;
    if (number < 0 || !tb_trace_enter(t))
        return;
    struct tb_trace_posix *p = begin(t, number);
    tb_trace_settle(t->file, p);
    p->record.counters[data_only ? POSIX_FDSYNCS : POSIX_FSYNCS]++;
    p->synced = time.end;
    tb_trace_add_time(&p->record.times[POSIX_F_WRITE_TIME], &p->until[TB_TRACE_WRITE], time);
    end(p);
    tb_trace_leave();
}

void tb_trace_map(tb_trace *t, int fd, size_t bytes)
{
    int number = t ? tb_trace_of_fd(t, fd) : -1;
    if (number < 0 || !tb_trace_enter(t))
        return;
    struct tb_trace_posix *p = begin(t, number);
    p->record.counters[POSIX_MMAPS]++;
    p->mapped += (int64_t)bytes;
    end(p);
    tb_trace_leave();
}

/* By name or by descriptor, as the caller has it. */
void tb_trace_stat(tb_trace *t, int fd, const char *path, struct tb_trace_time time)
{
    if (!t || (!path && tb_trace_of_fd(t, fd) < 0) || !tb_trace_enter(t))
        return;
    count_meta(t, path ? tb_trace_find(t, TB_TRACE_POSIX, path) : tb_trace_of_fd(t, fd), POSIX_STATS, time);
    if (path)
        tb_trace_count_name(t, TB_TRACE_LOOKED_AT, path, time);
    tb_trace_leave();
}

void tb_trace_remove(tb_trace *t, const char *path, struct tb_trace_time time)
{
    if (!tb_trace_enter(t))
        return;
    tb_trace_count_name(t, TB_TRACE_REMOVED, path, time);
    tb_trace_leave();
}

/* For a file that was used before. The time is counted for the source alone; the target says which name it took. */
void tb_trace_rename(tb_trace *t, const char *from, const char *to, struct tb_trace_time time)
{
    if (!tb_trace_enter(t))
        return;
    int source = tb_trace_known(t, TB_TRACE_POSIX, from);
    count_meta(t, source, POSIX_RENAME_SOURCES, time);
    int target = source < 0 ? -1 : tb_trace_find(t, TB_TRACE_POSIX, to);
    struct tb_trace_posix *p = begin(t, target);
    if (p) {
        p->record.counters[POSIX_RENAME_TARGETS]++;
        if (p->record.counters[POSIX_RENAMED_FROM] == 0)
            p->record.counters[POSIX_RENAMED_FROM] = (int64_t)t->file->posix[source].record.id;
    }
    end(p);
    tb_trace_leave();
}

/* From now on the program may use the descriptor of a stream: it gets a POSIX record of the stream's name. */
void tb_trace_stream_fileno(tb_trace *t, const void *stream, int fd, struct tb_trace_time time)
{
    int of_stream = tb_trace_stream_number(t, stream);
    if (of_stream < 0 || !tb_trace_enter(t))
        return;
    int number = tb_trace_find_clean(t, TB_TRACE_POSIX, tb_trace_name_of(t->file, TB_TRACE_STDIO, of_stream));
    struct tb_trace_posix *p = begin(t, number);
    tb_trace_set_fd(t, fd, number);
    if (p)
        count_open(p, POSIX_FILENOS, time);
    end(p);
    tb_trace_leave();
}
