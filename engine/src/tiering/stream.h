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

/* Open a stream: `n_pieces` of `length` bytes, `stride` apart; TB_NONE where the table is full. */
uint32_t tb_stream_open(tb_engine *e, uint32_t file, uint64_t offset, uint64_t length, uint64_t stride, uint64_t end);
void tb_stream_close(tb_engine *e, uint32_t stream);

/* The hint that the configuration gives a path. */
enum tb_hint tb_hint_of(const tb_engine *e, const char *path);

#endif
