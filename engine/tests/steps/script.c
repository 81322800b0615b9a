#include "script.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/single_threaded.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_SIZE (1u << 21)
#define BLOCK 4096u
#define PIECE 65536u

enum kind { OPEN, WRITE, FSYNC, CHURN, CUT, CLOSE, FLUSH, RENAME, UNLINK, RENAME_DIRECTORY }; /* CHURN: write and fsync, many times */
enum { A, B, C, D, FILL, FILES };

struct operation {
    enum kind kind;
    int file;
    unsigned offset, length;
    const char *to; /* RENAME: the new name, of a file that OVER has, or of none */
    int over;
};

#define NOBODY (-1)
static const char *const names[FILES] = {"a", "b", "dir/c", "d", SCRIPT_FILL};

static const struct operation script[] = {
    {OPEN, A, 0, 0, NULL, NOBODY},
    {OPEN, B, 0, 0, NULL, NOBODY},
    {OPEN, C, 0, 0, NULL, NOBODY},
    {OPEN, D, 0, 0, NULL, NOBODY},
    /* new buffers of both sizes, grown, and one in pieces that are no single interval */
    {WRITE, A, 100, 3000, NULL, NOBODY},
    {WRITE, A, 3000, 5000, NULL, NOBODY},
    {WRITE, A, 2 * PIECE, PIECE, NULL, NOBODY},
    {WRITE, A, 4 * PIECE + 100, 9000, NULL, NOBODY},
    {WRITE, B, 0, 3 * PIECE, NULL, NOBODY},
    {WRITE, C, 0, 20000, NULL, NOBODY},
    {WRITE, D, 5, 70000, NULL, NOBODY},
    /* in place */
    {WRITE, D, 70, 500, NULL, NOBODY},
    /* records; copies of the buffers that they refer to; records of the copies, or of what was written to them */
    {FSYNC, A, 0, 0, NULL, NOBODY},
    {WRITE, A, 2 * PIECE + 500, 700, NULL, NOBODY},
    {WRITE, A, 200, 100, NULL, NOBODY},
    {FSYNC, A, 0, 0, NULL, NOBODY},
    {FSYNC, B, 0, 0, NULL, NOBODY},
    {FSYNC, C, 0, 0, NULL, NOBODY},
    {WRITE, A, 2 * PIECE, 3 * BLOCK, NULL, NOBODY},
    {WRITE, B, PIECE + 10, 10, NULL, NOBODY},
    {WRITE, B, PIECE + 6 * BLOCK, 50, NULL, NOBODY},
    {WRITE, B, PIECE + 12 * BLOCK + 9, 60, NULL, NOBODY},
    /* names change, with and without a file in the way */
    {RENAME, A, 0, 0, "a2", NOBODY},
    {RENAME_DIRECTORY, C, 0, 0, "dir2/c", NOBODY},
    {RENAME, B, 0, 0, "d", D},
    {FSYNC, B, 0, 0, NULL, NOBODY},
    /* the tiers run full: what a record refers to is written to all the same */
    {OPEN, FILL, 0, 0, NULL, NOBODY},
    {WRITE, FILL, 0, MAX_SIZE, NULL, NOBODY},
    {WRITE, A, 2 * PIECE + 2000, 900, NULL, NOBODY},
    {WRITE, A, 2 * PIECE + 50000, 900, NULL, NOBODY},
    {WRITE, A, 300, 1000, NULL, NOBODY},
    {WRITE, C, 3000, 500, NULL, NOBODY},
    {FSYNC, C, 0, 0, NULL, NOBODY},
    {CLOSE, FILL, 0, 0, NULL, NOBODY},
    {FSYNC, A, 0, 0, NULL, NOBODY},
    /* flushed and clean, dirty again in places, clean again, reclaimed, cut */
    {FLUSH, FILL, 0, 0, NULL, NOBODY},
    {CHURN, C, 1000, 9000, NULL, NOBODY},
    {CLOSE, B, 0, 0, NULL, NOBODY},
    {CLOSE, A, 0, 0, NULL, NOBODY},
    {CLOSE, C, 0, 0, NULL, NOBODY},
    {CLOSE, D, 0, 0, NULL, NOBODY},
    {FLUSH, FILL, 0, 0, NULL, NOBODY},
    {OPEN, A, 0, 0, NULL, NOBODY},
    {OPEN, B, 0, 0, NULL, NOBODY},
    {OPEN, C, 0, 0, NULL, NOBODY},
    {WRITE, B, PIECE + 10, 10, NULL, NOBODY},
    {WRITE, B, PIECE + 6 * BLOCK, 50, NULL, NOBODY},
    {WRITE, B, PIECE + 12 * BLOCK + 9, 60, NULL, NOBODY},
    {CLOSE, B, 0, 0, NULL, NOBODY},
    {FLUSH, B, 0, 0, NULL, NOBODY},
    {OPEN, B, 0, 0, NULL, NOBODY},
    {WRITE, B, 2 * PIECE + 10, 10, NULL, NOBODY},
    {WRITE, B, 2 * PIECE + 6 * BLOCK, 50, NULL, NOBODY},
    {FSYNC, B, 0, 0, NULL, NOBODY},
    {WRITE, A, 5 * PIECE, 2 * PIECE, NULL, NOBODY},
    {CUT, FILL, 0, 100, NULL, NOBODY},
    {WRITE, C, 3000, 500, NULL, NOBODY},
    {WRITE, B, 0, 100, NULL, NOBODY},
    {FSYNC, B, 0, 0, NULL, NOBODY},
    {CUT, B, 0, PIECE + 3, NULL, NOBODY},
    {WRITE, B, PIECE, 400, NULL, NOBODY},
    {CLOSE, C, 0, 0, NULL, NOBODY},
    {FLUSH, C, 0, 0, NULL, NOBODY},
    {CUT, A, 0, 4 * PIECE + 500, NULL, NOBODY},
    {CLOSE, A, 0, 0, NULL, NOBODY},
    {UNLINK, FILL, 0, 0, NULL, NOBODY},
    {UNLINK, B, 0, 0, NULL, NOBODY},
    {CLOSE, B, 0, 0, NULL, NOBODY},
};
#define OPERATIONS ((int)(sizeof(script) / sizeof(script[0])))

