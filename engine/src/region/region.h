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
 *   name stripes -> offset stripe -> end stripe -> claim of a file -> chunk stripe -> file stripe
 *   -> { lane, queue, names, fragments, journal }
 * A thread holds at most one of each kind, and two names in ascending order. A name stripe is held while a path is made to lead
 * elsewhere (namespace/named.h). The chunk stripe of (file, chunk) protects the
 * buffers with cells in that chunk and their hash chains; writes that only replace dirty bytes go on beside it
 * (buffer/chunk.h). The file stripe protects the
 * record and its list of buffers. The end stripe is held to append to a file or to set its
 * length (layer/end.h), the offset stripe to read, write or seek through an offset that
 * several processes share.
 *
 * A buffer goes FREE -> ALLOCATED (client noted) -> LIVE (in hash and file list) -> FREE,
 * or LIVE -> RETAINED (out of the hash, held by `prev` of the buffer that replaced it,
 * because a journal record still refers to its bytes). The state says what counts: a
 * buffer in hash or list that is not LIVE was left by a killed client and is taken out
 * (buffer/map_repair.c). Counts and free lists can be rebuilt from states, flags and
 * intervals (layer/repair.c).
 *
 * The records (buffer, file, name, open, ghost, stream, client, intent) are in
 * region/records.h; here are the header in its sections, and the locks. Each says owner,
 * lock and invariants.
 */
#ifndef TB_REGION_H
#define TB_REGION_H

#include <stdatomic.h>

#include "base/lock.h"
#include "chain/model/device_clock.h"
#include "config/byte_ranges.h"
#include "config/config.h"
#include "copy/choice.h"
#include "region/layout.h"
#include "region/policy_state.h"
#include "region/records.h"
#include "region/region_file.h"

#define TB_REGION_MAGIC 0x6e69676572626974ull /* "tbregion" */
#define TB_REGION_VERSION 31u
#define TB_STRIPES 1024u
#define TB_NAME_STRIPES 256u
#define TB_CLIENTS_WORD 64u /* clients are counted by whole words of bits */
#define TB_CLIENTS_TOOLS 8u /* of them only for tools: to look at an instance, drain it or stop it */
#define TB_SAMPLES 336u     /* even; full, every other one goes: at least 168 remain, and figures show 120 */

/*
 * The sections of the header, one a room.  Each names its purpose, the file that changes it
 * (owner), the lock, and what holds then (invariants, as equations over the records;
 * |{...}| counts them).  An equation holds whenever the named lock is held and no client was
 * killed inside, and again after the repair of a client that was; "at rest" means also that no
 * call is under way.  The room's tb_ROOM_is_valid checks them (base/valid.h).
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
 * Which processes may register.
 * Owner: region/clients.c.  Lock: `lock`, for each change of a slot's `pid`, and for the repair of a dead client.
 * Invariants:
 *   a slot with pid = 0 holds no bit of any open description, no claim and no lock
 */
struct tb_registry {
    struct tb_lock lock;
    _Atomic bool closed;     /* no program registers, as long as a process ends the instance: tb_client_is_closed */
    _Atomic uint32_t n_used; /* slots that were ever in use: those above it are free */
};

/*
 * Files that wait for a flush: a list from `head` by `queue_next`.
 * Owner: flush/queue.c.  Lock: `lock`, after the file's stripe.
 * Invariants:
 *   (head = NONE) = (tail = NONE)
 *   head != NONE  =>  tail is the last of the list, and its queue_next = NONE
 *   each file of the list is QUEUED; QUEUED and not in the list  =>  the thread that took it out is about to claim it
 *   event moves after each file that comes in
 *   a flush thread sets asleep before it sleeps on event; the client that puts a file in clears it after event moved, and
 *   wakes them if it was set.  So one of the two sees the other, and of many files that come in only the first costs a system call
 */
struct tb_queue {
    struct tb_lock lock;
    uint32_t head, tail;
    _Atomic uint32_t event; /* futex word */
    _Atomic bool asleep;
};

/*
 * The tree of names, and renames of directories.
 * Owner: file/name_tree.c.  Lock: `lock`, for nodes, their hash and the free list; `renamer` is a claim.
 * Invariants:
 *   a node is in the hash, with refs = |{nodes: parent = it}| + |{files, clients: directory = it}| > 0, or in the free list
 *   a kill between the two may raise refs, and never lower it: at worst the node stays until the instance ends
 *   moving = NONE, or the lock is held, or its holder was killed: then the next one finishes the move to `moved`
 *   n_renames moves after a rename is done and before its claim is given up
 */
