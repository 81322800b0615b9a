/*
 * The records of this process: found by descriptor, stream or name, made with
 * their first use, changed under their lock.
 *
 * Lock order: a record's lock, then the lock of what is shared (names, numbers,
 * room).  A thread holds one record's lock at a time.
 */
#ifndef TB_TRACE_RECORDS_H
#define TB_TRACE_RECORDS_H

#include <sys/single_threaded.h>

#include "trace/count.h"
#include "trace/file.h"

#define TB_TRACE_FDS (1 << 20) /* as the kernel allows a process */
#define TB_TRACE_STREAMS 8192u
#define TB_TRACE_INDEX 8192u

enum tb_trace_area { TB_TRACE_AREA_NAMES = TB_TRACE_MODULES, TB_TRACE_AREA_SEGMENTS, TB_TRACE_AREAS }; /* after the modules' */

struct tb_trace_stream {
    _Atomic(const void *) stream;
    uint32_t file; /* record + 1 */
};

struct tb_trace {
    enum tb_trace_side side;
    struct tb_trace_file *_Atomic file; /* mapped; NULL: this process has none */
    _Atomic uint16_t *fds;              /* record + 1 by descriptor */
    const struct tb_trace_job *job;
    char folder[512], path[600];
    _Atomic uint32_t lock;
    uint64_t given[TB_TRACE_AREAS];                   /* bytes of each area that the file system has promised */
    bool full[TB_TRACE_AREAS];                        /* it has no more */
    _Atomic int highest;                              /* no descriptor above has a record */
    uint16_t index[TB_TRACE_MODULES][TB_TRACE_INDEX]; /* record + 1 by id */
    struct tb_trace_stream streams[TB_TRACE_STREAMS];
};

/*
 * 1: this thread is recording, and calls of a signal handler are left out. More: it works
 * on the trace's own files, which are not recorded.
 */
extern _Thread_local int tb_tracing __attribute__((tls_model("initial-exec")));
/* False: it is already, or nothing is traced; a call that is left out is counted. */
__attribute__((cold)) bool tb_trace_enter_again(struct tb_trace *t);
static inline bool tb_trace_enter(struct tb_trace *t)
{
    if (!t || !t->file || tb_tracing)
        return tb_trace_enter_again(t);
    tb_tracing = 1;
    return true;
}
static inline void tb_trace_leave(void)
{
    tb_tracing--;
}

/*
 * A process with one thread waits for no other, and an atomic exchange would wait until
 * all that the program wrote before has left the processor's store buffer.
 */
__attribute__((cold)) void tb_trace_wait(_Atomic uint32_t *lock);
static inline void tb_trace_take(_Atomic uint32_t *lock)
{
    if (__libc_single_threaded)
        atomic_store_explicit(lock, 1, memory_order_relaxed);
    else if (atomic_exchange_explicit(lock, 1, memory_order_acquire))
        tb_trace_wait(lock);
}
static inline void tb_trace_drop(_Atomic uint32_t *lock)
{
    atomic_store_explicit(lock, 0, memory_order_release);
}

static inline void tb_trace_mark(struct tb_trace_slot *slot)
{
    atomic_store_explicit(&slot->active, 1, memory_order_relaxed);
}

/*
 * The record of a name, which is made clean first, made where there is none.  -1: it
 * is not to be recorded, or there is no room, which is counted.
 */
int tb_trace_find(struct tb_trace *t, enum tb_trace_module module, const char *path);
/* Only where there is one. */
int tb_trace_known(struct tb_trace *t, enum tb_trace_module module, const char *path);
/* The same of a name that is clean: that of another record. */
int tb_trace_find_clean(struct tb_trace *t, enum tb_trace_module module, const char *name);

/* One more call on a name, if it is below the job's places. */
void tb_trace_count_name(struct tb_trace *t, enum tb_trace_name_call call, const char *path, struct tb_trace_time time);

struct tb_trace_slot *tb_trace_slot_of(struct tb_trace_file *f, enum tb_trace_module module, int number);
const char *tb_trace_name_of(struct tb_trace_file *f, enum tb_trace_module module, int number);

/*
 * Have the file system promise an area's first bytes: a page it then can't give would
 * end the program.  Under the trace's lock.  False: it is full.
 */
bool tb_trace_room(struct tb_trace *t, int area, uint64_t bytes);

/* The last chunk of a record and an access, or NULL: none yet. */
static inline struct tb_trace_chunk *tb_trace_chunk_of(struct tb_trace_file *f, const struct tb_trace_slot *slot,
                                                       enum tb_trace_access access)
{
    return slot->chunk[access] ? (struct tb_trace_chunk *)(f->segments + slot->chunk[access]) : NULL;
}

/* Field by field: a copy of the whole would wait for the fields' stores. */
static inline void tb_trace_append(struct tb_trace_chunk *c, int64_t offset, int64_t length, struct tb_trace_time time)
{
    struct tb_dxt_segment *s = &c->segment[c->count];
    s->offset = offset;
    s->length = length;
    s->start = time.start;
    s->end = time.end;
    atomic_signal_fence(memory_order_release); /* a process that is killed here has whole segments only */
    c->count++;
}

/* The record of a descriptor, or -1. */
static inline int tb_trace_of_fd(const struct tb_trace *t, int fd)
{
    int number = (unsigned)fd < TB_TRACE_FDS ? (int)atomic_load_explicit(&t->fds[fd], memory_order_relaxed) - 1 : -1;
    return number < (int)TB_TRACE_FILES ? number : -1;
}
#define TB_TRACE_NOT_RECORDED ((int)TB_TRACE_FILES) /* instead of a number: looked at, and without one */
void tb_trace_set_fd(struct tb_trace *t, int fd, int number);
/* A child by fork: what it has open goes on in records of its own file. */
void tb_trace_adopt(struct tb_trace *t, struct tb_trace_file *parent);

#endif
