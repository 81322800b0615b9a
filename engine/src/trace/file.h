/*
 * The folder of a job's trace: what tierctl tells its processes, and what each of them
 * leaves. Both are mapped files, so what a killed process had recorded is there. A reader
 * of them must check every number.
 *
 *   FOLDER/job           struct tb_trace_job, written by tierctl before the first process
 *   FOLDER/SIDE.PID.N    struct tb_trace_file, one a process (and one more after each exec)
 */
#ifndef TB_TRACE_FILE_H
#define TB_TRACE_FILE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "trace/format.h"
#include <tierbench/trace.h>

#define TB_TRACE_MAGIC 0x3165636172746274ull /* "tbtrace1" */
#define TB_TRACE_VARIABLE "TIERBENCH_TRACE"

#define TB_TRACE_FILES 4096u         /* records of a module */
#define TB_TRACE_NAMES (1u << 20)    /* bytes */
#define TB_TRACE_SEGMENTS (8u << 20) /* bytes */
#define TB_TRACE_COMMON 32           /* sizes and strides that are told apart a file */
#define TB_TRACE_MOUNTS 64
#define TB_TRACE_PREFIXES 32
#define TB_TRACE_PATH 1024

struct tb_trace_mount {
    char path[256], type[32];
    int64_t block; /* bytes, what accesses should be aligned to */
};

/* Variables that give a process its rank: those tierctl has itself say nothing about its children. */
enum tb_trace_launcher { TB_TRACE_OPENMPI, TB_TRACE_PMI, TB_TRACE_SLURM, TB_TRACE_LAUNCHERS };
extern const char *const tb_trace_rank_variable[TB_TRACE_LAUNCHERS], *const tb_trace_ranks_variable[TB_TRACE_LAUNCHERS];

struct tb_trace_job {
    uint64_t magic;
    uint64_t start_ns;     /* CLOCK_MONOTONIC: second 0 of every time */
    int64_t start_date_ns; /* CLOCK_REALTIME of the same moment, by which nodes agree on it */
    uint64_t start_ticks;  /* the time-stamp counter at that moment */
    double seconds_a_tick; /* 0: no such counter, or none that can be believed */
    bool stranger[TB_TRACE_LAUNCHERS];
    char slurm_step[16]; /* tierctl's own, "" in a batch script: ranks are in another one */
    uint32_t n_mounts, n_prefixes;
    struct tb_trace_mount mounts[TB_TRACE_MOUNTS];   /* longest path first */
    char prefixes[TB_TRACE_PREFIXES][TB_TRACE_PATH]; /* recorded wherever they are */
};

enum tb_trace_module { TB_TRACE_POSIX, TB_TRACE_STDIO, TB_TRACE_MPIIO, TB_TRACE_MODULES };
/* Calls that went well on names below the job's places, however many files there are records of. */
enum tb_trace_name_call { TB_TRACE_CREATED, TB_TRACE_OPENED, TB_TRACE_LOOKED_AT, TB_TRACE_REMOVED, TB_TRACE_NAME_CALLS };
struct tb_trace_name_calls {
    _Atomic uint64_t count;
    _Atomic double first, last; /* when the first began and the last ended; threads that meet may lose a moment */
};
enum tb_trace_state { TB_TRACE_RUNS, TB_TRACE_ENDED };

/*
 * How often each of the first values came, from 1 to `n`; all others are counted at 0.
 * Found by a hash of their places.
 */
struct tb_trace_common {
    uint32_t n;
    uint8_t place[256];
    int64_t value[1 + TB_TRACE_COMMON];
    uint64_t count[1 + TB_TRACE_COMMON];
};

/* What every module's record has in front. */
struct tb_trace_slot {
    _Atomic uint32_t lock;
    _Atomic uint32_t active; /* something was done to the file in this process */
    uint32_t name;           /* where its name is among the names */
    uint32_t chunk[2];       /* where its last transfers are, by access; 0: none yet */
};

struct tb_trace_posix {
    struct tb_trace_slot slot;
    uint32_t last;         /* 1 + the last access; 0: none yet */
    uint32_t anew;         /* opened or closed since: the next access has no last byte before it */
    uint32_t unsettled[2]; /* by access: the first chunk that may hold transfers which are not counted; 0: none yet */
    int64_t offset;
    int64_t last_byte[2]; /* by access, of what is counted */
    double until[2], meta_until;
    double synced;  /* when the last fsync ended; 0: none */
    int64_t mapped; /* bytes of its mappings */
    struct tb_posix_record record;
    struct tb_trace_common sizes, strides;
};

struct tb_trace_stdio {
    struct tb_trace_slot slot;
    int64_t offset;
    double until[2], meta_until;
    struct tb_stdio_record record;
};

struct tb_trace_mpiio {
    struct tb_trace_slot slot;
    uint32_t last;
    double until[2], meta_until;
    struct tb_mpiio_record record;
    struct tb_trace_common sizes;
};

/* Transfers of one file, one module and one access, in order of time. */
struct tb_trace_chunk {
    uint16_t module, access;
    uint32_t file; /* number of its record */
    uint32_t count, room;
    uint32_t settled; /* POSIX: so many of them are in the record's counters too */
    uint32_t next;    /* where the next chunk is; 0: none yet */
    struct tb_dxt_segment segment[];
};

struct tb_trace_file {
    uint64_t magic, bytes;
    uint32_t side;
    int32_t pid, rank, ranks; /* rank -1: none */
    _Atomic uint32_t state;
    bool forked; /* from the process of that rank */
    double start;
    _Atomic double end; /* where state says so */
    _Atomic uint32_t n[TB_TRACE_MODULES];
    struct tb_trace_name_calls name_calls[TB_TRACE_NAME_CALLS];
    _Atomic uint64_t dropped[TB_TRACE_MODULES]; /* calls on files that no longer fitted */
    _Atomic uint64_t dropped_segments[TB_TRACE_MODULES], dropped_names, interrupted;
    _Atomic uint32_t names_used, segments_used; /* bytes */
    char host[64];
    char command[3000];
    _Alignas(4096) struct tb_trace_posix posix[TB_TRACE_FILES];
    _Alignas(4096) struct tb_trace_stdio stdio[TB_TRACE_FILES];
    _Alignas(4096) struct tb_trace_mpiio mpiio[TB_TRACE_FILES];
    _Alignas(4096) char names[TB_TRACE_NAMES];
    _Alignas(4096) char segments[TB_TRACE_SEGMENTS];
};

#endif
