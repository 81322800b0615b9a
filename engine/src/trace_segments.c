/*
 * Every transfer with its times.  A file's transfers of one kind stand in chunks,
 * each twice as large as the one before, so that a file of three transfers costs
 * little and one of a million costs a chunk every 2048.
 */
#include "trace_records.h"

#define FIRST_ROOM 16u
#define LARGEST_ROOM 2048u

static struct tb_trace_chunk *chunk_at(struct tb_trace_file *f, uint32_t at)
{
    return (struct tb_trace_chunk *)(f->segments + at);
}

/* Where a chunk of `room` segments may stand, or 0: no room. */
static uint32_t take_place(struct tb_trace *t, struct tb_trace_file *f, uint32_t room)
{
    uint32_t bytes = (uint32_t)(sizeof(struct tb_trace_chunk) + room * sizeof(struct tb_dxt_segment)), at = 0;
    tb_trace_take(&t->lock);
    uint32_t from = (f->segments_used + 15) & ~15u;
    if (tb_trace_room(t, TB_TRACE_AREA_SEGMENTS, (uint64_t)from + bytes)) {
        at = from;
        f->segments_used = from + bytes;
    }
    tb_trace_drop(&t->lock);
    return at;
}

static struct tb_trace_chunk *make_chunk(struct tb_trace *t, enum tb_trace_module module, int number, enum tb_trace_access access)
{
    struct tb_trace_slot *slot = tb_trace_slot_of(t->file, module, number);
    uint32_t last = slot->chunk[access];
    uint32_t room = last ? 2 * chunk_at(t->file, last)->room : FIRST_ROOM;
    if (room > LARGEST_ROOM)
        room = LARGEST_ROOM;
    uint32_t at = take_place(t, t->file, room);
    if (!at)
        return NULL;
    struct tb_trace_chunk *c = chunk_at(t->file, at);
    c->module = (uint16_t)module;
    c->access = (uint16_t)access;
    c->file = (uint32_t)number;
    atomic_thread_fence(memory_order_release);
    c->room = room; /* 0: not made yet */
    slot->chunk[access] = at;
    return c;
}

void tb_trace_segment(struct tb_trace *t, enum tb_trace_module module, int number, enum tb_trace_access access, int64_t offset,
                      int64_t length, struct tb_trace_time time)
{
    struct tb_trace_slot *slot = tb_trace_slot_of(t->file, module, number);
    struct tb_trace_chunk *c = slot->chunk[access] ? chunk_at(t->file, slot->chunk[access]) : NULL;
    if (!c || c->count == c->room)
        c = make_chunk(t, module, number, access);
    if (!c) {
        t->file->dropped_segments[module]++;
        return;
    }
    c->segment[c->count] = (struct tb_dxt_segment){offset, length, time.start, time.end};
    atomic_signal_fence(memory_order_release); /* a process that is killed here has whole segments only */
    c->count++;
}
