/*
 * The files that a mover has in hand. A file is in the table once, from when it is enqueued
 * until it is moved or given up; what is closed again while it is moved is moved again.
 */
#ifndef TB_STAGE_ITEMS_H
#define TB_STAGE_ITEMS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "stage/copy/bytes.h"
#include "stage/log/ledger.h"
#include "stage/log/table.h"

struct tb_item {
    const char *source, *destination; /* in `names` */
    struct tb_content content;        /* when it was enqueued last */
    bool is_moving, is_again;         /* closed again since its move began */
    bool was_dequeued;
    uint32_t tries, changes;
    uint64_t not_before; /* tb_now_ns: a pause after a failure */
    TAILQ_ENTRY(tb_item) next;
    char names[];
};

struct tb_items {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct tb_table table;                         /* by source */
    TAILQ_HEAD(tb_item_list, tb_item) held, ready; /* in the order in which they were enqueued */
    struct tb_bytes *shared;                       /* a large file that idle streams may help with */
    unsigned helpers;                              /* that are at it */
    bool is_closed;                                /* streams end */
};

void tb_items_begin(struct tb_items *items);
void tb_items_end(struct tb_items *items);

/* 1: it is new and held until the release, 0: it was there, -ENOMEM. */
int tb_items_add(struct tb_items *items, const char *source, const char *destination, const struct stat *st);
/* It is moved next, where its move has not begun. False: it is not in hand. */
bool tb_items_hasten(struct tb_items *items, const char *source);
/* What is held is ready. */
void tb_items_release(struct tb_items *items);

#define TB_BATCH 64
#define TB_SMALL (1u << 20)

/*
 * Wait for work: the number of items that are to be moved together, all small or one; 0 when
 * there will be none. A stream that waits helps with a large file in that time.
 */
unsigned tb_items_take(struct tb_items *items, struct tb_item *batch[TB_BATCH]);
/* Was it closed again since it was taken? */
bool tb_items_is_again(struct tb_items *items, const struct tb_item *item);
/* It is settled, and freed; false: it was closed anew, so tb_items_again is due. */
bool tb_items_settled(struct tb_items *items, struct tb_item *item);
/* Once more after a pause of so many nanoseconds. */
void tb_items_again(struct tb_items *items, struct tb_item *item, uint64_t pause_ns);
/* Wake streams for items that have paused long enough. */
void tb_items_wake(struct tb_items *items);
/* Streams get nothing more. */
void tb_items_close(struct tb_items *items);
uint64_t tb_items_left(struct tb_items *items);

/* Copy these bytes with the help of idle streams; returns when all pieces are done. */
void tb_items_share(struct tb_items *items, struct tb_bytes *bytes);

#endif
