/*
 * The region: the one shared-memory segment of an instance.
 *
 * Glossary (every shared object; references are indices, TB_NONE is none; all words:
 * docs/glossary.md)
 *   header    version, configuration, layout, locks, counters
 *   client    one attached process; its slot number is its name in the region
 *   buffer    record of one buffer of any tier; its number fixes tier, slab and place
 *   cell      the aligned range of a file that a buffer covers: offset / buffer size
 *   class     a distinct buffer size of the configuration, ascending
 *   chunk     the aligned range of a file under one lock; a multiple of every class
 *   file      record of one backing file with buffered bytes or open descriptors
 *   open      an open-file description: offset and flags, shared by dup and fork
 *   fragment  per-block intervals of a large buffer with more than one interval
 *
 * Locks, in the order in which they may be taken together:
 *   offset stripe -> end stripe -> claim of a file -> chunk stripe -> file stripe
 *   -> { slab, queue, names, fragments, journal }
 * A thread holds at most one of each kind. The chunk stripe of (file, chunk) protects the
 * buffers with cells in that chunk and their hash chains. The file stripe protects the
 * record and its list of buffers. The end stripe is held to append to a file or to set its
 * length (layer/end.h), the offset stripe to read, write or seek through an offset that
 * several processes share.
 *
 * A buffer goes FREE -> ALLOCATED (client noted) -> LIVE (in hash and file list) -> FREE,
 * or LIVE -> RETAINED (out of the hash, held by `prev` of the buffer that replaced it,
 * because a journal record still refers to its bytes). The state says what counts: a
 * buffer in hash or list that is not LIVE was left by a killed client and is taken out
 * (buffer/map_repair.c). Counts and free lists can be made anew from states, flags and
 * intervals (layer/repair.c).
 *
 * In this order: records (buffer, file, name, open, ghost, stream, client, intent), then
 * the header in its sections, then locks. Each says owner, lock and invariants.
 */
#ifndef TB_REGION_H
#define TB_REGION_H

#include <stdatomic.h>

#include "base/lock.h"
#include "base/wait.h"
#include "chain/model/device_clock.h"
#include "config/byte_ranges.h"
#include "config/config.h"
#include "region/layout.h"
#include "region/policy_state.h"
#include "region/region_file.h"

#define TB_REGION_MAGIC 0x6e69676572626974ull /* "tbregion" */
#define TB_REGION_VERSION 13u
#define TB_STRIPES 1024u
#define TB_CLIENTS_WORD 64u /* clients are counted by whole words of bits */
#define TB_CLIENTS_TOOLS 8u /* of them only for tools: to look at an instance, drain it or stop it */
#define TB_SAMPLES 336u     /* even; full, every other one goes: at least 168 remain, and figures show 120 */
#define TB_FILE_NAME 33u    /* bytes of a name in the record; a longer one begins in the tree of names */

enum tb_buffer_state {
    TB_BUFFER_FREE = 0,
    TB_BUFFER_ALLOCATED = 0x616c6c6f,
    TB_BUFFER_LIVE = 0x6c697665,
    TB_BUFFER_RETAINED = 0x72657461,
};

#define TB_BUFFER_JOURNALED 1u /* a journal record refers to its bytes, or will: never written in place */
#define TB_BUFFER_DURABLE 2u   /* the record and the bytes are synced */
#define TB_BUFFER_KEEP 4u      /* a hint says so: the last to be reclaimed or moved down */
#define TB_BUFFER_ARRIVING 8u  /* being published in the place of those LEAVING, see tiering/move.h */
#define TB_BUFFER_LEAVING 16u
#define TB_BUFFER_RECORDED 64u /* JOURNALED, and its records are written */
#define TB_BUFFER_DIRTY 32u    /* counted in its file's n_dirty; moves under the file stripe, as DURABLE does */

