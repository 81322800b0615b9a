/*
 * What a process did to its files, recorded while it runs: counters as Darshan defines
 * them and every transfer with its times.
 *
 * A trace has two sides. The application side is what the program asked for; it is
 * recorded above the engine (adapters/trace). The storage side is what the engine asked of
 * the PFS and of the tiers' directories; it is a layer of every place's chain. `tierctl
 * run --trace` makes a folder and names it in TIERBENCH_TRACE. Each process keeps its
 * records in files of its own there, mapped and shared, so that nothing is lost when it is
 * killed. After the command tierctl makes one Darshan log of each side.
 *
 * Rules
 *   times    are seconds since the start of the job, as tb_trace_now says
 *   memory   is bounded: 4096 files of each module, 1 MiB of names, 8 MiB of
 *            transfers; what no longer fits is counted and the log says so
 *   threads  every function may be called by any thread; one that interrupts
 *            itself (a signal handler) leaves the interrupting call out, counted
 *   errors   none: a trace that fails never makes the program fail, nor changes errno
 *   NULL     as `trace` does nothing
 */
#ifndef TIERBENCH_TRACE_H
#define TIERBENCH_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

typedef struct tb_trace tb_trace;

enum tb_trace_side { TB_TRACE_APPLICATION, TB_TRACE_STORAGE };
enum tb_trace_access { TB_TRACE_WRITE, TB_TRACE_READ };

/* When a call began and when it was back. */
struct tb_trace_time {
    double start, end;
};

/*
 * This process's trace of a side: NULL where TIERBENCH_TRACE names no folder of a
 * job.  Made at the first call, goes on in children by fork, lives as long as the
 * process.
 */
tb_trace *tb_trace_of(enum tb_trace_side side);

/*
 * Seconds since the start of the job, 0 without a trace: by the time-stamp counter where it
 * can be believed, else by CLOCK_MONOTONIC.  Inline, because each call is looked at twice.
 */
struct tb_trace_clock {
    uint64_t start_ticks;
    double seconds_a_tick; /* 0: not by the counter */
};
extern struct tb_trace_clock tb_trace_clock;
double tb_trace_now_by_kernel(void);
static inline double tb_trace_now(void)
{
#if defined(__x86_64__)
    if (tb_trace_clock.seconds_a_tick > 0)
        return (double)(int64_t)(__builtin_ia32_rdtsc() - tb_trace_clock.start_ticks) * tb_trace_clock.seconds_a_tick;
#endif
    return tb_trace_now_by_kernel();
}

/* A launcher of MPI says that this process is a rank, or belongs to one. */
bool tb_trace_is_rank(const tb_trace *trace);

/*
 * How the process leaves. EXITS (exit, any other _exit, or exec): its records are
 * complete. QUITS (_exit between MPI_Init and MPI_Finalize, which is how MPI_Abort ends a
 * rank): they end without having been finished. GOES_ON: an exit that was announced did
 * not happen, for example a failed exec.
 */
enum tb_trace_end { TB_TRACE_GOES_ON, TB_TRACE_EXITS, TB_TRACE_QUITS };
void tb_trace_ends(tb_trace *trace, enum tb_trace_end how);

/*
 * Descriptors.  `path` as the program named it; paths outside the job's prefixes
 * and in the folders that Darshan leaves out (/usr, /etc, /proc ...) are not
 * recorded, nor are later calls on their descriptors.
 */
void tb_trace_open(tb_trace *trace, int fd, const char *path, mode_t mode, struct tb_trace_time t);
void tb_trace_dup(tb_trace *trace, int fd, int made, struct tb_trace_time t);
/*
 * Call tb_trace_closing before close(fd), while the number still means this file; pass its
 * result to tb_trace_close after it.
 */
int tb_trace_closing(tb_trace *trace, int fd);
void tb_trace_close(tb_trace *trace, int closing, struct tb_trace_time t);
/* These were closed by other code, or mean something else from now on. */
void tb_trace_forget(tb_trace *trace, unsigned first, unsigned last);

#define TB_TRACE_HERE (-1) /* at the file's own offset */
/* `buf` is looked at for its alignment only. */
void tb_trace_transfer(tb_trace *trace, int fd, enum tb_trace_access access, int64_t offset, const void *buf, size_t n,
                       struct tb_trace_time t);
void tb_trace_seek(tb_trace *trace, int fd, int64_t offset, struct tb_trace_time t);
void tb_trace_sync(tb_trace *trace, int fd, bool data_only, struct tb_trace_time t);
void tb_trace_map(tb_trace *trace, int fd, size_t bytes);
/* Of a name, or with NULL of a descriptor. */
void tb_trace_stat(tb_trace *trace, int fd, const char *path, struct tb_trace_time t);
void tb_trace_rename(tb_trace *trace, const char *from, const char *to, struct tb_trace_time t);
/* A file's name is gone.  Darshan has no counter of it: only how many there were, and when, is kept. */
void tb_trace_remove(tb_trace *trace, const char *path, struct tb_trace_time t);

/* Streams.  Without a path: a stream on the file of `fd`. */
void tb_trace_stream_open(tb_trace *trace, const void *stream, const char *path, int fd, struct tb_trace_time t);
int tb_trace_stream_closing(tb_trace *trace, const void *stream);
void tb_trace_stream_close(tb_trace *trace, int closing, struct tb_trace_time t);
void tb_trace_stream_transfer(tb_trace *trace, const void *stream, enum tb_trace_access access, size_t n, struct tb_trace_time t);
void tb_trace_stream_flush(tb_trace *trace, const void *stream, struct tb_trace_time t);
void tb_trace_stream_seek(tb_trace *trace, const void *stream, int64_t offset, struct tb_trace_time t);
/* The program asked for the stream's descriptor: its file is one of descriptors too. */
void tb_trace_stream_fileno(tb_trace *trace, const void *stream, int fd, struct tb_trace_time t);
/* Is it recorded? For calls that must look before and after what they do. */
bool tb_trace_stream_is_known(tb_trace *trace, const void *stream);

/* Calls of MPI-IO; `path` absolute, `times` of CLOCK_MONOTONIC. */
enum tb_trace_mpi_call {
    TB_TRACE_MPI_OPEN,
    TB_TRACE_MPI_CLOSE,
    TB_TRACE_MPI_READ,
    TB_TRACE_MPI_WRITE,
    TB_TRACE_MPI_SYNC,
    TB_TRACE_MPI_VIEW,
    TB_TRACE_MPI_HINT
};
enum tb_trace_mpi_way { TB_TRACE_MPI_INDEPENDENT, TB_TRACE_MPI_COLLECTIVE, TB_TRACE_MPI_SPLIT, TB_TRACE_MPI_NONBLOCKING };
struct tb_trace_mpi {
    enum tb_trace_mpi_call call;
    enum tb_trace_mpi_way way; /* of open, read and write */
    const char *path;
    int amode;      /* of open */
    bool hints;     /* open and view: an MPI_Info came with it */
    int64_t offset; /* of read and write; -1: not known */
    uint64_t bytes;
    struct tb_trace_time times;
};
void tb_trace_mpi(tb_trace *trace, const struct tb_trace_mpi *event);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif
#endif
