/*
 * Calls on descriptors.  The counters are Darshan's to the letter, where its rules
 * are peculiar too: the offset of read and write is the file's, not the
 * descriptor's; an open sets it to 0, also for appending; "sequential" is behind
 * the last byte, "consecutive" exactly behind it, and byte 0 is never either
 * for a file just opened.
 */
#include "trace_records.h"

#define MEMORY_ALIGNMENT 8

/* The record of a descriptor with its lock held, or NULL: not recorded.  Then `end`. */
static struct tb_trace_posix *begin(struct tb_trace *t, int number)
{
    struct tb_trace_posix *p = number < 0 ? NULL : &t->file->posix[number];
    if (p) {
        tb_trace_take(&p->slot.lock);
        tb_trace_mark(&p->slot);
    }
    return p;
}

static void end(struct tb_trace_posix *p)
{
    if (p)
        tb_trace_drop(&p->slot.lock);
}

static void count_open(struct tb_trace_posix *p, int also, struct tb_trace_time t)
{
    struct tb_posix_record *r = &p->record;
    r->counters[POSIX_OPENS]++;
    if (also != POSIX_OPENS)
        r->counters[also]++;
    tb_trace_note_first_last(&r->times[POSIX_F_OPEN_START], &r->times[POSIX_F_OPEN_END], t);
    tb_trace_add_time(&r->times[POSIX_F_META_TIME], &p->meta_until, t);
}

void tb_trace_open(tb_trace *t, int fd, const char *path, mode_t mode, struct tb_trace_time time)
{
    if (!tb_trace_enter(t))
        return;
    int number = tb_trace_find(t, TB_TRACE_POSIX, path);
    struct tb_trace_posix *p = begin(t, number);
    tb_trace_set_fd(t, fd, number);
    if (p) {
        if (mode)
            p->record.counters[POSIX_MODE] = mode;
        p->offset = p->last_byte[0] = p->last_byte[1] = 0;
        count_open(p, POSIX_OPENS, time);
    }
    end(p);
    tb_trace_leave();
}

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

void tb_trace_forget(tb_trace *t, unsigned first, unsigned last)
{
    for (unsigned fd = first; t && fd <= last && fd <= (unsigned)t->highest; fd++)
        tb_trace_set_fd(t, (int)fd, -1);
}

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
    double *times = p->record.times;
    p->last_byte[0] = p->last_byte[1] = 0;
    tb_trace_note_first_last(&times[POSIX_F_CLOSE_START], &times[POSIX_F_CLOSE_END], time);
    tb_trace_add_time(&times[POSIX_F_META_TIME], &p->meta_until, time);
    end(p);
    tb_trace_leave();
}

/* Where an access of each kind counts. */
static const struct kind {
    enum tb_posix_counter ops, bytes, max_byte, consecutive, sequential, bins, longest_size;
    enum tb_posix_time first, last, time, longest;
} kinds[2] = {
    [TB_TRACE_WRITE] = {POSIX_WRITES, POSIX_BYTES_WRITTEN, POSIX_MAX_BYTE_WRITTEN, POSIX_CONSEC_WRITES, POSIX_SEQ_WRITES,
                        POSIX_SIZE_WRITE_0_100, POSIX_MAX_WRITE_TIME_SIZE, POSIX_F_WRITE_START, POSIX_F_WRITE_END,
                        POSIX_F_WRITE_TIME, POSIX_F_MAX_WRITE_TIME},
    [TB_TRACE_READ] = {POSIX_READS, POSIX_BYTES_READ, POSIX_MAX_BYTE_READ, POSIX_CONSEC_READS, POSIX_SEQ_READS,
                       POSIX_SIZE_READ_0_100, POSIX_MAX_READ_TIME_SIZE, POSIX_F_READ_START, POSIX_F_READ_END,
                       POSIX_F_READ_TIME, POSIX_F_MAX_READ_TIME},
};

/* A division takes longer than all the rest of this file, and block sizes are powers of two. */
static bool is_multiple(int64_t offset, int64_t of)
{
    return (of & (of - 1)) == 0 ? (offset & (of - 1)) == 0 : offset % of == 0;
}

