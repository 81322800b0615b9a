/*
 * The streams of a mover: each takes items, copies them, and, while it copies the next ones,
 * makes them safe, names them, and writes what became of them to the log. What fails is tried
 * again after a pause that doubles each time.
 */
#ifndef TB_STAGE_STREAMS_H
#define TB_STAGE_STREAMS_H

#include <pthread.h>
#include <sys/queue.h>

#include "stage/items.h"
#include "stage/copy/carry.h"
#include "stage/copy/waiters.h"

#define TB_MOST_STREAMS 64

struct tb_stream;

struct tb_streams {
    struct tb_carries *moves;
    struct tb_items *items;
    struct tb_waiters waiters;
    _Atomic bool waits; /* for the storage, as the last batch did */
    pthread_mutex_t large_mutex;
    LIST_HEAD(, tb_large) large; /* files of several pieces that are being copied */
    unsigned n;
    struct tb_stream *stream[TB_MOST_STREAMS];
};

/* 0 or -errno with none running. */
int tb_streams_begin(struct tb_streams *streams, struct tb_carries *moves, struct tb_items *items);
/* How far the large files are goes to the log, so a waiting process sees it grow. By any thread. */
void tb_streams_tell_large(struct tb_streams *streams);
/* When all items are settled, or after `stop`. */
void tb_streams_end(struct tb_streams *streams);

#endif