struct tb_names {
    struct tb_lock lock;
    uint32_t free;
    uint32_t moving;            /* node of a directory that is being renamed */
    uint32_t n_moves;           /* of nodes: a path that was looked up before may lead elsewhere */
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
 *   length of the free list + n = files of the layout, except for one more or less for each client killed inside
 *   n >= |{files: magic = TB_FILE_MAGIC}|
 *   each change of a file on the PFS has its own number (modulo 2^32), never 0
 */
struct tb_files {
    struct tb_lock lock;
    uint32_t free;
    _Atomic uint32_t n;
    _Atomic uint32_t n_changes;       /* of files on the PFS: gives the numbers for `unsynced` */
    _Atomic uint32_t n_freed;         /* records, so far: what a file system said of a file before may be older than its flush */
    _Atomic uint64_t claim_wanted_ns; /* when a process last saw that a claim is not free (CLOCK_MONOTONIC), */
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

/*
 * A sync that the holder of the lock makes for all that wait (journal/commit.c). Whom it serves waits for one event, and who comes
 * later for the other one: the events take turns.
 */
struct tb_commit {
    struct tb_lock lock;
    _Atomic uint64_t wanted, done, failed; /* numbers of the callers; done <= wanted, failed <= wanted */
    _Atomic uint64_t turn;                 /* of the latest sync: twice the last caller that it serves, plus which event is its own */
    _Atomic uint32_t event[2];             /* futex words: move after the lock is dropped */
};

/*
 * The journal, and what its records refer to.
 * Owner: journal.  Lock: `lock`, for `end` to `is_doubtful`; slab_unsynced, slab_failed and n_journaled are changed without it.
 * Invariants:
 *   synced <= end; both are multiples of TB_JOURNAL_SLOT
 *   is_emptied  =>  no record of this generation counts, and the next one begins another generation
 *   is_doubtful  =>  synced stays where it is until the next generation
 *   sequence >= that of each record below `end`
 *   n_journaled >= |{buffers LIVE: JOURNALED}|; at rest n_journaled = |{buffers not FREE: JOURNALED}|
 *   a reservation marks its slab unsynced before a record refers to it; a sync takes the mark before it begins
 *   slab_failed[s]  =>  no buffer of s becomes DURABLE any more
 */
struct tb_journal {
    struct tb_lock lock;
    uint64_t end;    /* bytes */
    uint64_t synced; /* of them, those that a sync covered */
    uint64_t filled; /* bytes of the file that are written, zeros after `end`; 0: not known */
    uint64_t generation;
    uint64_t bytes_up_to; /* bytes of the journal: past it records have no bytes of their own; never changed */
    bool is_emptied;      /* a new generation was begun and its header is not durable yet */
    bool is_doubtful;     /* a sync of this generation failed */
    _Atomic uint64_t sequence;
    _Atomic uint32_t n_journaled; /* buffers that a record refers to, or will */
    struct tb_commit slab_commit, commit;
    _Atomic bool slab_unsynced[TB_MAX_TIERS * TB_MAX_SLABS];
    _Atomic bool slab_failed[TB_MAX_TIERS * TB_MAX_SLABS]; /* a sync of it failed; until the instance ends */
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
 * What clients ask of other nodes, by way of the daemon (`nodes: shared`).
 * Owner: shared/requests.c.  No lock.
 * Invariants:
 *   event of a desk moves after each request of it that is ASKED
 *   self and n_nodes are stored once, n_nodes last: from then on each buffer of a remote tier has its lender
 *   borrowings moves before each use of another node's memory, which it numbers: shared/borrow.h
 */
#define TB_NODES_SHOWN 64u
struct tb_asking {
    _Atomic uint32_t event[TB_DESKS]; /* futex words */
    _Atomic uint64_t clock;           /* numbers what this node says of files to their keepers */
    _Atomic uint64_t borrowings;
    _Atomic uint32_t self, n_nodes;
    /* Written by the daemon alone, for people: torn texts do no harm. */
    _Atomic uint32_t n_alive;
    struct {
        char name[64];
        _Atomic bool is_alive;
        _Atomic uint64_t dirty, extents, kept_bytes, answered, lends, lent, borrows, lost, copies,
            copies_most; /* as struct tb_wire_state */
    } node[TB_NODES_SHOWN];
    char lost[TB_PATH_MAX + 200]; /* the last bytes that were asked for and lost: file, range, node */
};

/*
 * What happened since the start, for reports and for the choice of what moves; nothing that is promised depends on it.
 * Owners: layer, flush, tiering.  No lock.
 * Invariants: each only goes up; prefetched is not more than staged, except for a call under way
 */
struct tb_totals {
    _Atomic uint64_t pfs_written, pfs_read, spilled, fsyncs;
    _Atomic uint64_t remote_read;        /* bytes from the tiers of other nodes */
    _Atomic uint64_t staged, prefetched; /* bytes; what was prefetched was staged in too */
    _Atomic uint64_t passed;             /* opens of regular files that the tables had no room for */
    _Atomic uint64_t fallbacks;          /* times that a file became coherent */
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
 * Processes that write new bytes take buffers and count dirty bytes all the time. Each has a lane, by its slot, with a cache line of
 * its own for that: else the lines would travel between processors with every write. A lane is no limit: who finds its own one empty
 * takes from the next.
 */
#define TB_LANES 8u
#define TB_LANE_RUN 64u /* so many buffers that follow each other in a slab are of one lane: what one process takes is close together */

/*
 * Removals and renames. An open remembers how many have ended before it; if as many have begun when it is known, its name leads to
 * its file.
 * Owner: layer/names.c.  No lock.  Sums: region/counters.h.
 * Invariants, at rest, of each lane: ended = begun.  A killed client's are ended by repair, unless it was killed while it counted: then
 * they stay apart, and no open is late any more
 */
#define TB_CHANGE_LANES 4u /* each open looks at all */
struct tb_changes {
    struct tb_lane_changes {
        _Atomic uint32_t begun, ended;
    } __attribute__((aligned(64))) lane[TB_CHANGE_LANES];
};

/*
 * The free buffers of one lane of a slab.
 * Owner: buffer/slab.c.  Lock: `lock`, for both.
 * Invariants:
 *   n_free = length of the list from `free` by `next`; each of them is FREE, of this slab and of this lane
 */
struct tb_lane {
    struct tb_lock lock;
    _Atomic uint32_t free; /* first free buffer */
    _Atomic uint32_t n_free;
} __attribute__((aligned(64)));

/*
 * Buffers of one size in one tier.
 * Owner: buffer/slab.c.  No lock; n_clean is changed under locks of chunks.
 * Invariants, at rest:
 *   sum of n_free of the lanes + |{buffers of the slab: not FREE}| = layout.slab[].n_buffers
 *   n_clean = |{buffers of the slab: LIVE, no dirty byte}|
 */
struct tb_slab {
    struct tb_lane lane[TB_LANES];
    _Atomic uint32_t n_clean; /* LIVE without dirty bytes: may be reclaimed */
    _Atomic uint32_t hand;    /* where reclaiming looks next */
} __attribute__((aligned(64)));

/*
 * Owner: buffer, tiering.  No lock.
 * Invariants, at rest:
 *   sum of `dirty`, modulo 2^64 = sum of the dirty bytes of the tier's buffers <= capacity of the tier.  One of them alone means
 *   nothing: bytes that one client made dirty are made clean by another.  tb_tier_dirty (region/counters.h) is the sum
 */
struct tb_tier_counters {
    struct {
        _Atomic uint64_t bytes __attribute__((aligned(64)));
    } dirty[TB_LANES];
    _Atomic uint64_t flushed, waits;
    _Atomic uint64_t moved_to[TB_MAX_TIERS]; /* valid bytes that went from here to the other */
};

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
    struct tb_copy_choice copy; /* how all of its processes copy: measured when it was made */

