/*
 * Tierbench engine: buffers I/O in tiers in front of a parallel file system.
 *
 * Words
 *   tier      a place that holds buffers; its medium is `memory` or `directory`
 *   slab      all buffers of one size in one tier
 *   buffer    one fixed-size piece of a slab; holds bytes of one file
 *   region    the one shared-memory segment of an instance: memory tier and all metadata
 *   instance  a running region, by user and name
 *   place     what the chain reaches below the engine: the PFS or a directory tier
 *   flush     copy dirty bytes to the PFS
 *
 * Errors are negative errno values.  Nothing here prints.  Every function is
 * thread safe unless it says otherwise; handles are per process and survive fork.
 */
#ifndef TIERBENCH_ENGINE_H
#define TIERBENCH_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#include <tierbench/io.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

#define TB_MAX_TIERS 8

enum tb_mode {
    TB_MODE_PERSISTENT_ASYNC = 0, /* write-back */
    TB_MODE_PERSISTENT_SYNC,      /* write-through */
    TB_MODE_SCRATCH,              /* never flushed, gone at stop */
    TB_MODE_BYPASS,               /* the chain without the engine */
};

enum tb_fsync {
    TB_FSYNC_TIER = 0, /* an fsynced byte survives a node crash in the journal of a directory tier */
    TB_FSYNC_PFS,      /* an fsynced byte is on the PFS */
    TB_FSYNC_NONE,     /* scratch only: fsync promises nothing */
};

typedef struct tb_engine tb_engine;

/*
 * Attach to the running instance `name` of this user.  `base` is the last layer
 * of every chain and must live as long as the handle.
 * -ENOENT no such instance; -EPROTO another version or layout; -EPERM another
 * user's region; -EUSERS too many processes attached; -ESTALE the region is damaged.
 */
int tb_engine_attach(const char *name, struct tb_io *base, tb_engine **out);

/*
 * Find the instance a program was started for: TIERBENCH_INSTANCE, or the one
 * running instance whose configuration file is TIERBENCH_CONFIG.  Writes the
 * name (NUL-terminated) to `name`.  -ENOENT none, -ENOTUNIQ several.
 */
int tb_engine_find(char *name, size_t size);

/* Close what the handle holds.  The instance goes on.  Not thread safe. */
void tb_engine_detach(tb_engine *engine);

/*
 * Around fork, as pthread_atfork's three handlers, so that the child has an
 * identity and references on the descriptors it inherits before its parent can
 * close them.  In the child no other call may come first.
 */
void tb_engine_atfork_prepare(tb_engine *engine);
void tb_engine_atfork_parent(tb_engine *engine);
void tb_engine_atfork_child(tb_engine *engine);

/*
 * The chain that serves an absolute, normalised path: NULL where the path is
 * under no managed prefix, the engine's chain in the buffered modes, the PFS's
 * chain without the engine in bypass.  Every operation on a path or on a
 * descriptor opened by it goes to the chain returned here.  `mode` may be NULL.
 */
struct tb_io *tb_engine_route(tb_engine *engine, const char *path, enum tb_mode *mode);

/*
 * The one translation of names: where the name `path` really stands.  Equal to
 * `path` except in scratch mode, where the prefix is rewritten to the shadow
 * directory.  Operations of the routed chain translate themselves; this is for
 * calls that are no chain operation (opendir, chmod, readlink ...).
 * Returns the length, or -ENAMETOOLONG.
 */
ssize_t tb_engine_translate(tb_engine *engine, const char *path, char *out, size_t size);

/*
 * Make the file behind `fd` coherent: flush it, then pass every later access of
 * every process through to the backing file until its last descriptor closes.
 * For what buffers cannot serve (mmap, sendfile, inherited descriptors).  The
 * kernel's own offset of `fd` is set to the description's.  0 where `fd` is not
 * buffered; else what the flush returned.
 */
int tb_engine_make_coherent(tb_engine *engine, int fd);

/*
 * Flush dirty bytes: of the file behind `fd`, or of every file where `fd` is -1.
 * Returns the number of files flushed, or the first error; what could not be
 * flushed stays buffered.  Scratch files are left alone.
 */
int tb_engine_flush(tb_engine *engine, int fd);

/* One tier's counters since start; bytes and operations. */
struct tb_tier_stats {
    char name[32];
    uint64_t capacity;    /* bytes of buffers */
    uint64_t used;        /* bytes of buffers that hold something */
    uint64_t dirty;       /* bytes not yet on the PFS */
    uint64_t bytes_in;    /* written into buffers */
    uint64_t bytes_out;   /* read from buffers */
    uint64_t writes;      /* operations that wrote into buffers */
    uint64_t hits;        /* reads served */
    uint64_t moved_in;    /* bytes moved here from another tier */
    uint64_t flushed;     /* bytes flushed from here */
    uint64_t waits;       /* allocations that found no free buffer */
};

struct tb_stats {
    uint32_t n_tiers;
    uint32_t n_files;        /* records in use */
    uint32_t n_dirty_files;
    uint32_t n_errors;       /* files whose last flush failed */
    uint64_t pfs_bytes_written;
    uint64_t pfs_bytes_read; /* misses */
    uint64_t spilled;        /* bytes written straight to the PFS because the tiers were full */
    uint64_t fsyncs;
    struct tb_tier_stats tier[TB_MAX_TIERS];
};

void tb_engine_stats(tb_engine *engine, struct tb_stats *out);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif
#endif
