/*
 * The records of the region: one of each buffer, file, part of a name, open description, reader and client, and of
 * each change of names under way. They refer to each other by index. Words, lock order and the life of a
 * buffer: region/region.h.
 */
#ifndef TB_REGION_RECORDS_H
#define TB_REGION_RECORDS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/lock.h"
#include "base/wait.h"
#include "config/config.h"

enum tb_buffer_state {
    TB_BUFFER_FREE = 0,
    TB_BUFFER_ALLOCATED = 0x616c6c6f,
    TB_BUFFER_LIVE = 0x6c697665,
    TB_BUFFER_RETAINED = 0x72657461,
};

#define TB_BUFFER_JOURNALED 1u /* a journal record refers to its bytes or has them, or will: never written in place */
#define TB_BUFFER_DURABLE 2u   /* the record and the bytes are synced */
#define TB_BUFFER_KEEP 4u      /* a hint says so: the last to be reclaimed or moved down */
#define TB_BUFFER_ARRIVING 8u  /* being published in the place of those LEAVING, see tiering/move.h */
#define TB_BUFFER_LEAVING 16u
#define TB_BUFFER_RECORDED 64u /* JOURNALED, and its records are written */
#define TB_BUFFER_DIRTY 32u    /* counted in its file's n_dirty; moves under the file stripe, as DURABLE does */
#define TB_BUFFER_SEEN 128u    /* a process remembers its version: the next write moves it, also one that replaces dirty bytes */

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
 *   RETAINED and DURABLE:  what its successor got since is in its valid interval (buffer/unrecorded.h), and nothing is dirty
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
    uint32_t version;            /* moves with every change after it was SEEN, never reset */
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
    TB_FILE_TAKEN = 256,      /* a flush thread took it from the queue, and is about to claim it */
    TB_FILE_TIED = 32,        /* reported identity mismatch: bytes are kept, not flushed */
    TB_FILE_CUTTING = 64,     /* its length is being set: writes wait, see layer/end.h */
    TB_FILE_HELD = 128,       /* being cut or renamed: no journal record is made of it now */
    TB_FILE_OTHER_MODE = 512, /* SYNC is not what its prefix says: until the last close (instance/asked.c) */
    TB_FILE_FSYNC_PFS = 1024, /* fsync promises the PFS: until the last close */
    TB_FILE_WAITING = 2048,   /* takes its place at its first flush: namespace/deferred.h */
    TB_FILE_OVERFLOWN = 4096, /* bytes past its end went to the backing file, which may be longer than a killed writer said */
};

#define TB_FILE_NAME 33u /* bytes of a name in the record; a longer one begins in the tree of names */

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

/*
 * What the record of the same number has besides, with `nodes: shared`; else the region has none of these.
 * Owner: shared.  No lock.
 */
struct tb_file_nodes {
    _Atomic uint32_t n_cleaned;  /* moves when a flush makes buffers of the file clean */
    _Atomic uint32_t n_let_go;   /* how often bytes of it went because another node's are newer (shared/local.h) */
    _Atomic uint32_t n_torn;     /* moves where a part of a write may have been committed, or gone, without the rest of it */
    _Atomic uint32_t n_tearing;  /* above 0: right now */
    _Atomic uint32_t n_spilling; /* grants of bytes that are about to go to the PFS, and are in no buffer */
    _Atomic uint32_t n_written;  /* moves with each write */
    /* Written by the daemon alone, what a commit says of them by one thread at a time (daemon/turn.h). */
    _Atomic uint32_t n_said;    /* n_written when the last commit was listed: where they differ other nodes are to hear of writes */
    _Atomic uint32_t voids;     /* 1: some dirty bytes here are not this node's any more, and are about to go */
    _Atomic uint32_t held;      /* 1: some are newer than what other nodes have, which have to flush that first (`copies: 2`) */
    _Atomic uint32_t owes;      /* how often other nodes have to let go for commits of this one */
    _Atomic uint32_t copied;    /* number of what was sent last as second copies; 0: nothing */
    _Atomic uint64_t committed; /* the highest version of a commit of this node */
    _Atomic uint64_t settled;   /* for commits of other nodes up to that version there is nothing to let go of here */
    /* Of what the other nodes committed. */
    _Atomic uint64_t heard; /* the highest version that this node was told of: an older answer about the file's end is void */
    _Atomic uint64_t known; /* 2 * its version + (1: some of it is in their tiers) */
};

#define TB_RECENT_WRITES 256u
/*
 * The latest writes of one shared file. The file's number and identity lead here: shared/recent.h.
 * Owner: shared/recent.c.  Lock: its own, for all of it.
 * Invariants: n <= TB_RECENT_WRITES; of each of the n writes lo < hi, and `list` is not above that of the slot
 */