/*
 * One buffer.
 * Owner: buffer.  Lock: the chunk stripe of (file, cell) where it is LIVE or RETAINED, the slab's where it is FREE;
 * an ALLOCATED one is `client`'s alone.  The file stripe too for file_next, file_prev, and the flags DIRTY and DURABLE.
 * Invariants:
 *   slab and buffer number fit: layout.slab[slab].first_buffer <= number < first_buffer + n_buffers
 *   LIVE:  dirty_lo = dirty_hi or valid_lo <= dirty_lo < dirty_hi <= valid_hi <= buffer size
 *   LIVE:  one place in the hash chain of (file, class, cell), one in the list of its file
 *   LIVE, at rest:  DIRTY = (a byte of it is dirty);  start + valid_hi <= size of the file
 *   RECORDED or DURABLE  =>  JOURNALED;  prev != NONE  =>  the buffer prev is RETAINED, and of no other one the prev
 *   FREE:  fragment = prev = NONE
 */
struct tb_buffer {
    _Atomic uint32_t state;
    uint32_t file;
    uint64_t cell;
    uint32_t next; /* hash chain; free list while FREE */
    uint32_t file_next, file_prev;
    uint32_t fragment;
    uint32_t valid_lo, valid_hi; /* bytes of the buffer that hold the file's; bounds where fragmented */
    uint32_t dirty_lo, dirty_hi; /* the part of them that the PFS lacks */
    uint32_t version;            /* moves with every change, never reset */
    uint32_t prev;               /* RETAINED predecessor */
    uint16_t slab;
    uint16_t client; /* while ALLOCATED */
    uint16_t flags;
    _Atomic uint16_t heat; /* buffer/heat.h */
};
_Static_assert(sizeof(struct tb_buffer) == 64, "a buffer record is one cache line");

/* One 4 KiB block of a fragmented buffer. */
struct tb_interval {
    uint16_t valid_lo, valid_hi, dirty_lo, dirty_hi;
};

#define TB_FILE_MAGIC 0x66696c65u
#define TB_NEVER_NS INT64_MIN /* a time that no file has */

enum tb_file_flag {
    TB_FILE_SCRATCH = 1,      /* its backing file is a shadow, never flushed on its own */
    TB_FILE_SYNC = 2,         /* persistent-sync: a write returns after the PFS has it */
    TB_FILE_COHERENT = 4,     /* passed through until the last close */
    TB_FILE_UNLINKED = 8,     /* no name is left: dropped at the last close, never flushed */
    TB_FILE_QUEUED = 16,      /* waits for the daemon's flush threads */
    TB_FILE_TIED = 32,        /* reported identity mismatch: bytes are kept, not flushed */
    TB_FILE_CUTTING = 64,     /* its length is being set: writes wait, see layer/end.h */
    TB_FILE_HELD = 128,       /* being cut or renamed: no journal record is made of it now */
    TB_FILE_OTHER_MODE = 512, /* SYNC is not what its prefix says: until the last close (layer/override.c) */
    TB_FILE_FSYNC_PFS = 1024, /* fsync promises the PFS: until the last close */
    TB_FILE_WAITING = 2048,   /* takes its place at its first flush: namespace/deferred.h */
    TB_FILE_OVERFLOWN = 4096, /* bytes past its end went to the backing file, which may be longer than a killed writer said */
};

/*
 * One file with buffered bytes or open descriptors.
 * Owner: file; the list of buffers is buffer/map.c's.  Lock: the file stripe of (device, inode), for all that is not
 * atomic, to raise n_open from 0 or lower it to 0, and to make or free the record.
 * Invariants, under the file stripe:
 *   n_buffers = length of the list from `first` by file_next;  (n_buffers = 0) = (first = NONE)
 *   n_dirty   = |{buffers of the list: DIRTY}|;  n_durable = |{of those: DURABLE}|;  n_durable <= n_dirty <= n_buffers
 *   file_prev of a buffer's file_next is that buffer;  file_prev of `first` = NONE
 *   flags: file/state.h
 *   0 < name_length <= TB_FILE_NAME;  directory is NONE or a node with refs > 0
 *   magic = TB_FILE_MAGIC  =>  it is in the hash chain of (device, inode)
 *   magic = 0  =>  n_open = n_buffers = 0, and the free list has it, or a client that makes it
 * Without a lock: n_open > 0 keeps the record;  flusher = 0 or the slot + 1 of a client that holds the claim.
 */