static unsigned char byte_of(int number, unsigned at)
{
    unsigned x = (unsigned)(number + 1) * 2654435761u ^ at * 40503u ^ at >> 7;
    return (unsigned char)(1 + (x >> 11) % 255); /* never 0, which a hole is */
}

static const char *path(const char *root, const char *name)
{
    static char out[2][600];
    static int turn;
    char *p = out[turn++ % 2];
    snprintf(p, sizeof(out[0]), "%s/%s", root, name);
    return p;
}

/* The names of all files after `n` operations; NULL: none. */
static void names_after(int n, const char *now[FILES])
{
    memcpy(now, names, sizeof(names));
    for (int i = 0; i < n; i++) {
        const struct operation *o = &script[i];
        if (o->kind == UNLINK)
            now[o->file] = NULL;
        if (o->kind != RENAME && o->kind != RENAME_DIRECTORY)
            continue;
        if (o->over != NOBODY)
            now[o->over] = NULL;
        now[o->file] = o->to;
    }
}

static int write_some(struct tb_io *io, int fd, int number)
{
    const struct operation *o = &script[number];
    unsigned char *bytes = malloc(o->length);
    for (unsigned i = 0; i < o->length; i++)
        bytes[i] = byte_of(number, o->offset + i);
    ssize_t w = TB_IO(io, pwrite, fd, bytes, o->length, o->offset);
    free(bytes);
    return w == (ssize_t)o->length ? 0 : -1;
}

static int churn(struct tb_io *io, int fd, int number)
{
    int rc = 0;
    for (int i = 0; i < 40 && !rc; i++)
        rc = write_some(io, fd, number) || TB_IO(io, fsync, fd, false);
    return rc;
}

static int run_one(struct tb_io *io, const char *root, int number, int *fd, void (*flush)(void))
{
    const struct operation *o = &script[number];
    const char *now[FILES];
    names_after(number, now);
    switch (o->kind) {
    case OPEN: fd[o->file] = TB_IO(io, open, path(root, now[o->file]), O_RDWR | O_CREAT, 0600); return fd[o->file] < 0;
    case WRITE: return write_some(io, fd[o->file], number);
    case CHURN: return churn(io, fd[o->file], number);
    case FLUSH: flush(); return 0;
    case FSYNC: return TB_IO(io, fsync, fd[o->file], false);
    case CUT: return o->file == FILL ? TB_IO(io, truncate, path(root, now[FILL]), o->length) : TB_IO(io, ftruncate, fd[o->file], o->length);
    case CLOSE: return TB_IO(io, close, fd[o->file]);
    case RENAME: return TB_IO(io, rename, path(root, now[o->file]), path(root, o->to), 0);
    case RENAME_DIRECTORY: return TB_IO(io, rename, path(root, "dir"), path(root, "dir2"), 0);
    case UNLINK: return TB_IO(io, unlink, path(root, now[o->file]), 0);
    }
    return -1;
}

