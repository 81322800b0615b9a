/*
 * One process's handle on an instance: the mapped region, the chains to every place,
 * descriptors of slab files and journal, and its table from descriptors to open
 * descriptions.
 */
#ifndef TB_CLIENT_H
#define TB_CLIENT_H

#include <assert.h>
#include <pthread.h>

#include "region/region.h"

#define TB_FD_PIECES 1024u /* descriptors known: TB_FD_PIECES * TB_FD_PIECE */
#define TB_FD_PIECE 1024u
#define TB_KNOWN_DIRECTORIES 1024u
#define TB_WINDOW (64u << 10) /* of addresses: what the kernel maps around one fault of a load, unless it was told otherwise */

struct tb_flush_choice {
    enum tb_flush_policy policy;
    bool background;
};

/* Which prefix a path is managed under: namespace/route.h. */
struct tb_route {
    const struct tb_config_prefix *prefix; /* NULL: not managed */
    size_t length;                         /* of the prefix */
    bool is_outside;                       /* not managed, because the file system has the name already */
};

/* The engine as a layer: one for each prefix, so that a name which was routed to it isn't routed again. */
struct tb_engine_io {
    struct tb_io io; /* first */
    struct tb_engine *engine;
    struct tb_route route; /* of all names that are given to it; no prefix: it routes each */
};

/* The path of the directory that this client keeps in use, with its slash; under names.lock: file/name_tree.c. */
struct tb_kept_directory {
    uint32_t n_moves; /* when it was looked up */
    size_t length;
    char path[512];
};

/* How a process reaches buffers of a remote tier. 0, or -EHOSTDOWN: the node that lends its memory is lost, or can't be asked. */
struct tb_borrow_ops {
    int (*read)(tb_engine *e, const struct tb_buffer *b, uint32_t lo, uint32_t n, void *to);
    int (*write)(tb_engine *e, const struct tb_buffer *b, uint32_t lo, uint32_t n, const void *from);
};

struct tb_engine {
    struct tb_engine_io any; /* routes each name it is given */
    uint64_t number;         /* unique in this process; an address may be used again */
    struct tb_region region;
    struct tb_header *header;
    struct tb_copier copy; /* bytes between a program and the region: header->copy, where this processor can */
    struct tb_io *base;
    struct tb_io *pfs;                  /* chain to the PFS */
    struct tb_io *tier[TB_MAX_TIERS];   /* chains to the directory tiers */
    const struct tb_borrow_ops *borrow; /* for the remote tier: by the daemon, or its own (shared/borrow.h) */
    int slab_fd[TB_MAX_TIERS * TB_MAX_SLABS];
    int journal_fd;  /* -1 without a persistent directory tier */
    int mark_fd;     /* of the journal's mark */
    int region_file; /* the region's descriptor, in use as a lease is; -1 where it is the lease */
    int lease;       /* held by this process and its children as long as they use the instance: region/lease.h */
    uint32_t journal_tier;
    struct tb_io *shadow_io;
    char shadow[TB_PATH_MAX];        /* directory that holds the files of scratch prefixes */
    char waiting[TB_PATH_MAX + 256]; /* directory of names that wait; "": none do */
    size_t shadow_length;
    const struct tb_config_prefix *prefixes; /* the configuration's, or this process's own: namespace/environment.h */
    uint32_t n_prefixes;
    struct tb_engine_io *routed;                                          /* one a prefix */
    struct tb_config_prefix *own_prefixes;                                /* NULL: the configuration's */
    struct tb_flush_choice flush;                                         /* as `prefixes` */
    struct tb_placer *placement;                                          /* placement/placement.h */
    void (*note_name)(tb_engine *e, struct tb_file *f, const char *path); /* placement's: the table of files knows no policy */
    struct tb_kept_directory kept_directory;
    _Atomic uint64_t known[TB_KNOWN_DIRECTORIES]; /* directories of the shadow found real: namespace/shadow.c */
    _Atomic uint64_t made[TB_KNOWN_DIRECTORIES];  /* directories of the shadow that this process made: the same */
    uint32_t slot;                                /* of this client; TB_NONE: it only looks */
    uint32_t fork_slot;                           /* of the child that fork is about to make */
    bool passes_through;                          /* forked when no slot was left: its own descriptors are the kernel's alone */
    bool is_foreign;                              /* forked into another PID namespace: instance/fork.c */
    bool knows_children;                          /* the kernel says in which namespace children will be */
    pthread_mutex_t fork_lock;
    _Atomic(_Atomic uint32_t *) fds[TB_FD_PIECES]; /* descriptor -> open description + 1 */
    _Atomic uint16_t *local_refs;                  /* this process's descriptors per open description */
    struct tb_late *late;                          /* its open that does not know its file yet: layer/late.c */
    struct tb_reader *readers;                     /* what this process knows of each description: tiering/stream.h */
    _Atomic uint8_t *mapped;                       /* a bit for each window of the region: this process has mapped its pages */
    struct tb_background *background;
    uint32_t flush_threads;   /* threads that may share the flush of one file; 0 and 1: one does it */
    _Atomic uint32_t n_stuck; /* threads of a drain that gave up and wait still: until they end the handle stays */
    struct tb_lost *lost;     /* a recovery's: what its drain does with bytes of files that are gone */
    uint64_t shared_device;   /* where the files are that nodes share (shared/commit.h); 0: none are */
    bool is_daemon;           /* holds the daemon's lock, which must be dropped before the region is unmapped */
};

static inline const struct tb_config *tb_config_of(const tb_engine *e)
{
    return &e->header->config;
}

static inline const struct tb_layout *tb_layout_of(const tb_engine *e)
{
    return &e->header->layout;
}

static inline const struct tb_layout_slab *tb_slab_layout(const tb_engine *e, const struct tb_buffer *b)
{
    return &e->header->layout.slab[b->slab];
}

static inline uint64_t tb_buffer_size(const tb_engine *e, const struct tb_buffer *b)
{
    return tb_slab_layout(e, b)->buffer_size;
}

static inline uint64_t tb_buffer_start(const tb_engine *e, const struct tb_buffer *b)
{
    return b->cell * tb_buffer_size(e, b);
}

static inline uint32_t tb_buffer_number(const tb_engine *e, const struct tb_buffer *b)
{
    return (uint32_t)(b - e->region.buffers);
}

static inline struct tb_tier_counters *tb_counters(const tb_engine *e, const struct tb_buffer *b)
{
    return &e->header->tier[tb_slab_layout(e, b)->tier];
}

/* Bytes of `mapped`. */
static inline size_t tb_windows_bytes(const tb_engine *e)
{
    uintptr_t base = (uintptr_t)e->region.base;
    return ((base + e->region.bytes - 1) / TB_WINDOW - base / TB_WINDOW) / 8 + 1;
}

static inline bool tb_tier_is_directory(const tb_engine *e, uint32_t tier)
{
    return e->header->config.tiers[tier].medium == TB_MEDIUM_DIRECTORY;
}

/* Its buffers are in other nodes' memory: gone when such a node is lost, and never promised. */
static inline bool tb_buffer_is_remote(const tb_engine *e, const struct tb_buffer *b)
{
    return e->header->config.tiers[tb_slab_layout(e, b)->tier].medium == TB_MEDIUM_REMOTE;
}

static inline bool tb_tier_is_memory(const tb_engine *e, uint32_t tier)
{
    return e->header->config.tiers[tier].medium == TB_MEDIUM_MEMORY;
}

#endif