struct tb_recent_write {
    uint64_t lo, hi;
    uint64_t version; /* of the commit that named it; 0: none has */
    uint64_t list;    /* how many lists of dirty bytes had begun when it was noted */
};

struct tb_recent {
    struct tb_lock lock;
    uint32_t n;
    uint64_t list, inode;
    int64_t birth_ns;
    struct tb_recent_write write[TB_RECENT_WRITES];
} __attribute__((aligned(64)));

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
 *   magic = TB_OPEN_MAGIC  =>  a client's bit is set in its holders, and its file's n_open, if it knows one, counts it once
 *   file goes from NONE to a file once in its life, and back when it ends
 *   shared is set once in its life, and the low bits of ended_by
 *   ended_by = 2^15 * (lives so far) + (0: it has holders, else slot + 1 of the client that closes it for all).  A client that
 *   looked at an earlier life can't end this one: it changes the word only from the value that it saw.
 */
#define TB_OPEN_ENDER 0x7fffu /* holds every slot + 1: at most 2^14 clients */

struct tb_open {
    _Atomic uint32_t magic; /* 0: free */
    _Atomic uint32_t file;  /* TB_NONE: it does not know its file yet (layer/late.c), or is being closed and counts no more for it */
    _Atomic uint64_t offset;
    _Atomic int flags;          /* as given to open */
    _Atomic bool shared;        /* with a forked process */
    _Atomic uint32_t ended_by;  /* TB_OPEN_ENDER: the client that closes it */
    _Atomic uint32_t appending; /* bytes of a write at the shared offset, which is the file's end, while it is under way */
    _Atomic bool in_kernel;     /* the file is coherent, and the kernel's own offset is this description's */
    _Atomic uint32_t next_free;
};

/* What threads of one slot's clients moved; apart from other slots', so that counting shares no cache line. */
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
    /* It counts its calls that are under way, of its first thread and of the others: instance/client.c. Else these say nothing. */
    _Atomic bool tells_calls;
    _Atomic uint32_t calls_first, calls_others;
    _Atomic uint64_t late;      /* its open description that does not know its file yet: layer/late.c */
    _Atomic uint32_t n_changes; /* its calls under way that take names: struct tb_changes */
    _Atomic uint32_t n_moving;  /* its threads that take a description from the free list or give one back: layer/descriptions.c */
    _Atomic uint32_t directory; /* node + 1 of the tree of names that it keeps in use, 0: none; under names.lock: file/name_tree.c */
    struct tb_transfers first[TB_MAX_TIERS];  /* of each tier: what the first thread of the process moved, stored by it alone */
    struct tb_transfers others[TB_MAX_TIERS]; /* what its other threads moved, by locked additions */
} __attribute__((aligned(64)));

/*
 * Requests about files, which may wait for other nodes' work, and those about bytes of remote buffers, which wait for none: each kind
 * has records and threads of its own, so that the second never wait for the first (docs/nodes.md).
 */
enum tb_desk { TB_DESK_FILES, TB_DESK_BYTES, TB_DESKS };
#define TB_REQUESTS 8u                   /* of a desk */
#define TB_REQUEST_BYTES_MIN (68u << 10) /* 64 KiB in one piece */
#define TB_REQUEST_BYTES_MAX ((1u << 20) + (64u << 10))
enum tb_request_state {
    TB_REQUEST_FREE = 0,
    TB_REQUEST_TAKEN,
    TB_REQUEST_ASKED,
    TB_REQUEST_SERVED,
    TB_REQUEST_ANSWERED,
    TB_REQUEST_LEFT,
    TB_REQUEST_AHEAD
};
/*
 * What a client asks of its daemon, which asks other nodes: shared/requests.h.
 * Owner: shared/requests.c.  No lock: the process that moves `state` from the value that it saw has the record.
 * Invariants:
 *   FREE -> TAKEN by `client` -> ASKED -> SERVED by the daemon -> ANSWERED -> FREE by the client
 *   LEFT: the client gave up or was killed while it was SERVED; the daemon frees it
 *   AHEAD in place of ANSWERED where is_ahead: it has its answer and is nobody's (client = 0), so no kill leaves it behind. It becomes
 *   TAKEN by the client that knows its number, or, when it is old, by any other one
 */
struct tb_request {
    _Atomic uint32_t state; /* futex word */
    _Atomic uint32_t client;
    _Atomic uint32_t number;    /* of its uses: moves each time when it is taken from the free ones */
    uint32_t n;                 /* bytes of the request, */
    int64_t answer;             /* then of the answer, or -errno */
    _Atomic uint64_t rested_ns; /* since when it is AHEAD */
    bool is_ahead;              /* of this use */
    char bytes[] __attribute__((aligned(64)));
};

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

#endif