/* By turns as a program with one thread and as one with several does it: they close in different ways. */
int script_run(struct tb_io *io, const char *root, void (*flush)(void), _Atomic int *done)
{
    int fd[FILES];
    mkdir(path(root, "dir"), 0700);
    for (int i = 0; i < OPERATIONS; i++, *done = i) {
        __libc_single_threaded = i % 2;
        if (run_one(io, root, i, fd, flush))
            return i + 1;
    }
    return 0;
}

/* What may be found in a range of a file: the last promised operation on it, or one after that; -1 a hole. */
struct range {
    unsigned lo, hi;
    int allowed[OPERATIONS + 1], n;
};

static bool is_on(const struct operation *o, int file, unsigned at)
{
    bool writes = (o->kind == WRITE || o->kind == CHURN) && at >= o->offset && at < o->offset + o->length;
    return o->file == file && (writes || (o->kind == CUT && at >= o->length));
}

/* From `lo` to where another operation begins or ends. */
static struct range range_at(int file, unsigned lo, int promised, int begun)
{
    struct range r = {.lo = lo, .hi = MAX_SIZE, .allowed = {-1}, .n = 1};
    for (int i = 0; i < begun; i++) {
        const struct operation *o = &script[i];
        unsigned edge[] = {o->kind == CUT ? o->length : o->offset, o->offset + o->length};
        for (int k = 0; k < 2; k++)
            if (o->file == file && edge[k] > lo && edge[k] < r.hi)
                r.hi = edge[k];
        if (!is_on(o, file, lo))
            continue;
        if (i < promised)
            r.n = 0; /* what was before is gone */
        r.allowed[r.n++] = o->kind == CUT ? -1 : i;
    }
    return r;
}

static bool is_allowed(const struct range *r, unsigned at, unsigned char found)
{
    for (int i = r->n; i-- > 0;)
        if (found == (r->allowed[i] < 0 ? 0 : byte_of(r->allowed[i], at)))
            return true;
    return false;
}

/* How many operations count as promised for a file: up to its last fsync before `done`, or all of them. */
static int promised_for(int file, int done, bool crash)
{
    int promised = 0;
    for (int i = 0; i < done; i++)
        if (!crash || (script[i].file == file && (script[i].kind == FSYNC || script[i].kind == CHURN)))
            promised = i + 1;
    return promised;
}

static const char *check_bytes(int fd, int file, int done, bool crash)
{
    static unsigned char bytes[MAX_SIZE + 1];
    static char what[200];
    int promised = promised_for(file, done, crash), begun = done < OPERATIONS ? done + 1 : done;
    memset(bytes, 0, sizeof(bytes));
    ssize_t n = pread(fd, bytes, sizeof(bytes), 0);
    for (unsigned at = 0; n >= 0 && at < MAX_SIZE;)
        for (struct range r = range_at(file, at, promised, begun); at < r.hi; at++)
            if (!is_allowed(&r, at, bytes[at])) {
                snprintf(what, sizeof(what), "file %s: byte %u is %u; %d operations returned, %d are promised", names[file], at, bytes[at],
                         done, promised);
                return what;
            }
    return n < 0 ? "cannot read" : NULL;
}

/* The file by the name it had before or after the operation that was begun. */
static const char *check_file(const char *root, int file, int done, bool crash)
{
    const char *before[FILES], *after[FILES];
    static char what[200];
    bool exists = false;
    for (int i = 0; i < done; i++)
        exists |= script[i].kind == OPEN && script[i].file == file;
    if (!exists)
        return NULL;
    names_after(done, before);
    names_after(done < OPERATIONS ? done + 1 : done, after);
    int fd = before[file] ? open(path(root, before[file]), O_RDONLY) : -1;
    if (fd < 0 && after[file])
        fd = open(path(root, after[file]), O_RDONLY);
    if (fd < 0 && (!before[file] || !after[file]))
        return NULL; /* unlinked, or just then */
    if (fd < 0) {
        snprintf(what, sizeof(what), "file %s is gone after %d operations", names[file], done);
        return what;
    }
    const char *wrong = after[file] || !before[file] ? check_bytes(fd, file, done, crash) : NULL;
    close(fd);
    return wrong;
}

const char *script_check(const char *root, int done, bool crash)
{
    const char *wrong = NULL;
    for (int file = 0; file < FILES && !wrong; file++)
        wrong = check_file(root, file, done, crash);
    return wrong;
}
