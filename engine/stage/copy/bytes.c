/*
 * Pieces are copied in chunks that stay in the processor's cache between the read, the
 * checksum, the write and the comparison, so that each byte comes from memory once.
 */
#include "stage/copy/bytes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>
#if __has_include(<xxh_x86dispatch.h>) /* installed where the library chooses by the processor */
#include <xxh_x86dispatch.h>
#endif

#include "base/scratch.h"

#define CHUNK (64u << 10)
#define BEGUN (8u << 20) /* what the storage is told to write at once */

static uint64_t at_most(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Whole, or -errno; TB_BYTES_SHORTER where the file ends before. */
static int read_whole(int fd, char *to, size_t n, uint64_t at)
{
    for (size_t done = 0; done < n;) {
        ssize_t got = pread(fd, to + done, n - done, (off_t)(at + done));
        if (got == 0)
            return TB_BYTES_SHORTER;
        if (got < 0 && errno != EINTR)
            return -errno;
        done += got > 0 ? (size_t)got : 0;
    }
    return 0;
}

static int write_whole(int fd, const char *from, size_t n, uint64_t at)
{
    for (size_t done = 0; done < n;) {
        ssize_t put = pwrite(fd, from + done, n - done, (off_t)(at + done));
        if (put < 0 && errno != EINTR)
            return -errno;
        done += put > 0 ? (size_t)put : 0;
    }
    return 0;
}

/*
 * A file of several pieces gets its length first, so that pieces can be written in any order. A sparse one does, too,
 * because a hole at its end is never written.
 */
int tb_bytes_begin(struct tb_bytes *b, int in, int out, const struct stat *st, struct tb_rate *rate, const atomic_bool *stop)
{
    b->in = in;
    b->out = out;
    b->size = (uint64_t)st->st_size;
    b->sparse = (uint64_t)st->st_blocks * 512 < b->size;
    b->rate = rate;
    b->stop = stop;
    b->n_pieces = b->size ? (b->size + TB_PIECE - 1) / TB_PIECE : 1;
    b->sum = b->n_pieces > 1 ? calloc(b->n_pieces, sizeof(*b->sum)) : &b->one;
    b->next = b->copied = 0;
    b->error = b->sum ? 0 : -ENOMEM;
    if (!b->error && (b->sparse || b->n_pieces > 1) && ftruncate(out, st->st_size))
        b->error = -errno;
    return b->error;
}

/*
 * Where the next bytes are from `at` on, at most `end`; what is before them is a hole. ENXIO says that only a hole
 * follows. A file system that cannot tell holes is read as data.
 */
static uint64_t next_data(const struct tb_bytes *b, uint64_t at, uint64_t end)
{
    off_t data = b->sparse ? lseek(b->in, (off_t)at, SEEK_DATA) : (off_t)at;
    if (data < 0)
        return errno == ENXIO ? end : at;
    return at_most((uint64_t)data, end);
}

static uint64_t next_hole(const struct tb_bytes *b, uint64_t at, uint64_t end)
{
    off_t hole = b->sparse ? lseek(b->in, (off_t)at, SEEK_HOLE) : (off_t)end;
    return hole < 0 ? end : at_most((uint64_t)hole, end);
}

/* A hole counts as the zeros that a reader sees, so the sum is the file's whatever its holes are. */
static void add_zeros(XXH3_state_t *sum, uint64_t n)
{
    static const char zeros[CHUNK];
    for (uint64_t part; n; n -= part) {
        part = at_most(n, CHUNK);
        XXH3_64bits_update(sum, zeros, (size_t)part);
    }
}

/* The storage begins to write while the rest is copied: so the fsync waits for the last part alone. */
static void begin_to_write(const struct tb_bytes *b, uint64_t at, uint64_t end)
{
    if (at / BEGUN != end / BEGUN)
        sync_file_range(b->out, (off_t)(at - at % BEGUN), BEGUN, SYNC_FILE_RANGE_WRITE);
}

/*
 * `at` to `end` are data. Read back from the page cache at once. That finds what memory or a file system on the way did
 * wrong; what the device did, only `verify: stored` finds.
 */
static int copy_data(struct tb_bytes *b, uint64_t at, uint64_t end, XXH3_state_t *sum)
{
    char *from = tb_scratch_bytes(2 * CHUNK);
    int rc = from ? 0 : -ENOMEM;
    for (size_t n; at < end && !rc; at += n) {
        char *back = from + CHUNK;
        n = (size_t)at_most(CHUNK, end - at);
        if (*b->stop)
            return TB_BYTES_STOPPED;
        tb_rate_take(b->rate, n, b->stop);
        rc = read_whole(b->in, from, n, at);
        if (rc)
            break;
        XXH3_64bits_update(sum, from, n);
        rc = write_whole(b->out, from, n, at);
        if (!rc)
            rc = read_whole(b->out, back, n, at);
        if (rc == TB_BYTES_SHORTER || (!rc && memcmp(from, back, n) != 0))
            rc = TB_BYTES_DIFFER;
        begin_to_write(b, at, at + n);
        b->copied += n;
    }
    return rc;
}

static int copy_piece(struct tb_bytes *b, uint64_t i)
{
    uint64_t at = i * TB_PIECE, end = at_most(at + TB_PIECE, b->size);
    XXH3_state_t *sum = XXH3_createState();
    int rc = sum ? 0 : -ENOMEM;
    if (!rc)
        XXH3_64bits_reset(sum);
    while (at < end && !rc) {
        uint64_t data = next_data(b, at, end), hole = data < end ? next_hole(b, data, end) : end;
        add_zeros(sum, data - at);
        b->copied += data - at;
        rc = copy_data(b, data, hole, sum);
        at = hole;
    }
    if (!rc)
        b->sum[i] = XXH3_64bits_digest(sum);
    XXH3_freeState(sum);
    return rc;
}

/* The first error stays, and ends all threads after their piece. */
void tb_bytes_work(struct tb_bytes *b)
{
    for (uint64_t i; !b->error && (i = b->next++) < b->n_pieces;) {
        int rc = copy_piece(b, i), none = 0;
        if (rc)
            atomic_compare_exchange_strong(&b->error, &none, rc);
    }
}

static int sum_of(int fd, uint64_t at, uint64_t end, const atomic_bool *stop, uint64_t *out)
{
    char *chunk = tb_scratch_bytes(CHUNK);
    XXH3_state_t *sum = XXH3_createState();
    int rc = chunk && sum ? 0 : -ENOMEM;
    if (!rc)
        XXH3_64bits_reset(sum);
    for (size_t n; at < end && !rc; at += n) {
        n = (size_t)at_most(CHUNK, end - at);
        rc = *stop ? TB_BYTES_STOPPED : read_whole(fd, chunk, n, at);
        if (!rc)
            XXH3_64bits_update(sum, chunk, n);
    }
    if (!rc)
        *out = XXH3_64bits_digest(sum);
    XXH3_freeState(sum);
    return rc;
}

/*
 * Dropping the cached pages is a wish to the kernel, which it grants for pages that are clean, as they are after the
 * fsync.
 */
int tb_bytes_check_stored(struct tb_bytes *b)
{
    int rc = 0;
    posix_fadvise(b->out, 0, 0, POSIX_FADV_DONTNEED);
    for (uint64_t i = 0, sum; i < b->n_pieces && !rc; i++) {
        rc = sum_of(b->out, i * TB_PIECE, at_most((i + 1) * TB_PIECE, b->size), b->stop, &sum);
        if (rc == TB_BYTES_SHORTER || (!rc && sum != b->sum[i]))
            rc = TB_BYTES_DIFFER;
    }
    return rc;
}

uint64_t tb_bytes_sum(const struct tb_bytes *b)
{
    return b->n_pieces > 1 ? XXH3_64bits(b->sum, b->n_pieces * sizeof(*b->sum)) : b->one;
}

void tb_bytes_end(struct tb_bytes *b)
{
    if (b->sum != &b->one)
        free(b->sum);
    b->sum = NULL;
}

/* By their sums: each file is read once, in its own order, and two chunks never have to be held side by side. */
int tb_bytes_equal(int a, int b, const atomic_bool *stop)
{
    struct stat sa, sb;
    uint64_t x = 0, y = 0;
    if (fstat(a, &sa) || fstat(b, &sb))
        return -errno;
    if (sa.st_size != sb.st_size)
        return 0;
    int rc = sum_of(a, 0, (uint64_t)sa.st_size, stop, &x);
    if (!rc)
        rc = sum_of(b, 0, (uint64_t)sb.st_size, stop, &y);
    return rc ? rc : x == y;
}
