/*
 * A tier configuration, read from YAML (design: tiers fastest first) or from a
 * Hermes .conf file.  Reading validates everything that needs no file system;
 * tb_config_check_paths does the rest.  A problem is one message that names the
 * file, the key, the value and what is allowed.
 */
#ifndef TB_CONFIG_H
#define TB_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "config/device.h"
#include "config/policies.h"
#include "config/stage.h"
#include <tierbench/engine.h>

#define TB_MAX_SLABS 8   /* per tier */
#define TB_MAX_CLASSES 8 /* distinct buffer sizes of all tiers */
#define TB_MAX_PREFIXES 16
#define TB_BLOCK_MIN 4096u /* bytes; every block size is a multiple */
#define TB_NAME_MAX 32
#define TB_MAX_RULES 16 /* of placement; one bit each in a word */
#define TB_MAX_UNIT_FILES 32
#define TB_PATTERN_MAX 256

enum tb_medium {
    TB_MEDIUM_MEMORY,
    TB_MEDIUM_DIRECTORY,
    TB_MEDIUM_REMOTE, /* memory that other nodes lend, with `nodes: shared`: at most one tier */
};

enum tb_flush_policy { TB_FLUSH_ON_CLOSE, TB_FLUSH_WATERMARK, TB_FLUSH_MANUAL };

struct tb_config_slab {
    uint32_t units; /* buffer size in blocks */
    double share;   /* of the tier's capacity, 0..1; the shares of a tier sum to at most 1 */
};

struct tb_config_tier {
    char name[TB_NAME_MAX];
    enum tb_medium medium;
    char path[TB_PATH_MAX]; /* directory tiers, ${VAR} expanded, absolute */
    uint64_t capacity;      /* bytes */
    uint32_t block;         /* bytes */
    uint32_t n_slabs;
    struct tb_config_slab slabs[TB_MAX_SLABS];
    bool shared; /* between nodes */
    bool modelled;
    struct tb_device model;
    bool profiled;
    struct tb_device profile; /* measured figures: they predict, and slow nothing down */
};

struct tb_config_prefix {
    char prefix[TB_PATH_MAX]; /* absolute, normalised, no trailing slash */
    enum tb_mode mode;
};

/* user-defined placement: files that match all of it go to `tier`, the first with room. */
struct tb_config_rule {
    char pattern[TB_PATTERN_MAX]; /* of the path; `*` also matches slashes */
    uint64_t at_least, at_most;   /* bytes of the file once written */
    uint32_t n_tiers;
    char name[TB_MAX_TIERS][TB_NAME_MAX]; /* as given */
    uint32_t tier[TB_MAX_TIERS];
};

/* data-locality: a file with dispersion units as byte ranges (config/byte_ranges.h). */
struct tb_config_unit_file {
    char pattern[TB_PATTERN_MAX]; /* of the path; `*` also matches slashes */
    uint32_t first, n;            /* its ranges in the region's table */
};

struct tb_config_placement {
    enum tb_policy policy;
    uint64_t unit;           /* data-locality: bytes of a dispersion unit; 0: a chunk, UINT64_MAX: a file */
    char units[TB_PATH_MAX]; /* data-locality: a file, see config/byte_ranges.h; "": none */
    uint32_t n_unit_files, n_unit_ranges;
    uint64_t units_digest; /* of the ranges */
    struct tb_config_unit_file unit_files[TB_MAX_UNIT_FILES];
    uint32_t n_rules;
    struct tb_config_rule rules[TB_MAX_RULES];
};

struct tb_config_hint {
    char prefix[TB_PATH_MAX]; /* as of a mode */
    enum tb_hint hint;
};

enum tb_huge_wish { TB_HUGE_AUTO = 0, TB_HUGE_NEVER }; /* is a mounted place with huge pages looked for? */

