/*
 * The streams of a mover: threads that take items, move them, and write what became of them
 * to the log. What fails is tried again after a pause that doubles each time.
 */
#ifndef TB_STAGE_STREAMS_H
#define TB_STAGE_STREAMS_H

#include <pthread.h>

#include "stage/items.h"
#include "stage/copy/carry.h"

#define TB_MOST_STREAMS 64

struct tb_streams {
    struct tb_carries *moves;
    struct tb_items *items;
    unsigned n;
    pthread_t thread[TB_MOST_STREAMS];
};

/* 0 or -errno with none running. */
int tb_streams_begin(struct tb_streams *streams, struct tb_carries *moves, struct tb_items *items);
/* When all items are settled, or after `stop`. */
void tb_streams_end(struct tb_streams *streams);

#endif
