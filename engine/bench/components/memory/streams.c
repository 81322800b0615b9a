/*
 * tb-components-streams SYSTEM: fwrite of various sizes by an unmodified program.
 *
 * Each operation is one fwrite of 64 bytes to 16 KiB to a stream that begins again after
 * 64 MiB.  `files` is a file in $TMPDIR: the page cache as it is, or the engine where this
 * program runs under the adapter.  The names of allocators are a stream in
 * memory of malloc: each transfer of the C library is copied into a piece of its own, which
 * is the least that any buffer of writes does.  All bytes are read again and compared.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/job.h"
#include "memory/allocator.h"

#define LENGTH (64l << 20)
#define PERIOD 65521 /* a prime: the bytes at two offsets are equal only where their distance is a multiple */
#define LARGEST 16384
#define MAX_PIECES (LENGTH / 64 + 1)

static const size_t sizes[] = {64, 256, 1024, 4096, LARGEST};

struct piece {
    char *bytes;
    size_t n;
};

/* A stream in memory. */
struct pieces {
    struct piece *list;
    long n, read;
    size_t read_in; /* of the piece `read` */
};

struct load {
    FILE *stream;
    struct pieces pieces;
    char path[TB_JOB_FOLDER + 16];
    long at, end; /* offset in the stream; the furthest that it ever had */
    uint64_t random;
    char pattern[PERIOD + LARGEST];
};

/* Fewer bytes than were given are an error to the C library: fwrite reports it. */
static ssize_t write_piece(void *cookie, const char *from, size_t n)
{
    struct pieces *p = cookie;
    struct piece *new = &p->list[p->n];
    new->bytes = p->n < MAX_PIECES ? malloc(n) : NULL;
    if (!new->bytes)
        return 0;
    memcpy(new->bytes, from, n);
    new->n = n;
    p->n++;
    return (ssize_t)n;
}

/* At most the rest of one piece: the C library asks again for more. */
static ssize_t read_piece(void *cookie, char *to, size_t n)
{
    struct pieces *p = cookie;
    if (p->read == p->n)
        return 0;
    const struct piece *from = &p->list[p->read];
    size_t take = from->n - p->read_in < n ? from->n - p->read_in : n;
    memcpy(to, from->bytes + p->read_in, take);
    p->read_in += take;
    if (p->read_in == from->n) {
        p->read++;
        p->read_in = 0;
    }
    return (ssize_t)take;
}

/* To write from the start is to free all; to read from the start (n kept) is asked for by offset 0 after the last write. */
static int to_start(void *cookie, off64_t *offset, int whence)
{
    struct pieces *p = cookie;
    if (whence != SEEK_SET || *offset != 0)
        return -1;
    p->read = 0;
    p->read_in = 0;
    return 0;
}

static void free_all(struct pieces *p)
{
    for (long i = 0; i < p->n; i++)
        free(p->list[i].bytes);
    p->n = 0;
}

static uint64_t next_random(struct load *l)
{
    l->random ^= l->random << 13;
    l->random ^= l->random >> 7;
    l->random ^= l->random << 17;
    return l->random >> 32;
}

/* The first part once more at its end, so that a piece of any size can be taken from any place. */
static void fill_pattern(struct load *l)
{
    for (int i = 0; i < PERIOD + LARGEST; i++)
        l->pattern[i] = i < PERIOD ? (char)next_random(l) : l->pattern[i - PERIOD];
}

static void open_stream(struct tb_job *job, struct load *l)
{
    static const cookie_io_functions_t in_memory = {read_piece, write_piece, to_start, NULL};
    if (strcmp(job->system, "files") == 0) {
        snprintf(l->path, sizeof(l->path), "%s/stream.%d", job->folder, job->rank);
        l->stream = fopen(l->path, "w+");
    } else {
        l->pieces.list = calloc(MAX_PIECES, sizeof(*l->pieces.list));
        l->stream = l->pieces.list ? fopencookie(&l->pieces, "w+", in_memory) : NULL;
    }
    if (!l->stream)
        tb_job_fail(job, "cannot open a stream %s: %s", l->path, strerror(errno));
}

/* Freeing the old stream is a part of the time: a program that writes again and again pays for it, too. */
static void begin_anew(struct tb_job *job, struct load *l)
{
    if (fseek(l->stream, 0, SEEK_SET) != 0)
        tb_job_fail(job, "cannot go to the start: %s", strerror(errno));
    free_all(&l->pieces);
    l->at = 0;
}

/* The mix of sizes is random and the same in every run. */
static void write_some(struct tb_job *job, void *arg, long from, long to)
{
    struct load *l = arg;
    for (long i = from; i < to; i++) {
        size_t n = sizes[next_random(l) % (sizeof(sizes) / sizeof(sizes[0]))];
        if (l->at + (long)n > LENGTH)
            begin_anew(job, l);
        if (fwrite(l->pattern + l->at % PERIOD, 1, n, l->stream) != n)
            tb_job_fail(job, "a write of %zu bytes at %ld failed: %s", n, l->at, strerror(errno));
        l->at += (long)n;
        l->end = l->at > l->end ? l->at : l->end;
    }
}

/* A stream in memory has only what was written since it began again. */
static void read_all(struct tb_job *job, void *arg, long from, long to)
{
    static char bytes[LARGEST];
    struct load *l = arg;
    long end = l->pieces.list ? l->at : l->end;
    (void)from;
    (void)to;
    if (fseek(l->stream, 0, SEEK_SET) != 0)
        tb_job_fail(job, "cannot go to the start: %s", strerror(errno));
    for (long at = 0; at < end;) {
        size_t n = end - at < LARGEST ? (size_t)(end - at) : LARGEST;
        if (fread(bytes, 1, n, l->stream) != n)
            tb_job_fail(job, "the stream ends before byte %ld of %ld", at + (long)n, end);
        if (memcmp(bytes, l->pattern + at % PERIOD, n) != 0)
            tb_job_fail(job, "other bytes than were written at %ld", at);
        at += (long)n;
    }
}

static void work(struct tb_job *job)
{
    static struct load l;
    l.random = UINT64_C(88172645463325252) + (uint64_t)job->rank;
    fill_pattern(&l);
    open_stream(job, &l);
    tb_job_untimed(job, write_some, &l, job->operations / TB_PARTS);
    tb_job_timed(job, "fwrite", write_some, &l, job->operations, NULL);
    tb_job_untimed(job, read_all, &l, 0);
    if (fclose(l.stream) != 0)
        tb_job_fail(job, "close: %s", strerror(errno));
    free_all(&l.pieces);
    free(l.pieces.list);
}

static int start(struct tb_job *job)
{
    (void)job;
    return 0;
}

static void stop(struct tb_job *job)
{
    (void)job;
}

int main(int argc, char **argv)
{
    static const char *const systems[] = {"files", TB_ALLOCATORS, NULL};
    static const struct tb_job_of streams = {systems, 0, tb_allocator_choose, start, work, stop};
    return tb_job_main(argc, argv, &streams);
}
