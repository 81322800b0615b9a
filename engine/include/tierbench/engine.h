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
 * Rules
 *   errors         negative errno values; what a function may return is said with it
 *   units          sizes and offsets are bytes, 64 bits wide; nothing here prints
 *   threads        every function may be called by any thread at any time, except detach and
 *                  the fork handlers; none is async-signal-safe
 *   handles        belong to the process that attached and to its children by fork, where
 *                  the fork handlers were called; exec ends them
 *   descriptors    are real ones of the backing file: use them with the operations of the
 *                  chain that opened them, never with bare read and write
 *   compatibility  symbols carry the version TIERBENCH_1; structures only grow in a new version
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
#define TB_PATH_MAX 1024 /* of a managed path in bytes, NUL included; operations on longer ones give -ENAMETOOLONG */

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

/* How a program will use bytes. */
enum tb_hint {
    TB_HINT_NORMAL = 0, /* nothing is known */
    TB_HINT_SEQUENTIAL, /* read in order: prefetched from the first read on */
    TB_HINT_RANDOM,     /* read in no order: never prefetched */
    TB_HINT_ONCE,       /* not used again: not staged in, the first to be reclaimed */
    TB_HINT_KEEP,       /* used again and again: staged in at the first read, the last to be reclaimed or moved down */
    TB_HINT_WILL_NEED,  /* read soon: prefetched now */
};

typedef struct tb_engine tb_engine;

/*
 * Attach to the running instance `name` of this user, or to one with a daemon that
 * died.  `base` is the last layer of every chain and must live as long as the
 * handle (tb_io_libc() where nothing is interposed).  A process may attach more
 * than once; each handle counts as a client.
 * -ENOENT no such instance; -EPROTO another version or layout; -EPERM another
 * user's region; -EUSERS every client slot (max_clients) is taken; -ESTALE the
 * region is half made or damaged; -EINVAL a variable of the environment is
 * refused; -EBUSY it is being recovered; -EINPROGRESS it is being drained, to be ended; -EXDEV it runs in another PID namespace, where
 * neither process numbers nor the owners of locks mean what they mean here; -EREMCHG in another user or UTS namespace; where
 * TIERBENCH_CONFIG is set, -EREMOTE it runs in another mount namespace, -EOWNERDEAD it was
 * left by a crash and not recovered; -ENODEV its directories in the tiers are gone; -ENOMEM; what opening a tier's files gave.
 * tb_engine_refusal says it in words.
 *
 * Reads the environment, not while another thread changes it: TIERBENCH_MODE, a
 * mode for all managed prefixes of this handle, and in an instance made from a
 * Hermes .conf ADAPTER_MODE, ADAPTER_MODE_INFO and HERMES_*.
 */
int tb_engine_attach(const char *name, struct tb_io *base, tb_engine **out);

/*
 * Called each second of an attach that waits for another process (which registers, or repairs after a killed one), if
 * that process is stopped, or after 8 s of waiting: `whom` names it.  One listener for the process, set before it
 * attaches; NULL: none.
 */
void tb_engine_hear_waits(void (*listener)(const char *whom, double seconds));

/* Why this thread's latest attach failed, in words; of a variable: its value, and what is allowed.  Static. */
const char *tb_engine_refusal(void);

/*
 * Find the instance a program was started for: TIERBENCH_INSTANCE, or the one running
 * instance with the configuration file TIERBENCH_CONFIG, or HERMES_CONF. Writes the name,
 * NUL included, to `name` of `size` bytes (64 hold every name). Reads the environment: not
 * while another thread changes it.
 * -ENOENT none; -ENOTUNIQ several; -ENAMETOOLONG.
 */
int tb_engine_find(char *name, size_t size);

/*
 * The configuration file was written again since the instance started, which goes
 * on with what it read then.  Makes one system call.
 */
bool tb_engine_config_changed(tb_engine *engine);

/*
 * Close what the handle holds and free it.  The instance goes on, and what was
 * written stays buffered.  Not thread safe: no other thread uses the handle or
 * one of its chains now or later.
 */
