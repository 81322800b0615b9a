/*
 * Every transfer with its times. The transfers of one kind of a file are kept in chunks,
 * each twice as large as the one before, so that a file of three transfers costs little
 * and one of a million costs a chunk every 2048.
 */
#include "trace/segments.h"

#include <assert.h>

#include "trace/records.h"

#define FIRST_ROOM 16u
#define LARGEST_ROOM 2048u

/* Where a chunk of `room` segments can be, or 0: no room. Places grow, so a chain of chunks never leads backwards. */
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

/*
 * `room` is stored last: a chunk of a killed process without it is not read. Then the chain,
 * then the slot: a reader that comes by the chain finds the same chunks as the process.
 */
struct tb_trace_chunk *tb_trace_chunk_more(struct tb_trace *t, enum tb_trace_module module, int number, enum tb_trace_access access)
{
    struct tb_trace_slot *slot = tb_trace_slot_of(t->file, module, number);
    struct tb_trace_chunk *last = tb_trace_chunk_of(t->file, slot, access);
    assert(!last || (last->count == last->room && !last->next));
    uint32_t room = last ? 2 * last->room : FIRST_ROOM;
    if (room > LARGEST_ROOM)
        room = LARGEST_ROOM;
    uint32_t at = take_place(t, t->file, room);
    if (!at) {
        t->file->dropped_segments[module]++;
        return NULL;
    }
    struct tb_trace_chunk *c = (struct tb_trace_chunk *)(t->file->segments + at);
    c->module = (uint16_t)module;
    c->access = (uint16_t)access;
    c->file = (uint32_t)number;
    atomic_thread_fence(memory_order_release);
    c->room = room; /* 0: not made yet */
    if (last)
        last->next = at;
    slot->chunk[access] = at;
    return c;
}
