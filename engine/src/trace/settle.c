/*
 * Counters of transfers, made later than the transfers themselves. A transfer is only
 * written down as a segment. Its counters are made when something depends on them: a sync,
 * an access after an open or a close, or the log, for which tierctl counts what the
 * process had not counted, however it ended. A transfer without room for its segment is
 * counted at once.
 */
#include "trace/settle.h"

#include <assert.h>

#include "trace/records.h"

/* Where an access of each kind counts. */
struct kind {
    enum tb_posix_counter ops, bytes, max_byte, consecutive, sequential, bins, longest_size;
    enum tb_posix_time first, last, time, longest;
};
static const struct kind writes = {POSIX_WRITES,      POSIX_BYTES_WRITTEN,    POSIX_MAX_BYTE_WRITTEN,    POSIX_CONSEC_WRITES,
                                   POSIX_SEQ_WRITES,  POSIX_SIZE_WRITE_0_100, POSIX_MAX_WRITE_TIME_SIZE, POSIX_F_WRITE_START,
                                   POSIX_F_WRITE_END, POSIX_F_WRITE_TIME,     POSIX_F_MAX_WRITE_TIME};
static const struct kind reads = {POSIX_READS,      POSIX_BYTES_READ,      POSIX_MAX_BYTE_READ,      POSIX_CONSEC_READS,
                                  POSIX_SEQ_READS,  POSIX_SIZE_READ_0_100, POSIX_MAX_READ_TIME_SIZE, POSIX_F_READ_START,
                                  POSIX_F_READ_END, POSIX_F_READ_TIME,     POSIX_F_MAX_READ_TIME};

/* A division takes longer than all the rest of this file, and block sizes are powers of two. */
static inline bool is_multiple(int64_t offset, int64_t of)
{
    assert(of > 0);
    return (of & (of - 1)) == 0 ? (offset & (of - 1)) == 0 : offset % of == 0;
}

/*
 * "Sequential" is anywhere after the last byte, "consecutive" directly after it. In a file
 * just opened, byte 0 is neither.
 */
static inline void count_places(struct tb_trace_posix *p, const struct kind *k, int64_t *last_byte, const struct tb_dxt_segment *s,
                                uint32_t n)
{
    int64_t *c = p->record.counters, alignment = c[POSIX_FILE_ALIGNMENT];
    int64_t last = *last_byte, highest = c[k->max_byte], sequential = 0, consecutive = 0, misaligned = 0;
    for (uint32_t i = 0; i < n; i++) {
        int64_t offset = s[i].offset;
        int64_t gap = tb_trace_sum(offset, ~last); /* offset - last - 1 */
        tb_trace_count_common(&p->strides, gap & -(int64_t)((offset > last) & (last != 0)), 1);
        sequential += offset > last;
        consecutive += gap == 0;
        misaligned += alignment > 0 && !is_multiple(offset, alignment);
        last = tb_trace_sum(tb_trace_sum(offset, s[i].length), -1);
        highest = last > highest ? last : highest;
    }
    *last_byte = last;
    c[k->max_byte] = highest;
    tb_trace_add(&c[k->sequential], sequential);
    tb_trace_add(&c[k->consecutive], consecutive);
    tb_trace_add(&c[POSIX_FILE_NOT_ALIGNED], misaligned);
}

/* Sizes come in runs, so a bin is found once a run. */
static inline void count_sizes(struct tb_trace_posix *p, const struct kind *k, const struct tb_dxt_segment *s, uint32_t n)
{
    int64_t *c = p->record.counters, bytes = 0;
    for (uint32_t i = 0, run; i < n; i += run) {
        for (run = 1; i + run < n && s[i + run].length == s[i].length; run++)
            ;
        tb_trace_count_size(&c[k->bins], s[i].length, run);
        tb_trace_count_common(&p->sizes, s[i].length, run);
        tb_trace_add(&bytes, (int64_t)((uint64_t)s[i].length * run));
    }
    tb_trace_add(&c[k->ops], n);
    tb_trace_add(&c[k->bytes], bytes);
}