void tb_engine_detach(tb_engine *engine);

/*
 * A process whose threads call `begins` before each use of the handle and `ends` after it says so by `tells_calls`, once. If it ends
 * while no call is under way, it left nothing half done, and nobody looks through all buffers for that: a shell with many short
 * children would pay for it with each. Calls of one thread are not nested; a fork is made inside one.
 */
void tb_engine_tells_calls(tb_engine *engine);
void tb_engine_call_begins(tb_engine *engine);
void tb_engine_call_ends(tb_engine *engine);
/*
 * For callers that count in line: the counter that both change by plain stores in this thread. A forked child asks again. Put a
 * signal fence between the count and the call. NULL: call them.
 */
_Atomic uint32_t *tb_engine_own_calls(tb_engine *engine);

/*
 * Around fork, as pthread_atfork's three handlers, so that the child has a slot and
 * references on the descriptors it inherits before its parent can close them. In the child
 * no other call may come first. Not thread safe by themselves: prepare takes a lock that
 * parent and child give back, in the thread that forks. A process that never forks, or has
 * only children that exec, needs none of them.
 */
void tb_engine_atfork_prepare(tb_engine *engine);
/*
 * Before prepare, in the same thread: this child is to be as one in another PID namespace. For forks that put it into one, or
 * leave the number of the parent's thread in it, by which locks know their holder (libc's clone does, fork and _Fork don't).
 */
void tb_engine_atfork_leaves(void);
void tb_engine_atfork_parent(tb_engine *engine);
void tb_engine_atfork_child(tb_engine *engine);

/*
 * This process is a child in another PID namespace than the instance's (unshare, then
 * fork).  What it inherited is coherent, so that its descriptors work as the kernel's
 * own; it must use no managed name and call nothing else of this handle but
 * tb_engine_route and tb_engine_shown.
 */
bool tb_engine_is_foreign(tb_engine *engine);

/*
 * In the thread that called fork, if fork failed, after the parent's handler: what was
 * made for the child is given back.
 */
void tb_engine_atfork_failed(tb_engine *engine);
/* Instead of atfork_child, by the caller: process `pid` was made and has executed a program, which inherited what is coherent. */
void tb_engine_spawned(tb_engine *engine, int pid);

/*
 * The chain that serves an absolute, normalised path: NULL where the path is
 * under no managed prefix, the engine's chain of that prefix in the buffered modes, the
 * PFS's chain without the engine in bypass.  Every operation on a path or on a descriptor
 * opened by it goes to the chain returned here for that path, which lives as long as the
 * handle: the operation does not ask again how the path is managed.  rename and link have
 * two paths, see below.  `mode` may be NULL; it is written where the path is managed.
 * Makes no system call, except in scratch prefixes of an instance made from a
 * Hermes .conf, where names that the file system has already are not managed.
 */
struct tb_io *tb_engine_route(tb_engine *engine, const char *path, enum tb_mode *mode);

/*
 * rename and link of two paths, of which at least one is in a buffered mode. The chains are
 * what tb_engine_route gave for each path; NULL: the path is not managed. As operations of
 * a chain they are for two paths of one chain.
 */
int tb_engine_rename(tb_engine *engine, struct tb_io *from_chain, const char *from, struct tb_io *to_chain, const char *to, unsigned flags);
int tb_engine_link(tb_engine *engine, struct tb_io *from_chain, const char *from, struct tb_io *to_chain, const char *to);

/* What a name is wanted for. */
enum tb_name_use {
    TB_NAME_MAKE = 0, /* the name itself: to make, rename or remove it; what has it isn't looked at */
    TB_NAME_LOOK,     /* what it names is looked at, its bytes are read */
    TB_NAME_ENTER,    /* a directory's entries are listed, or names below it used */
    TB_NAME_CHANGE,   /* its permissions or times change */
    TB_NAME_WRITE,    /* its bytes change */
    TB_NAME_EMPTY,    /* its bytes go */
    TB_NAME_USE = 15,
    TB_NAME_NOFOLLOW = 16, /* added: a symlink in the last place is meant itself */
    TB_NAME_STUB = 32,     /* added: the place in the shadow, also of what is only on the PFS */
};

