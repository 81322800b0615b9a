/*
 * Is there an order in which one file, worked on by one call at a time, would
 * have answered as several saw it?  Each call then took effect at one instant
 * between its begin and its end (Herlihy and Wing's linearizability).
 *
 * The file is a size, one offset that all share, and cells of equal length; every
 * call begins and ends at a border of cells.  A cell that was written holds a
 * value that no other cell of any write has, so a read says which write it saw.
 * Value 0 is a cell of zeros: a hole, or what a new length left.
 */
#ifndef TB_HISTORY_CHECK_H
#define TB_HISTORY_CHECK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define HISTORY_WORKERS 16u
#define HISTORY_PIECE 32u       /* cells of one call */
#define HISTORY_TORN UINT32_MAX /* the value of a cell with bytes of several writes, or of none */

enum history_kind {
    HISTORY_WRITE,    /* n cells at `at`, values `value`, `value` + 1 ... */
    HISTORY_APPEND,   /* n cells where the file ends */
    HISTORY_READ,     /* asked for n cells at `at`, got `result` of them */
    HISTORY_CUT,      /* the length is `at` from now on */
    HISTORY_SIZE,     /* the length was `result` */
    HISTORY_SEEK,     /* the shared offset is `at` from now on */
    HISTORY_TELL,     /* the shared offset was `result` */
    HISTORY_WRITE_ON, /* as WRITE at the shared offset, which moves after it */
    HISTORY_READ_ON,  /* as READ */
    HISTORY_KINDS
};

struct history_call {
    uint64_t begin, end; /* of one clock */
    enum history_kind kind;
    uint32_t worker; /* makes one call after the other; the next begins later than this one ends */
    uint32_t at, n, value, result;
    uint32_t got; /* READ: where in `values` what it read begins */
};

/* What the file keeps less than that; all zeros: nothing. */
enum history_end {
    HISTORY_END_AT_ONCE,  /* where a read ends was seen at the same instant as its cells */
    HISTORY_END_APART,    /* at another one */
    HISTORY_END_MEANWHILE /* the file ended there or before, at one instant of it */
};

struct history_limits {
    uint32_t split;      /* a call across this cell is two, the part before it first; 0: none */
    uint32_t read_part;  /* a read is a read of each so many cells, in any order; 0: of all */
    uint32_t write_part; /* a write is one of each so many cells, the first part first */
    bool turns;          /* while one write is in its parts, no other begins, and no cut */
    bool torn;           /* a cell that is torn says nothing */
    enum history_end end;
};

struct history {
    uint32_t n_cells; /* the file never has more */
    uint32_t size;    /* at first, all zeros */
    struct history_limits limits;
    const struct history_call *calls;
    uint32_t n_calls;
    const uint32_t *values;
};

enum history_verdict { HISTORY_POSSIBLE, HISTORY_IMPOSSIBLE, HISTORY_UNDECIDED };

struct history_finding {
    enum history_verdict verdict;
    uint32_t call;    /* IMPOSSIBLE: the first that has no place once it has returned; UNDECIDED: how far it came */
    uint32_t configs; /* the most that had to be kept at a time */
};

struct history_finding history_check(const struct history *h);

/* The call, those that overlapped it, and the latest before that had to do with its cells. */
void history_show(FILE *out, const struct history *h, uint32_t call);

#endif
