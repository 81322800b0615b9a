/*
 * What clients and I/O nodes send each other. A request and its answer are one message each: a write's request carries the bytes, a
 * read's answer does, unless they are in memory that both see (memory.c). The fixed part goes before the bytes, which begin on a
 * page, as O_DIRECT asks.
 */
#ifndef TB_MESSAGE_H
#define TB_MESSAGE_H

#include "tb_forge.h"

#include <sched.h>
#include <time.h>

enum tb_tag {
    TB_TAG_CONTROL = 1, /* open, close, ping, end: always received at once */
    TB_TAG_DATA,        /* reads and writes: received where the I/O node has a buffer */
    TB_TAG_PONG,
    TB_TAG_RESULT, /* to rank 0, after the run */
    TB_TAG_ANSWER, /* and the slot that the client waits in */
};

enum tb_kind_of_message { TB_ASK_OPEN, TB_ASK_CLOSE, TB_ASK_WRITE, TB_ASK_READ, TB_PING, TB_END };

/* Numbers go as they are in memory: all ranks run the same program on the same kind of machine. */
struct tb_message {
    uint64_t number; /* of the request; answers repeat it */
    int32_t kind;
    int32_t status; /* of an answer: 0, an open's handle, or -errno */
    int32_t file;
    uint32_t slot;
    int64_t offset;
    uint64_t size;
    uint64_t checksum; /* of the bytes, where `check` is set */
    uint8_t direct, check;
    uint8_t in_place; /* of a read or write: the bytes are in the client's buffer `slot`; of an open's answer: they may be */
    uint8_t unused[13];
};
_Static_assert(sizeof(struct tb_message) == 64, "the fixed part of a message");

/* An open's message goes on with where the client's buffers are, `size` 0: in no memory that another may see; then the path. */
struct tb_seen {
    int64_t process, descriptor;
    uint64_t device, inode, size;
};

/* Room for a message and bytes on pages of their own. */
enum { TB_PAGE = 4096 };
static inline void *tb_room_new(size_t bytes)
{
    return tb_buffer(TB_PAGE + bytes);
}
static inline void *tb_room_data(void *room)
{
    return (char *)room + TB_PAGE;
}
static inline struct tb_message *tb_room_message(void *room)
{
    return (struct tb_message *)((char *)room + TB_PAGE - sizeof(struct tb_message));
}

/*
 * memory.c: room for several messages, which another process on the compute node may see. NULL: there is no such memory, or
 * the client's is not seen from here.
 */
size_t tb_room_size(size_t largest);
void *tb_memory_new(size_t size, struct tb_seen *seen);
void *tb_memory_of(const struct tb_seen *seen);
void tb_memory_free(void *at, const struct tb_seen *seen); /* of tb_memory_new */

/*
 * Between two looks at MPI that found nothing. Other ranks may share the core; after a while even the polls stop being
 * worth it.
 */
enum { TB_PATIENT_POLLS = 20000 };
static inline void tb_rest(int polls)
{
    const struct timespec short_while = {.tv_nsec = 200000};
    if (polls > TB_PATIENT_POLLS)
        nanosleep(&short_while, NULL);
    else
        sched_yield();
}

#endif