struct tb_file {
    uint32_t magic; /* 0: free */
    uint32_t next;  /* hash chain or free list */
    uint64_t device, inode;
    int64_t birth_ns; /* 0 where the file system has none */
    _Atomic uint64_t size;
    uint64_t cut_to;       /* while CUTTING: its new length */
    uint64_t backing_size; /* of the backing file at the last flush or open, with its times */
    int64_t backing_mtime_ns, backing_ctime_ns;
    _Atomic int64_t written_ns; /* above 0: of the last write, pending for the backing file; below: it has it, see file/times.h */
    uint32_t first;             /* list of buffers, the latest to become dirty in front */
    _Atomic uint32_t n_buffers;
    _Atomic uint32_t n_dirty;   /* buffers with dirty bytes */
    _Atomic uint32_t n_durable; /* those of them that are DURABLE */
    _Atomic uint32_t n_open;    /* raised from 0 and lowered to it under the lock only */
    _Atomic int32_t error;      /* of the last flush, until reported */
    _Atomic uint32_t placement; /* what placement remembers of it: its heat, or the rules its name matches */
    _Atomic uint32_t flags;
    _Atomic uint32_t unsynced; /* the latest change of the file on the PFS that no sync covers (file/file.h), 0: all are covered */
    _Atomic uint32_t n_cuts;   /* how often it was made shorter: a read during that is done again */
    _Atomic uint32_t flusher;  /* client slot + 1 that flushes or truncates, 0 none */
    uint32_t queue_next;
    uint32_t directory;      /* node of the tree of names */
    _Atomic uint8_t classes; /* of the buffers it has had, a bit each: look-ups skip the others */
    uint8_t name_length;
    bool name_continues;
    char name[TB_FILE_NAME]; /* no NUL */
};

#define TB_NAME_TEXT 50u
/* Invariants: see struct tb_names.  A node that continues another has a parent.  0 < length <= TB_NAME_TEXT while refs > 0. */
struct tb_name {   /* one part of a path, or a piece of it */
    uint32_t refs; /* nodes below it and files */
    uint32_t next, parent;
    uint8_t length;
    bool continues; /* no slash comes before it */
    char text[TB_NAME_TEXT];
};
_Static_assert(sizeof(struct tb_name) == 64, "a node is one cache line");

#define TB_OPEN_MAGIC 0x6f70656eu
/*
 * One open description.
 * Owner: layer/descriptions.c.  Lock: the offset stripe for `offset` of a shared one; else none, each field is atomic.
 * Invariants:
 *   magic = TB_OPEN_MAGIC  =>  a client's bit is set in its holders, and its file's n_open counts it once
 *   shared is set once in its life, and the low bits of ended_by
 *   ended_by = 2^15 * (lives so far) + (0: it has holders, else slot + 1 of the client that closes it for all).  A client that
 *   looked at an earlier life can't end this one: it changes the word only from the value that it saw.
 */
#define TB_OPEN_ENDER 0x7fffu /* holds every slot + 1: at most 2^14 clients */

struct tb_open {
    _Atomic uint32_t magic; /* 0: free */
    uint32_t file;          /* TB_NONE: it is being closed, and counts no more for its file */
    _Atomic uint64_t offset;
    _Atomic int flags;          /* as given to open */
    _Atomic bool shared;        /* with a forked process */
    _Atomic uint32_t ended_by;  /* TB_OPEN_ENDER: who closes it */
    _Atomic uint32_t appending; /* bytes of a write at the shared offset, which is the file's end, while it is under way */
    _Atomic bool in_kernel;     /* the file is coherent, and the kernel's own offset is this description's */
    _Atomic uint32_t next_free;
};

/* What the clients of one slot moved; apart from the others', so that counting shares no cache line. */
struct tb_transfers {
    _Atomic uint64_t bytes_in, bytes_out, writes, hits;
};

#define TB_GHOST_FRAME (1u << 20)
struct tb_ghost { /* pages of a frame of a file that were read and in no buffer: tiering/misses.h */
    _Atomic uint64_t key;
    _Atomic uint64_t seen[TB_GHOST_FRAME / TB_BLOCK_MIN / 64];
};

#define TB_STREAMS 64u
enum tb_stream_state { TB_STREAM_FREE = 0, TB_STREAM_OPENING, TB_STREAM_OPEN };
/*
 * Invariants: one process moves `state` from FREE to OPENING to OPEN; `serial` moves after each FREE, so a reader that
 * remembers both knows its own entry.  busy is even or [busy_from, busy_to) is being fetched.
 */