/* First and last times are of all accesses; the sum counts overlapping accesses once. */
static inline void count_times(struct tb_trace_posix *p, const struct kind *k, double *until, const struct tb_dxt_segment *s, uint32_t n)
{
    double *times = p->record.times, sum = times[k->time], longest = times[k->longest], upto = *until;
    assert(n > 0);
    int64_t longest_size = p->record.counters[k->longest_size];
    for (uint32_t i = 0; i < n; i++) {
        struct tb_trace_time time = {s[i].start, s[i].end};
        tb_trace_add_time(&sum, &upto, time);
        tb_trace_note_longest(&longest, &longest_size, s[i].length, time);
        if (times[k->first] == 0 || times[k->first] > time.start)
            times[k->first] = time.start;
    }
    times[k->last] = s[n - 1].end;
    times[k->time] = sum;
    times[k->longest] = longest;
    p->record.counters[k->longest_size] = longest_size;
    *until = upto;
}

/* Three walks over the same segments: places, sizes and times depend on nothing of each other. */
static inline void count(struct tb_trace_posix *p, const struct kind *k, enum tb_trace_access access, const struct tb_dxt_segment *s,
                         uint32_t n)
{
    count_places(p, k, &p->last_byte[access], s, n);
    count_sizes(p, k, s, n);
    count_times(p, k, &p->until[access], s, n);
}

void tb_trace_count_transfers(struct tb_trace_posix *p, enum tb_trace_access access, const struct tb_dxt_segment *s, uint32_t n)
{
    if (access == TB_TRACE_READ)
        count(p, &reads, TB_TRACE_READ, s, n);
    else
        count(p, &writes, TB_TRACE_WRITE, s, n);
}

static struct tb_trace_chunk *chunk_at(struct tb_trace_file *f, uint32_t at)
{
    return (struct tb_trace_chunk *)(f->segments + at);
}

/* Chunks are in the order in which they were made. A reader of a killed process's file must check every place. */
static bool is_chunk(const struct tb_trace_file *f, uint32_t at, enum tb_trace_access access)
{
    if (at % 8 || at + sizeof(struct tb_trace_chunk) > TB_TRACE_SEGMENTS)
        return false;
    const struct tb_trace_chunk *c = chunk_at((struct tb_trace_file *)f, at);
    return c->access == access && c->settled <= c->count && c->count <= c->room &&
           at + sizeof(*c) + (uint64_t)c->room * sizeof(c->segment[0]) <= TB_TRACE_SEGMENTS;
}

/* A chain that leads backwards is damaged, and ends the walk. */
static void settle_access(struct tb_trace_file *f, struct tb_trace_posix *p, enum tb_trace_access access)
{
    uint32_t before = 0;
    for (uint32_t at = p->unsettled[access]; at > before && is_chunk(f, at, access); at = chunk_at(f, at)->next) {
        struct tb_trace_chunk *c = chunk_at(f, at);
        if (c->settled < c->count)
            tb_trace_count_transfers(p, access, &c->segment[c->settled], c->count - c->settled);
        c->settled = c->count;
        p->unsettled[access] = before = at;
    }
}

/* Locked by the record, or called by tierctl for a process that has ended. */
void tb_trace_settle(struct tb_trace_file *f, struct tb_trace_posix *p)
{
    settle_access(f, p, TB_TRACE_WRITE);
    settle_access(f, p, TB_TRACE_READ);
}

/* What the counters would say if all were settled: for a forked child, which must not count the parent's transfers. */
int64_t tb_trace_last_byte(struct tb_trace_file *f, const struct tb_trace_posix *p, enum tb_trace_access access)
{
    const struct tb_trace_chunk *c = tb_trace_chunk_of(f, &p->slot, access);
    if (p->anew)
        return 0;
    if (!c || c->settled == c->count)
        return p->last_byte[access];
    return c->segment[c->count - 1].offset + c->segment[c->count - 1].length - 1;
}
