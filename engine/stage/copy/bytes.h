/*
 * The bytes of one open file into another, with their checksum.
 *
 * A large file is a row of pieces that several streams take in turn; each piece has a
 * checksum of its own. Holes stay holes. What was written is read back at once and compared
 * with what was read; with `verify: stored` the caller asks once more after the fsync, with
 * the pages dropped from this node's cache.
 */
#ifndef TB_STAGE_BYTES_H
#define TB_STAGE_BYTES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "stage/copy/rate.h"

#define TB_PIECE (64ull << 20)

/* Beside -errno, and no numbers of the system's: a server's ESTALE is a failure, and no change of the source. */
#define TB_BYTES_SHORTER (-10001) /* the source became shorter while it was read */
#define TB_BYTES_DIFFER (-10002)  /* what was read back is not what was written */
#define TB_BYTES_STOPPED (-10003) /* the mover was told to stop */

struct tb_bytes {
    int in, out;
    uint64_t size, n_pieces;
    bool sparse;
    struct tb_rate *rate;
    const atomic_bool *stop;
    uint64_t *sum; /* of each piece, XXH3 with 64 bits */
    uint64_t one;  /* the sum where there is one piece */
    _Atomic uint64_t next, copied;
    _Atomic int error;
};

/* `out` is new and empty. 0 or -errno. */
int tb_bytes_begin(struct tb_bytes *bytes, int in, int out, const struct stat *st, struct tb_rate *rate, const atomic_bool *stop);
/* Takes pieces until none is left: by any number of threads. Failures are in `error`. */
void tb_bytes_work(struct tb_bytes *bytes);
/* Are the bytes of `out`, from the storage, those that were read? 0, TB_BYTES_DIFFER, TB_BYTES_STOPPED or -errno. */
int tb_bytes_check_stored(struct tb_bytes *bytes);
/* The file's: its XXH3; with several pieces the XXH3 of theirs in order. */
uint64_t tb_bytes_sum(const struct tb_bytes *bytes);
void tb_bytes_end(struct tb_bytes *bytes);

/* Have two open files the same bytes? 1, 0, TB_BYTES_STOPPED or -errno. */
int tb_bytes_equal(int a, int b, const atomic_bool *stop);

#endif
