/*
 * The streams of a mover: each takes items, copies them, and, while it copies the next ones,
 * makes them safe, names them, and writes what became of them to the log. What fails is tried
 * again after a pause that doubles each time.
 */
#ifndef TB_STAGE_STREAMS_H
#define TB_STAGE_STREAMS_H

#include <pthread.h>

#include "stage/items.h"
#include "stage/copy/carry.h"

#define TB_MOST_STREAMS 64

struct tb_stream;

struct tb_streams {
    struct tb_carries *moves;
    struct tb_items *items;
    unsigned n;
    struct tb_stream *stream[TB_MOST_STREAMS];
};

/* 0 or -errno with none running. */
int tb_streams_begin(struct tb_streams *streams, struct tb_carries *moves, struct tb_items *items);
/* When all items are settled, or after `stop`. */
void tb_streams_end(struct tb_streams *streams);

#endif
