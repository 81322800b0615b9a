/*
 * Records of a Darshan log as they are in the file: log version 3.41, modules POSIX 4,
 * MPI-IO 3, STDIO 2, DXT 1 and 2. Names and order are Darshan's. What each counter means
 * is in docs/testing/trace.md and where it is counted.
 */
#ifndef TB_TRACE_FORMAT_H
#define TB_TRACE_FORMAT_H

#include <stdint.h>

/* clang-format off: as Darshan orders them */
enum tb_posix_counter {
    POSIX_OPENS,
    POSIX_FILENOS,
    POSIX_DUPS,
    POSIX_READS,
    POSIX_WRITES,
    POSIX_SEEKS,
    POSIX_STATS,
    POSIX_MMAPS,
    POSIX_FSYNCS,
    POSIX_FDSYNCS,
    POSIX_RENAME_SOURCES,
    POSIX_RENAME_TARGETS,
    POSIX_RENAMED_FROM,
    POSIX_MODE,
    POSIX_BYTES_READ,
    POSIX_BYTES_WRITTEN,
    POSIX_MAX_BYTE_READ,
    POSIX_MAX_BYTE_WRITTEN,
    POSIX_CONSEC_READS,
    POSIX_CONSEC_WRITES,
    POSIX_SEQ_READS,
    POSIX_SEQ_WRITES,
    POSIX_RW_SWITCHES,
    POSIX_MEM_NOT_ALIGNED,
    POSIX_MEM_ALIGNMENT,
    POSIX_FILE_NOT_ALIGNED,
    POSIX_FILE_ALIGNMENT,
    POSIX_MAX_READ_TIME_SIZE,
    POSIX_MAX_WRITE_TIME_SIZE,
    POSIX_SIZE_READ_0_100,
    POSIX_SIZE_WRITE_0_100 = POSIX_SIZE_READ_0_100 + 10,
    POSIX_STRIDE1_STRIDE = POSIX_SIZE_WRITE_0_100 + 10,
    POSIX_STRIDE1_COUNT = POSIX_STRIDE1_STRIDE + 4,
    POSIX_ACCESS1_ACCESS = POSIX_STRIDE1_COUNT + 4,
    POSIX_ACCESS1_COUNT = POSIX_ACCESS1_ACCESS + 4,
    POSIX_FASTEST_RANK = POSIX_ACCESS1_COUNT + 4,
    POSIX_FASTEST_RANK_BYTES,
    POSIX_SLOWEST_RANK,
    POSIX_SLOWEST_RANK_BYTES,
    POSIX_COUNTERS
};
/* clang-format on */

/* clang-format off: as Darshan orders them */
enum tb_posix_time {
    POSIX_F_OPEN_START,
    POSIX_F_READ_START,
    POSIX_F_WRITE_START,
    POSIX_F_CLOSE_START,
    POSIX_F_OPEN_END,
    POSIX_F_READ_END,
    POSIX_F_WRITE_END,
    POSIX_F_CLOSE_END,
    POSIX_F_READ_TIME,
    POSIX_F_WRITE_TIME,
    POSIX_F_META_TIME,
    POSIX_F_MAX_READ_TIME,
    POSIX_F_MAX_WRITE_TIME,
    POSIX_F_FASTEST_RANK_TIME,
    POSIX_F_SLOWEST_RANK_TIME,
    POSIX_F_VARIANCE_RANK_TIME,
    POSIX_F_VARIANCE_RANK_BYTES,
    POSIX_TIMES
};
/* clang-format on */

/* clang-format off: as Darshan orders them */
enum tb_stdio_counter {
    STDIO_OPENS,
    STDIO_FDOPENS,
    STDIO_READS,
    STDIO_WRITES,
    STDIO_SEEKS,
    STDIO_FLUSHES,
    STDIO_BYTES_WRITTEN,
    STDIO_BYTES_READ,
    STDIO_MAX_BYTE_READ,
    STDIO_MAX_BYTE_WRITTEN,
    STDIO_FASTEST_RANK,
    STDIO_FASTEST_RANK_BYTES,
    STDIO_SLOWEST_RANK,
    STDIO_SLOWEST_RANK_BYTES,
    STDIO_COUNTERS
};
/* clang-format on */