struct tb_config {
    char file[TB_PATH_MAX]; /* absolute path it was read from */
    uint32_t version;
    uint32_t max_files;
    uint32_t max_clients; /* processes attached at once */
    struct {
        char path[TB_PATH_MAX];
        bool modelled;
        struct tb_device model;
        bool profiled;
        struct tb_device profile;
    } pfs;
    struct {
        char directory[TB_PATH_MAX];  /* a tmpfs or hugetlbfs with huge pages; "": /dev/shm */
        uint64_t page;                /* bytes; the region is whole pages of this size; 0: of the smallest */
        enum tb_huge_wish huge_pages; /* without a directory */
    } region;
    uint32_t n_prefixes; /* a plain `mode: M` is one prefix, the PFS's path */
    struct tb_config_prefix prefixes[TB_MAX_PREFIXES];
    bool by_environment; /* a Hermes .conf: each client chooses its paths (namespace/environment.h), not `prefixes` */
    enum tb_fsync fsync;
    uint32_t copies;        /* of what is committed and the PFS lacks: 2 with a second one on another node (shared/wire.h) */
    uint64_t copies_memory; /* what this node keeps for others, at most */
    int several_nodes;      /* enum tb_nodes; not 0: instances on other nodes work on the same PFS, see file/file.c */
    struct {
        char folder[TB_PATH_MAX]; /* which all nodes see; "": pfs.path */
        char interface[64];       /* bound to; "": that of the host's name */
        char provider[64];
    } network;
    int deferred;        /* `namespace: deferred`: a new file takes its place at its first flush (namespace/deferred.h) */
    bool allow_volatile; /* `allow_volatile: true`: a tmpfs directory tier counts as persistent (tests) */
    struct {
        enum tb_flush_policy policy;
        bool background; /* on-close: close does not wait */
        uint32_t threads;
        double high, low; /* watermark: fractions of a tier's capacity */
    } flush;
    struct tb_config_placement placement;
    struct {
        bool enabled;
        double high, low;           /* fractions of a tier's capacity that is not on the PFS: when to move down, and until when */
        uint64_t prefetch;          /* bytes ahead of a reader; 0: none */
        char schedule[TB_PATH_MAX]; /* a file, see instance/schedule.h; "": none */
    } organizer;
    uint32_t n_hints;
    struct tb_config_hint hints[TB_MAX_PREFIXES]; /* the longest prefix wins */
    uint32_t n_tiers;
    struct tb_config_tier tiers[TB_MAX_TIERS];
    struct tb_config_stage stage_out, stage_in; /* whole files, which tierctl's mover moves; the engine does not look at them */
};

enum tb_nodes { TB_NODES_ONE, TB_NODES_SEVERAL, TB_NODES_SHARED };

/*
 * Read and validate FILE (by its suffix: .conf is Hermes' format, else YAML).
 * 0, or -EINVAL / -errno with `err` set.  The fsync promise `tier` without a
 * directory tier, and `none` outside scratch, are refused here.
 */
int tb_config_read(const char *file, struct tb_config *out, struct tb_error *err);

/* A Hermes .conf file with a fragment (a .conf without num_devices) merged over it, key by key. */
int tb_config_read_merged(const char *base, const char *fragment, struct tb_config *out, struct tb_error *err);

/*
 * What an instance is made with, and what recovers it: FILE with an optional fragment and an optional `--mode`.  Programs
 * of a Hermes .conf say themselves which of their files stay; of these an fsync is the PFS's.
 */
int tb_config_read_for_instance(const char *file, const char *fragment, const char *mode, struct tb_config *out, struct tb_error *err);

void tb_config_defaults(struct tb_config *out);

/* `--mode`: every prefix gets this mode; fsync follows where it must (scratch: none, bypass: pfs). */
int tb_config_set_mode(struct tb_config *config, const char *mode, struct tb_error *err);

/* Digest of all that shapes the region; equal configurations have equal digests. */
uint64_t tb_config_digest(const struct tb_config *config);

const char *tb_mode_name(enum tb_mode mode);
const char *tb_medium_name(enum tb_medium medium);
const char *tb_flush_name(enum tb_flush_policy policy);
const char *tb_fsync_name(enum tb_fsync fsync);
int tb_mode_parse(const char *text, enum tb_mode *out);

/* The tier in other nodes' memory, or the number of tiers where there is none. */
static inline uint32_t tb_config_remote_tier(const struct tb_config *config)
{
    uint32_t t = 0;
    while (t < config->n_tiers && config->tiers[t].medium != TB_MEDIUM_REMOTE)
        t++;
    return t;
}

#endif