struct tb_stream { /* a reader that the daemon reads ahead of: tiering/stream.h */
    _Atomic uint32_t state;
    _Atomic uint32_t serial; /* moves with every use of the entry */
    _Atomic uint32_t file;
    _Atomic uint32_t busy; /* odd while bytes [busy_from, busy_to) are being fetched */
    _Atomic uint64_t busy_from, busy_to;
    _Atomic uint64_t inode; /* of the file: its record may become another file's */
    _Atomic int64_t birth_ns;
    /* pieces of `length` bytes, `stride` apart (0: each follows the one before), up to `end` */
    _Atomic uint64_t length, stride, end;
    _Atomic uint64_t position, moved_ns; /* what the reader will want next, since when */
} __attribute__((aligned(64)));

/*
 * One attached process.
 * Owner: region/clients.c.  Lock: registry.lock to give the slot to a process or to free it; the process itself writes the rest.
 * Invariants:
 *   pid is stored last when the slot is taken, and set to 0 last when it is freed
 *   the slot is freed only after the repair of what its process left
 */
struct tb_client {
    _Atomic int pid;     /* 0: free */
    uint64_t start_time; /* of the process, clock ticks since boot: a reused pid is another process */
    /* of the program it runs: exec leaves the old client in its slot; 0: any, what it left is held until it ends */
    _Atomic uint64_t image;
    /*
     * until then (CLOCK_MONOTONIC) it is of a forked child that has not run yet, in its
     * parent's name; 0: not awaited
     */
    _Atomic uint64_t awaited_ns;
    struct tb_wait_note waits; /* base/wait.h */
    _Atomic uint32_t n_moving; /* its threads that take a description from the free list or give one back: layer/descriptions.c */
    struct tb_transfers tier[TB_MAX_TIERS];
} __attribute__((aligned(64)));

#define TB_INTENTS 16u
struct tb_intent_file {
    uint32_t number;
    uint64_t inode;
    int64_t birth_ns;
};
struct tb_intent {           /* a change of names that is under way, see namespace/intent.h */
    _Atomic uint32_t holder; /* client slot + 1; 0: free */
    _Atomic uint32_t kind;   /* 0: not complete, means nothing */
    struct tb_intent_file file, over;
    char from[TB_PATH_MAX], to[TB_PATH_MAX];
};

/*
 * The sections of the header, one a room.  Each says what it is for, who changes it
 * (owner), under which lock, and what holds then (invariants, as equations over the
 * records; |{...}| counts them).  An equation holds whenever the named lock is held and
 * no client was killed inside, and again after the repair of one that was; "at rest"
 * also asks that no call is under way.  The room's tb_ROOM_is_valid checks them
 * (base/valid.h).
 */

/*
 * The end of an instance, and the process that works for all.
 * Owner: instance.  Lock: `lock`, held by the daemon for life, so it is free exactly while no daemon lives.
 * Invariants:
 *   is_to_end and gave_up are set once and never taken back
 *   pid means nothing while the lock is free
 */
struct tb_daemon_life {
    struct tb_lock lock;
    _Atomic int pid;
    _Atomic bool gave_up;   /* it ended because it waited in vain for a process that was stopped */
    _Atomic bool is_to_end; /* a client wants the daemon to end when no client is left */
};

/*
 * Who may come.
 * Owner: region/clients.c.  Lock: `lock`, for each change of a slot's `pid`, and for the repair of a dead client.
 * Invariants:
 *   a slot with pid = 0 holds no bit of any open description, no claim and no lock
 */
struct tb_registry {
    struct tb_lock lock;
    _Atomic bool closed; /* no program registers, as long as somebody ends the instance: tb_client_is_closed */
};

/*
 * Files that wait for a flush: a list from `head` by `queue_next`.
 * Owner: flush/flush.c.  Lock: `lock`, after the file's stripe.
 * Invariants:
 *   (head = NONE) = (tail = NONE)
 *   head != NONE  =>  tail is the last of the list, and its queue_next = NONE
 *   each file of the list is QUEUED; QUEUED and not in the list  =>  whoever took it out is about to claim it
 *   event moves after each file that comes in
 */
struct tb_queue {
    struct tb_lock lock;
    uint32_t head, tail;
    _Atomic uint32_t event; /* futex word */
};