/*
 * The one translation of names: where the absolute name `path` is for that use.
 * Equal to `path` except in scratch mode, where programs see a shadow directory over the
 * PFS. Then it is the name's place in the shadow, or the PFS's own file if it is only
 * looked at; for a use from TB_NAME_CHANGE on a copy is made first. There `path` may hold
 * dots and double slashes, and is walked as the kernel would. `chain` is what
 * tb_engine_route gave for `path`, in a mode other than bypass. Operations of the routed
 * chain translate themselves; this is for calls that are no chain operation (exec,
 * chdir ...). Writes a string of at most `size` bytes, NUL included; returns its
 * length without it.
 * -ENAMETOOLONG; in scratch mode what a walk or a copy gives (-ENOENT, -ENOTDIR, -ELOOP,
 * -EACCES,
 * -ENOSPC ...).
 */
ssize_t tb_engine_translate(struct tb_io *chain, const char *path, unsigned use, char *out, size_t size);

/*
 * The other way: what programs call the place `path`, which the kernel gave (a
 * working directory, a descriptor's name, a symlink's text).  False: as it is.
 * Makes no system call.
 */
bool tb_engine_shown(tb_engine *engine, const char *path, char *out, size_t size);

/* The directory of the places that tb_engine_translate gives in scratch mode, which keeps its name; it need not be there. "": none. */
const char *tb_engine_shadow(const tb_engine *engine);

/* What a directory entry of the kernel's that is a symlink with this text is to programs: DT_LNK, DT_REG, DT_DIR. */
int tb_engine_entry_type(tb_engine *engine, const char *text);

/*
 * With `namespace: deferred`: the deferred names of a directory, which no listing of the
 * kernel has: each ended by a NUL, "" after the last, to be freed; NULL with errno 0 if
 * there is none, or with what kept the engine from listing them.
 * And the one name that listings leave out.
 */
char *tb_engine_waiting(tb_engine *engine, const char *directory);
bool tb_engine_hides(tb_engine *engine, const char *name);

/* Moves whenever a directory was renamed in a managed prefix by any process. */
uint32_t tb_engine_moves(tb_engine *engine);

/*
 * Make the file of `fd` coherent: flush it, then pass every later access of every process
 * through to the backing file until its last descriptor closes. For what buffers cannot
 * serve (mmap, sendfile, inherited descriptors). The kernel's own offset of `fd` is set to
 * the description's. Waits for the PFS.
 * 0 done, or `fd` is not buffered; else the error of the flush, and the file stays
 * buffered as it was.
 */
int tb_engine_make_coherent(tb_engine *engine, int fd);

/*
 * Before the program takes a record lock on `fd`: where other nodes may order their reads and writes by such locks, the file
 * becomes coherent. Returns as tb_engine_make_coherent; with an error the lock is not to be taken.
 */
int tb_engine_before_lock(tb_engine *engine, int fd);

/*
 * Before another file takes the number of `fd` without a close (dup2): an open that asked for nothing but the descriptor
 * asks now which file it is.
 */
void tb_engine_know(tb_engine *engine, int fd);

/*
 * Say how the bytes [offset, offset + length) of the file of `fd` will be used; length 0:
 * to the end of the file. `sequential` and `random` hold for the whole description; `once`
 * and `keep` for what it reads or writes in the range (the latest range counts) and for
 * what buffers hold of it now; `normal` takes a hint back. `will-need` asks the daemon to
 * prefetch the range, as far as there is room for it. A hint is never a promise. Calls by
 * descriptors of the same description in other processes don't see it, except in children
 * that fork later.
 * 0; -EBADF `fd` is not buffered; -EINVAL no such hint; -EAGAIN too many ranges are being
 * prefetched.
 */