static void count_place(struct tb_trace_posix *p, enum tb_trace_access access, int64_t offset, int64_t n)
{
    const struct kind *k = &kinds[access];
    int64_t *c = p->record.counters, last = p->last_byte[access], alignment = c[POSIX_FILE_ALIGNMENT], stride = 0;
    c[k->sequential] += offset > last;
    c[k->consecutive] += offset == last + 1;
    if (offset > last && last != 0)
        stride = offset - last - 1;
    tb_trace_count_common(&p->strides, stride);
    p->last_byte[access] = offset + n - 1;
    p->offset = offset + n;
    if (c[k->max_byte] < offset + n - 1)
        c[k->max_byte] = offset + n - 1;
    if (alignment > 0 && !is_multiple(offset, alignment))
        c[POSIX_FILE_NOT_ALIGNED]++;
}

static void count_transfer(struct tb_trace_posix *p, enum tb_trace_access access, const void *buf, int64_t n)
{
    int64_t *c = p->record.counters;
    c[kinds[access].ops]++;
    c[kinds[access].bytes] += n;
    tb_trace_count_size(&c[kinds[access].bins], n);
    tb_trace_count_common(&p->sizes, n);
    c[POSIX_MEM_NOT_ALIGNED] += (uintptr_t)buf % MEMORY_ALIGNMENT != 0;
    c[POSIX_RW_SWITCHES] += p->last && p->last != 1u + access;
    p->last = 1u + access;
}

void tb_trace_transfer(tb_trace *t, int fd, enum tb_trace_access access, int64_t offset, const void *buf, size_t n,
                       struct tb_trace_time time)
{
    int number = t ? tb_trace_of_fd(t, fd) : -1;
    if (number < 0 || !tb_trace_enter(t))
        return;
    struct tb_trace_posix *p = begin(t, number);
    const struct kind *k = &kinds[access];
    double *times = p->record.times;
    if (offset == TB_TRACE_HERE)
        offset = p->offset;
    tb_trace_segment(t, TB_TRACE_POSIX, number, access, offset, (int64_t)n, time);
    count_place(p, access, offset, (int64_t)n);
    count_transfer(p, access, buf, (int64_t)n);
    tb_trace_note_first_last(&times[k->first], &times[k->last], time);
    tb_trace_note_longest(&times[k->longest], &p->record.counters[k->longest_size], (int64_t)n, time);
    tb_trace_add_time(&times[k->time], &p->until[access], time);
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

/* A flush counts as writing. */
void tb_trace_sync(tb_trace *t, int fd, bool data_only, struct tb_trace_time time)
{
    int number = t ? tb_trace_of_fd(t, fd) : -1;
    if (number < 0 || !tb_trace_enter(t))
        return;
    struct tb_trace_posix *p = begin(t, number);
    p->record.counters[data_only ? POSIX_FDSYNCS : POSIX_FSYNCS]++;
    tb_trace_add_time(&p->record.times[POSIX_F_WRITE_TIME], &p->until[TB_TRACE_WRITE], time);
    end(p);
    tb_trace_leave();
}

void tb_trace_map(tb_trace *t, int fd)
{
    int number = t ? tb_trace_of_fd(t, fd) : -1;
    if (number < 0 || !tb_trace_enter(t))
        return;
    struct tb_trace_posix *p = begin(t, number);
    p->record.counters[POSIX_MMAPS]++;
    end(p);
    tb_trace_leave();
}

void tb_trace_stat(tb_trace *t, int fd, const char *path, struct tb_trace_time time)
{
    if (!t || (!path && tb_trace_of_fd(t, fd) < 0) || !tb_trace_enter(t))
        return;
    count_meta(t, path ? tb_trace_find(t, TB_TRACE_POSIX, path) : tb_trace_of_fd(t, fd), POSIX_STATS, time);
    tb_trace_leave();
}

/* Of a file that was used before; the time is the source's alone, the target says whose name it took. */
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