/*
 * The tree of names, and renames of directories.
 * Owner: file/name_tree.c.  Lock: `lock`, for nodes, their hash and the free list; `renamer` is a claim.
 * Invariants:
 *   a node is in the hash, with refs = |{nodes: parent = it}| + |{files: directory = it}| > 0, or in the free list
 *   a kill between the two may raise refs, and never lower it: at worst the node stays until the instance ends
 *   moving = NONE, or the lock is held, or its holder was killed: then the next one finishes the move to `moved`
 *   n_renames moves after a rename is done and before its claim is given up
 */
struct tb_names {
    struct tb_lock lock;
    uint32_t free;
    uint32_t moving;            /* node of a directory that is being renamed */
    struct tb_name moved;       /* what it will be: parent and text */
    _Atomic uint32_t renamer;   /* client slot + 1 that renames a directory, 0 none */
    _Atomic uint32_t n_renames; /* of directories, done */
};

/*
 * Fragments that no buffer uses: a list by the first word of each.
 * Owner: buffer/interval.c.  Lock: `lock`.
 * Invariants, at rest:
 *   length of the list + |{buffers: fragment != NONE}| = layout.n_fragments
 */
struct tb_fragments {
    struct tb_lock lock;
    uint32_t free;
};

/*
 * The table of files.  What is in one record: struct tb_file.
 * Owner: file/file.c.  Lock: `lock`, for the free list and `n`.
 * Invariants:
 *   length of the free list + n = files of the layout, but for one more or less for each client killed inside
 *   n >= |{files: magic = TB_FILE_MAGIC}|
 *   each change of a file on the PFS has its own number (modulo 2^32), never 0
 */
struct tb_files {
    struct tb_lock lock;
    uint32_t free;
    _Atomic uint32_t n;
    _Atomic uint32_t n_changes;       /* of files on the PFS: gives the numbers for `unsynced` */
    _Atomic uint64_t claim_wanted_ns; /* when somebody last saw that a claim is not free (CLOCK_MONOTONIC), */
    _Atomic uint32_t claim_wanted;    /* that of this file: a hint */
};

/*
 * Open descriptions that are free: a stack without a lock.
 * Owner: layer/descriptions.c.
 * Invariants:
 *   free = changes << 32 | index of the first or NONE; each push and pop adds one to `changes`
 *   a description of the stack has magic = 0 and no bit of a holder
 *   magic = 0 and not in the stack  =>  a client that has it in its hand counts it in n_moving, or was killed
 */
struct tb_free_opens {
    _Atomic uint64_t free;
};

/*
 * Scratch prefixes, and names that wait.
 * Owner: namespace.  Lock: `lock`, while a stub is replaced, or a name that waits is made or given its place.
 * Invariants:
 *   names_waited is set before the first such name is made, and never taken back
 *   shadow_links moves after the change that it tells
 */
struct tb_shadows {
    struct tb_lock lock;
    _Atomic bool names_waited;     /* a name has waited for its first flush: namespace/deferred.h looks for more */
    _Atomic uint32_t shadow_links; /* moves when a name of a shadow may have come to be a symlink */
};

/* A sync that the holder of the lock makes for all that wait (journal/commit.c). */
struct tb_commit {
    struct tb_lock lock;
    _Atomic uint64_t wanted, done, failed; /* numbers of the callers; done <= wanted, failed <= wanted */
};

/*
 * The journal, and what its records refer to.
 * Owner: journal.  Lock: `lock`, for `end` to `is_doubtful`; slab_unsynced and n_journaled are changed without it.
 * Invariants:
 *   synced <= end; both are multiples of TB_JOURNAL_SLOT
 *   is_emptied  =>  no record of this generation counts, and the next one begins another generation
 *   is_doubtful  =>  synced stays where it is until the next generation
 *   sequence >= that of each record below `end`
 *   n_journaled >= |{buffers LIVE: JOURNALED}|; at rest n_journaled = |{buffers not FREE: JOURNALED}|
 *   a reservation marks its slab unsynced before a record refers to it; a sync takes the mark before it begins
 */