    struct tb_daemon_life daemon;
    struct tb_registry registry;
    struct tb_queue queue;
    struct tb_names names;
    struct tb_changes changes;
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
    struct tb_asking asking;
    struct tb_totals totals;
    struct tb_tier_counters tier[TB_MAX_TIERS];
    struct tb_sampling sampling;
};

#define TB_CHUNK_WRITERS 6u
/*
 * One stripe of chunks (buffer/chunk.h).
 * Lock: `lock`, for the four counts and marks; `sequence` is odd while it is held; a word of `writer` is its writer's.
 * Readers, and writers in place, touch only the first line.
 */
struct tb_chunk_lock {
    _Atomic uint32_t sequence;
    _Atomic uint32_t file;                     /* of the chunk that it was last taken for */
    _Atomic uint64_t writer[TB_CHUNK_WRITERS]; /* notes of those that write in place */
    _Atomic uint32_t moving;                   /* enum tb_move_step: what a killed holder was about, see tiering/move.h */
    uint32_t n_voided;                         /* moves when a flush makes records of its chunks void, */
    struct tb_lock lock __attribute__((aligned(64)));
    uint32_t n_spilled; /* and this when bytes of its chunks may have gone to the PFS without a buffer */
};
_Static_assert(sizeof(struct tb_chunk_lock) == 128, "two cache lines");

struct tb_file_lock {
    struct tb_lock lock;
} __attribute__((aligned(64)));

struct tb_locks {
    struct tb_chunk_lock chunk[TB_STRIPES];
    struct tb_file_lock file[TB_STRIPES], end[TB_STRIPES], offset[TB_STRIPES], name[TB_NAME_STRIPES];
};

/* The region as one process sees it. */
struct tb_region {
    struct tb_header *header;
    struct tb_locks *locks;
    struct tb_slab *slabs; /* as many as the layout has */
    uint32_t *buckets;     /* buffer hash */
    struct tb_buffer *buffers;
    struct tb_interval *fragments;
    uint32_t *file_buckets; /* TB_STRIPES * files_per_stripe */
    uint32_t n_file_buckets;
    struct tb_file *files;
    struct tb_file_nodes *file_nodes; /* as many; NULL: nodes share nothing */
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
    struct tb_recent *recent;
    uint32_t n_recent;
    char *requests; /* n_requests of request_bytes each */
    uint32_t n_requests;
    size_t request_bytes;
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