/* clang-format off: as Darshan orders them */
enum tb_stdio_time {
    STDIO_F_META_TIME,
    STDIO_F_WRITE_TIME,
    STDIO_F_READ_TIME,
    STDIO_F_OPEN_START,
    STDIO_F_CLOSE_START,
    STDIO_F_WRITE_START,
    STDIO_F_READ_START,
    STDIO_F_OPEN_END,
    STDIO_F_CLOSE_END,
    STDIO_F_WRITE_END,
    STDIO_F_READ_END,
    STDIO_F_FASTEST_RANK_TIME,
    STDIO_F_SLOWEST_RANK_TIME,
    STDIO_F_VARIANCE_RANK_TIME,
    STDIO_F_VARIANCE_RANK_BYTES,
    STDIO_TIMES
};
/* clang-format on */

/* clang-format off: as Darshan orders them */
enum tb_mpiio_counter {
    MPIIO_INDEP_OPENS,
    MPIIO_COLL_OPENS,
    MPIIO_INDEP_READS,
    MPIIO_INDEP_WRITES,
    MPIIO_COLL_READS,
    MPIIO_COLL_WRITES,
    MPIIO_SPLIT_READS,
    MPIIO_SPLIT_WRITES,
    MPIIO_NB_READS,
    MPIIO_NB_WRITES,
    MPIIO_SYNCS,
    MPIIO_HINTS,
    MPIIO_VIEWS,
    MPIIO_MODE,
    MPIIO_BYTES_READ,
    MPIIO_BYTES_WRITTEN,
    MPIIO_RW_SWITCHES,
    MPIIO_MAX_READ_TIME_SIZE,
    MPIIO_MAX_WRITE_TIME_SIZE,
    MPIIO_SIZE_READ_0_100,
    MPIIO_SIZE_WRITE_0_100 = MPIIO_SIZE_READ_0_100 + 10,
    MPIIO_ACCESS1_ACCESS = MPIIO_SIZE_WRITE_0_100 + 10,
    MPIIO_ACCESS1_COUNT = MPIIO_ACCESS1_ACCESS + 4,
    MPIIO_FASTEST_RANK = MPIIO_ACCESS1_COUNT + 4,
    MPIIO_FASTEST_RANK_BYTES,
    MPIIO_SLOWEST_RANK,
    MPIIO_SLOWEST_RANK_BYTES,
    MPIIO_COUNTERS
};
/* clang-format on */

/* Times of MPI-IO have the names and the order of POSIX's. */
#define MPIIO_TIMES POSIX_TIMES

#define TB_RECORD(name, n_counters, n_times)          \
    struct name {                                     \
        uint64_t id;                                  \
        int64_t rank; /* -1: of all ranks together */ \
        int64_t counters[n_counters];                 \
        double times[n_times];                        \
    }
TB_RECORD(tb_posix_record, POSIX_COUNTERS, POSIX_TIMES);
TB_RECORD(tb_stdio_record, STDIO_COUNTERS, STDIO_TIMES);
TB_RECORD(tb_mpiio_record, MPIIO_COUNTERS, MPIIO_TIMES);
_Static_assert(sizeof(struct tb_posix_record) == 704, "as in the file");
_Static_assert(sizeof(struct tb_stdio_record) == 248, "as in the file");
_Static_assert(sizeof(struct tb_mpiio_record) == 560, "as in the file");

/* Followed by its segments: writes, then reads. */
struct tb_dxt_record {
    uint64_t id;
    int64_t rank, shared;
    char host[64];
    int64_t writes, reads;
};
_Static_assert(sizeof(struct tb_dxt_record) == 104, "as in the file");

struct tb_dxt_segment {
    int64_t offset, length;
    double start, end;
};

#endif