struct tb_journal {
    struct tb_lock lock;
    uint64_t end;    /* bytes */
    uint64_t synced; /* of them, those that a sync covered */
    uint64_t generation;
    bool is_emptied;  /* a new generation was begun and its header is not durable yet */
    bool is_doubtful; /* a sync of this generation failed */
    _Atomic uint64_t sequence;
    _Atomic uint32_t n_journaled; /* buffers that a record refers to, or will */
    struct tb_commit slab_commit, commit;
    _Atomic bool slab_unsynced[TB_MAX_TIERS * TB_MAX_SLABS];
};

/*
 * Until when the modelled devices are reserved.
 * Owner: chain/model.  No lock.
 * Invariants: no clock moves back
 */
struct tb_model_clocks {
    struct tb_device_clock pfs, tier[TB_MAX_TIERS];
};

/*
 * What placement remembers between writes.
 * Owner: placement.  No lock: a policy may rely on no two words together.
 * Invariants: none.  Any value is a valid state.
 */
struct tb_placement_memory {
    struct tb_policy_state policy;
    _Atomic uint64_t until[TB_MAX_TIERS]; /* what placement gave a tier lasts until then, ns of the model's clock */
};

/*
 * What moves between tiers, and why.
 * Owner: tiering; `heat_epoch` is read by buffer/heat.h.  No lock: these are counts that only go up (modulo 2^32).
 * Invariants: `voided` moves before what makes fetched bytes old is done
 */
struct tb_movement {
    _Atomic uint32_t heat_epoch; /* buffer/heat.h; its low 8 bits count */
    _Atomic uint32_t voided;     /* moves when what was read from a backing file before must not be staged in: tiering/stage.h */
    _Atomic uint32_t ghost_hand;
};

/*
 * Readers that the daemon reads ahead of.
 * Owner: tiering/stream.c.  No lock: an entry is taken by an exchange of its state.
 * Invariants: see struct tb_stream
 */
struct tb_streams {
    _Atomic uint32_t event; /* futex word */
    struct tb_stream entry[TB_STREAMS];
};

/*
 * What happened since the start, for reports and for the choice of what moves; nothing that is promised depends on it.
 * Owners: layer, flush, tiering.  No lock.
 * Invariants: each only goes up; prefetched is not more than staged, but for a call under way
 */
struct tb_totals {
    _Atomic uint64_t pfs_written, pfs_read, spilled, fsyncs;
    _Atomic uint64_t staged, prefetched; /* bytes; what was prefetched was staged in too */
    _Atomic uint64_t passed;             /* opens of regular files that the tables had no room for */
};

/*
 * Statistics over time: rows 0 to n - 1 of the region's samples.
 * Owner: instance/stats.c.  Lock: `lock`.
 * Invariants: n <= TB_SAMPLES; interval = 0.02 s * 2^k, where k is how often the table was full
 */
struct tb_sampling {
    struct tb_lock lock;
    uint32_t n;
    double interval; /* seconds; doubles when the table is full */
};

/*
 * Buffers of one size in one tier.
 * Owner: buffer/slab.c.  Lock: `lock`, for the free list and n_free; n_clean is changed under locks of chunks.
 * Invariants:
 *   n_free = length of the list from `free` by `next`; each of them is FREE and of this slab
 *   at rest: n_free + |{buffers of the slab: not FREE}| = layout.slab[].n_buffers
 *   at rest: n_clean = |{buffers of the slab: LIVE, no dirty byte}|
 */
struct tb_slab {
    struct tb_lock lock;
    _Atomic uint32_t free; /* first free buffer */
    _Atomic uint32_t n_free;
    _Atomic uint32_t n_clean; /* LIVE without dirty bytes: may be reclaimed */
    _Atomic uint32_t hand;    /* where reclaiming looks next */
} __attribute__((aligned(64)));

/*
 * Owner: buffer, tiering.  No lock.
 * Invariants, at rest:
 *   used  = sum of the sizes of the tier's buffers that are not FREE
 *   dirty = sum of their dirty bytes;  dirty <= used <= capacity of the tier
 */
struct tb_tier_counters {
    _Atomic uint64_t used, dirty, flushed, waits;
    _Atomic uint64_t moved_to[TB_MAX_TIERS]; /* valid bytes that went from here to the other */
} __attribute__((aligned(64)));

/* What names the root of the managed tree: its identity when the instance was started. */
struct tb_root_identity {
    uint64_t device, inode;
    int64_t birth_ns;
};

