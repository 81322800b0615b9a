/*
 * The region's layout: which sections it has, how large each is, and therefore
 * how many buffers each slab gets.  Computed from the configuration alone, so
 * `tierctl plan` predicts exactly what `tierctl start` makes.
 *
 * Without a memory tier the metadata is the region.  With one, the memory tier
 * pays for all metadata out of its capacity: its buffers are what remains.
 */
#ifndef TB_LAYOUT_H
#define TB_LAYOUT_H

#include "config/config.h"

#define TB_NONE UINT32_MAX /* as an index: none */
#define TB_CHUNK_MIN (1u << 20)

/* A size that is divided by on every access: a shift where it is a power of two, as it nearly always is. */
struct tb_size {
    uint64_t bytes;
    uint8_t shift; /* TB_NO_SHIFT where `bytes` is no power of two */
};
#define TB_NO_SHIFT 255u

static inline struct tb_size tb_size_of(uint64_t bytes)
{
    bool power = bytes && !(bytes & (bytes - 1));
    return (struct tb_size){bytes, power ? (uint8_t)__builtin_ctzll(bytes) : TB_NO_SHIFT};
}

static inline uint64_t tb_size_divide(uint64_t n, struct tb_size by)
{
    return by.shift == TB_NO_SHIFT ? n / by.bytes : n >> by.shift;
}

struct tb_layout_slab {
    uint32_t tier;        /* index */
    uint32_t class_index; /* into class_size */
    uint32_t n_buffers;
    uint32_t first_buffer; /* global buffer number of its first */
    uint64_t buffer_size;  /* bytes */
    uint64_t data_offset;  /* memory medium: offset in the region; directory: 0, one file per slab */
};

enum tb_section {
    TB_SECTION_HEADER,
    TB_SECTION_LOCKS,
    TB_SECTION_SLABS,     /* free buffers and counts of each */
    TB_SECTION_BUCKETS,   /* buffer hash */
    TB_SECTION_BUFFERS,   /* buffer records */
    TB_SECTION_FRAGMENTS, /* per-block intervals of fragmented large buffers */
    TB_SECTION_FILES,     /* file records with their hash */
    TB_SECTION_DIRS,      /* directory names */
    TB_SECTION_OPENS,     /* open-file descriptions */
    TB_SECTION_CLIENTS,
    TB_SECTION_GHOSTS,   /* what was missed recently */
    TB_SECTION_UNITS,    /* byte ranges that belong together */
    TB_SECTION_SAMPLES,  /* statistics over time */
    TB_SECTION_NODES,    /* what file records have besides, where nodes share their tiers */
    TB_SECTION_RECENT,   /* the latest writes of some of them */
    TB_SECTION_REQUESTS, /* what clients ask of other nodes */
    TB_SECTION_DATA,     /* buffers of the memory tier */
    TB_N_SECTIONS,
};

struct tb_layout_section {
    uint64_t offset, bytes, count, each; /* bytes == count * each, rounded up to a page */
};

struct tb_layout {
    uint64_t total_bytes;
    struct tb_layout_section section[TB_N_SECTIONS];
    uint32_t n_classes;
    uint64_t class_size[TB_MAX_CLASSES]; /* ascending, bytes */
    struct tb_size class_divisor[TB_MAX_CLASSES];
    uint32_t n_slabs; /* of all tiers */
    struct tb_layout_slab slab[TB_MAX_TIERS * TB_MAX_SLABS];
    uint32_t tier_first_slab[TB_MAX_TIERS];
    uint32_t n_buffers; /* all tiers */
    uint32_t n_buckets;
    uint32_t n_fragments;
    uint64_t fragment_bytes; /* one map of the largest class */
};

/* The slabs of a tier are neighbours: s = l->tier_first_slab[tier]; tb_is_slab_of(l, s, tier); s++ */
static inline bool tb_is_slab_of(const struct tb_layout *l, uint32_t slab, uint32_t tier)
{
    return slab < l->n_slabs && l->slab[slab].tier == tier;
}

/* Bytes of all buffers of a tier. */
uint64_t tb_layout_tier_bytes(const struct tb_layout *l, uint32_t tier);

const char *tb_section_name(enum tb_section section);

/* -EINVAL with `err` set where the memory tier cannot pay for the metadata or counts overflow. */
int tb_layout_compute(const struct tb_config *config, struct tb_layout *out, struct tb_error *err);

/* Bytes of a chunk: a multiple of every class. */
uint64_t tb_layout_chunk(const struct tb_layout *layout);

#endif