int tb_engine_advise(tb_engine *engine, int fd, uint64_t offset, uint64_t length, enum tb_hint hint);

/*
 * Another mode for the one file of `fd` than its prefix has: for every process that has it
 * open now or opens it later, until the last of them closes it. Another process's descriptor
 * counts as open here when it was used for anything, not yet when it was only opened. `persistent-sync` first
 * flushes what is dirty, and waits for the PFS. If the prefix writes through, a file in
 * `persistent-async` is flushed when it is closed, whatever the flush policy. `bypass` is
 * tb_engine_make_coherent.
 * 0, also if it has that mode; -EBADF `fd` is not buffered; -EINVAL no such mode;
 * -EOPNOTSUPP scratch, which is a matter of names, can neither be had for one file nor
 * left; -EBUSY the file passes through already; else the error of the flush.
 */
int tb_engine_set_mode(tb_engine *engine, int fd, enum tb_mode mode);

/*
 * A stronger promise of fsync for the one file of `fd`: `pfs` where the configuration says
 * `tier`. For which processes and how long: as above.
 * 0, also if it has that promise; -EBADF; -EINVAL no such promise; -EPERM it is weaker
 * than the file's;
 * -EOPNOTSUPP scratch promises nothing.
 */
int tb_engine_set_fsync(tb_engine *engine, int fd, enum tb_fsync fsync);

/* What the file of `fd` has now; one that passes through is in bypass. 0, or -EBADF `fd` is not buffered. */
int tb_engine_promise(tb_engine *engine, int fd, enum tb_mode *mode, enum tb_fsync *fsync);

/*
 * Flush dirty bytes: of the file of `fd`, or, if `fd` is -1, of every file of the
 * instance, no matter which process wrote it. Returns when they are written to the PFS (not
 * synced there). 0 for one file, the number of files flushed for all, or the first error;
 * what could not be flushed stays buffered. 0 if `fd` is not buffered. Scratch files are
 * left alone.
 */
int tb_engine_flush(tb_engine *engine, int fd);

/* One tier's counters since the instance started, of all its processes; bytes and operations. */
struct tb_tier_stats {
    char name[32];
    uint64_t capacity;  /* bytes of buffers */
    uint64_t used;      /* bytes of buffers that hold something */
    uint64_t dirty;     /* bytes not yet on the PFS */
    uint64_t bytes_in;  /* written into buffers */
    uint64_t bytes_out; /* read from buffers */
    uint64_t writes;    /* operations that wrote into buffers */
    uint64_t hits;      /* reads served */
    uint64_t moved_in;  /* bytes moved here from another tier */
    uint64_t flushed;   /* bytes flushed from here */
    uint64_t waits;     /* allocations that found no free buffer */
};

struct tb_stats {
    uint32_t n_tiers;
    uint32_t n_files; /* records in use */
    uint32_t n_dirty_files;
    uint32_t n_errors; /* files with a failed last flush */
    uint64_t pfs_bytes_written;
    uint64_t pfs_bytes_read; /* misses */
    uint64_t spilled;        /* bytes written straight to the PFS because the tiers were full */
    uint64_t fsyncs;
    uint64_t passed;      /* opens that pass through unbuffered because max_files was reached */
    uint64_t staged;      /* bytes that reads brought into buffers, prefetched ones included */
    uint64_t prefetched;  /* bytes brought into buffers ahead of a read */
    uint64_t remote_read; /* bytes read from the tiers of other nodes (`nodes: shared`) */
    uint64_t fallbacks;   /* times that a file fell back: flushed and passed through until its last close */
    struct tb_tier_stats tier[TB_MAX_TIERS];
};

/*
 * The counters now. Never fails and takes no lock: counters that change during the call
 * may be of different moments. Costs a look at every file record in use and some more: for
 * a glance, not for every operation.
 */
void tb_engine_stats(tb_engine *engine, struct tb_stats *out);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif
#endif