/*
 * The header.  The first part is written before the magic and never again, so it is read
 * without a lock; `root` is written with it (journal/journal.c).
 */
struct tb_header {
    _Atomic uint64_t magic; /* written last */
    uint32_t version;
    uint32_t uid;
    uint64_t bytes;  /* = layout.total_bytes = size of the region's file */
    uint64_t digest; /* of config */
    char name[64];
    char host[64];
    uint64_t id;                   /* as its lease says: region/lease.h */
    uint64_t pid_namespace;        /* in which the numbers of its processes and the owners of its locks mean something */
    enum tb_huge_pages huge_pages; /* found when it was made */
    uint64_t started_ns;           /* CLOCK_MONOTONIC */
    int64_t config_mtime_ns;       /* of the configuration file, when it was read */
    struct tb_config config;
    struct tb_layout layout; /* follows from config alone */
    struct tb_size chunk;    /* = tb_layout_chunk(&layout) */
    struct tb_root_identity root;

    struct tb_daemon_life daemon;
    struct tb_registry registry;
    struct tb_queue queue;
    struct tb_names names;
    struct tb_fragments fragments;
    struct tb_files files;
    struct tb_free_opens opens;
    struct tb_shadows shadows;
    struct tb_intent intents[TB_INTENTS]; /* a slot is its holder's alone: namespace/intent.h */
    struct tb_journal journal;
    struct tb_model_clocks clocks;
    struct tb_placement_memory placement;
    struct tb_movement movement;
    struct tb_streams streams;
    struct tb_totals totals;
    struct tb_tier_counters tier[TB_MAX_TIERS];
    struct tb_slab slab[TB_MAX_TIERS * TB_MAX_SLABS];
    struct tb_sampling sampling;
};

/* Odd while somebody holds the lock: what a reader copied between two equal even counts is whole (buffer/peek.c). */
struct tb_chunk_lock {
    struct tb_lock lock;
    _Atomic uint32_t sequence;
    _Atomic uint32_t moving; /* enum tb_move_step: what a killed holder was about, see tiering/move.h */
    _Atomic uint32_t file;   /* of the chunk that it was last taken for */
    uint32_t n_voided;       /* moves when a flush makes records of its chunks void, */
    uint32_t n_spilled;      /* and this when bytes of its chunks may have gone to the PFS without a buffer */
} __attribute__((aligned(64)));

struct tb_file_lock {
    struct tb_lock lock;
} __attribute__((aligned(64)));

struct tb_locks {
    struct tb_chunk_lock chunk[TB_STRIPES];
    struct tb_file_lock file[TB_STRIPES], end[TB_STRIPES], offset[TB_STRIPES];
};

/* The region as one process sees it. */
struct tb_region {
    struct tb_header *header;
    struct tb_locks *locks;
    uint32_t *buckets; /* buffer hash */
    struct tb_buffer *buffers;
    struct tb_interval *fragments;
    uint32_t *file_buckets; /* TB_STRIPES * files_per_stripe */
    uint32_t n_file_buckets;
    struct tb_file *files;
    struct tb_name *names;
    uint32_t *name_buckets;
    uint32_t n_names;
    struct tb_open *opens;
    uint32_t n_opens;
    _Atomic uint64_t *holders; /* n_holders words of each open: clients with a descriptor, a bit each */
    uint32_t n_holders;
    struct tb_client *clients;
    uint32_t n_clients;
    struct tb_ghost *ghosts;
    uint32_t n_ghosts;
    struct tb_unit_range *units;
    struct tb_sample *samples;
    char *base;
    size_t bytes;
};

/*
 * Make, touch and initialise a region: returns the file's descriptor, locked as a lease
 * is. -EEXIST,
 * -ENOSPC, ...: nothing is left of it.
 */
int tb_region_create(const struct tb_config *config, const struct tb_layout *layout, const char *instance,
                     void (*progress)(void *, const char *, uint64_t, uint64_t), void *arg, struct tb_region *out);
/* `file`: gets the file's descriptor; may be NULL. */
int tb_region_attach(const char *instance, struct tb_region *out, int *file);
/* The configuration file was written again since the instance started, which goes on with what it read. */
bool tb_region_config_changed(const struct tb_header *h);
void tb_region_unmap(struct tb_region *region);

#endif
