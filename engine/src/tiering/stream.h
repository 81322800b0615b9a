/*
 * Streams: readers that the daemon reads ahead of.
 *
 * Each process watches the reads of its descriptions. Three that follow each other, or
 * that are equally far apart, are a pattern. When one of them misses, it becomes a stream:
 * an entry in the region that says which file, how far apart, and where the reader is. The
 * daemon (tiering/prefetch.c) keeps a window ahead of that place. A reader that comes to
 * what is just being fetched waits for it instead of reading it a second time.
 *
 * What a process knows of its descriptions is its own: a child starts with a copy.
 */
#ifndef TB_STREAM_H
#define TB_STREAM_H

#include "flush/backing.h"

/* What a process knows of one description. */
struct tb_reader {
    _Atomic uint64_t start, end, stride; /* of the last read; stride 0: reads follow each other */
    _Atomic uint32_t run;                /* steps of that stride */
    _Atomic uint32_t stream, serial;     /* its stream + 1, 0 none; and which use of the entry */
    _Atomic uint32_t hint;
    _Atomic uint64_t hint_from, hint_to; /* where `once` and `keep` hold */
};

/* A description was opened; its file's name gives the first hint. */
void tb_reader_open(tb_engine *e, uint32_t open, const char *path);
/* Its last descriptor of this process is closed. */
void tb_reader_close(tb_engine *e, uint32_t open);
/* The hint that it was given for a byte. */
enum tb_hint tb_reader_hint(const tb_engine *e, uint32_t open, uint64_t offset);
/* Around a read: what is known of it goes into the target; then what it tells is noted. */
void tb_reader_before(struct tb_target *t, uint32_t open, uint64_t n, uint64_t offset);
void tb_reader_after(const struct tb_target *t, uint32_t open, uint64_t n, uint64_t offset);

/* Is nothing but the pattern to be noted of a reader that finds its bytes in buffers? It has no stream, and nothing is to be cooled. */
static inline bool tb_reader_is_plain(const tb_engine *e, uint32_t open)
{
    const struct tb_reader *r = &e->readers[open];
    return !atomic_load_explicit(&r->stream, memory_order_relaxed) && atomic_load_explicit(&r->hint, memory_order_relaxed) != TB_HINT_ONCE;
}

/* Note the pattern. Which step of it the read is; 0: of none. */
static inline uint32_t tb_reader_note(struct tb_reader *r, uint64_t n, uint64_t offset)
{
    uint64_t start = atomic_load_explicit(&r->start, memory_order_relaxed), end = atomic_load_explicit(&r->end, memory_order_relaxed);
    uint32_t before = atomic_load_explicit(&r->run, memory_order_relaxed);
    bool forward = end != UINT64_MAX && offset >= end;
    uint64_t stride = !forward || offset == end ? 0 : offset - start;
    uint32_t run = !forward ? 0 : before && stride == atomic_load_explicit(&r->stride, memory_order_relaxed) ? before + 1 : 1;
    atomic_store_explicit(&r->start, offset, memory_order_relaxed);
    atomic_store_explicit(&r->end, offset + n, memory_order_relaxed);
    atomic_store_explicit(&r->stride, stride, memory_order_relaxed);
    atomic_store_explicit(&r->run, run, memory_order_relaxed);
    return run;
}

/* Open a stream: `n_pieces` of `length` bytes, `stride` apart; TB_NONE where the table is full. */
uint32_t tb_stream_open(tb_engine *e, uint32_t file, uint64_t offset, uint64_t length, uint64_t stride, uint64_t end);
void tb_stream_close(tb_engine *e, uint32_t stream);

/* The hint that the configuration gives a path. */
enum tb_hint tb_hint_of(const tb_engine *e, const char *path);

#endif
