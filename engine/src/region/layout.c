/*
 * Where everything is in the region, computed from the configuration alone. So `tierctl
 * plan`, the daemon and an attaching process agree to the byte, and a header that says
 * otherwise is damaged.
 *
 * The configuration was checked, but a damaged header holds one that only looks so: until
 * the two layouts are compared (region.c), nothing here may rely on more than array limits
 * that the digest covers.
 */
#include "region/layout.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/byte_ranges.h"
#include "region/region.h"
#include "region/sample.h"

#define PAGE 4096u
#define FILES_PER_RECENT 16
#define RECENT_MAX 256
#define FILES_PER_NAME 4u /* files for each node of the name tree: a directory usually holds a few files */
#define NAMES_MIN 1024u
#define OPENS_MIN 4096u /* open descriptions: as many as files within these bounds */
#define OPENS_MAX 65536u
#define FRAGMENTS_MAX 4096u /* except for those of memory */
#define GHOSTS_MIN 1024u
#define GHOSTS_MAX 65536u

static const char *const section_names[TB_N_SECTIONS] = {
    [TB_SECTION_HEADER] = "header",
    [TB_SECTION_LOCKS] = "locks",
    [TB_SECTION_SLABS] = "slabs",
    [TB_SECTION_BUCKETS] = "buffer hash",
    [TB_SECTION_BUFFERS] = "buffer records",
    [TB_SECTION_FRAGMENTS] = "fragments",
    [TB_SECTION_FILES] = "file records",
    [TB_SECTION_DIRS] = "names",
    [TB_SECTION_OPENS] = "open descriptions",
    [TB_SECTION_GHOSTS] = "missed recently",
    [TB_SECTION_UNITS] = "dispersion units",
    [TB_SECTION_CLIENTS] = "clients",
    [TB_SECTION_SAMPLES] = "samples",
    [TB_SECTION_NODES] = "files of nodes",
    [TB_SECTION_RECENT] = "recent writes",
    [TB_SECTION_REQUESTS] = "requests",
    [TB_SECTION_DATA] = "buffers",
};

const char *tb_section_name(enum tb_section section)
{
    return section_names[section];
}

uint64_t tb_layout_tier_bytes(const struct tb_layout *l, uint32_t tier)
{
    uint64_t bytes = 0;
    for (uint32_t s = l->tier_first_slab[tier]; tb_is_slab_of(l, s, tier); s++)
        bytes += l->slab[s].n_buffers * l->slab[s].buffer_size;
    return bytes;
}

static uint64_t round_up(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

/* Of one request: a piece of a file that another node sends. Small where memory is. */
static uint64_t request_bytes(const struct tb_config *config)
{
    uint64_t bytes = TB_REQUEST_BYTES_MAX;
    for (uint32_t t = config->n_tiers; t-- > 0;)
        if (config->tiers[t].medium == TB_MEDIUM_MEMORY && config->tiers[t].capacity / 256 < bytes)
            bytes = config->tiers[t].capacity / 256;
    return round_up(bytes < TB_REQUEST_BYTES_MIN ? TB_REQUEST_BYTES_MIN : bytes, PAGE);
}

/* At least 1. A power, so that a hash takes bits and does not divide. */
static uint64_t power_of_two(uint64_t at_least)
{
    uint64_t p = 1;
    while (p < at_least)
        p *= 2;
    return p;
}

/* One message: file, key, what is wrong and what is allowed. */
static int refuse(struct tb_error *err, const struct tb_config *config, const char *key, const char *text)
{
    snprintf(err->text, sizeof(err->text), "%.900s: %.40s: %s", config->file, key, text);
    return -EINVAL;
}

/*
 * The distinct buffer sizes, ascending; each must divide the next. Slabs of several tiers
 * with buffers of one size are one class: a look-up asks once for all of them.
 */
static int find_classes(const struct tb_config *config, struct tb_layout *l, struct tb_error *err)
{
    for (uint32_t t = 0; t < config->n_tiers; t++)
        for (uint32_t s = 0; s < config->tiers[t].n_slabs; s++) {
            uint64_t size = (uint64_t)config->tiers[t].block * config->tiers[t].slabs[s].units;
            uint32_t at = 0;
            while (at < l->n_classes && l->class_size[at] < size)
                at++;
            if (at < l->n_classes && l->class_size[at] == size)
                continue;
            if (l->n_classes == TB_MAX_CLASSES)
                return refuse(err, config, "tiers[].slabs", "more than 8 distinct buffer sizes");
            memmove(&l->class_size[at + 1], &l->class_size[at], (l->n_classes - at) * sizeof(l->class_size[0]));
            l->class_size[at] = size;
            l->n_classes++;
        }
    /* Cells must nest: a cell that overlapped only a part of a larger one would own bytes that it does not hold. */
    for (uint32_t c = 0; c + 1 < l->n_classes; c++)
        if (l->class_size[c + 1] % l->class_size[c])
            return refuse(err, config, "tiers[].slabs[].units", "every buffer size must divide the next larger one");
    if (l->n_classes && l->class_size[l->n_classes - 1] > UINT32_MAX / 2)
        return refuse(err, config, "tiers[].slabs[].units", "every buffer size must be under 2 GiB");
    for (uint32_t c = 0; c < l->n_classes; c++)
        l->class_divisor[c] = tb_size_of(l->class_size[c]);
    return 0;
}

/* Every size was given its class by find_classes. */
static uint32_t class_of(const struct tb_layout *l, uint64_t size)
{
    uint32_t c = 0;
    assert(l->n_classes > 0 && size <= l->class_size[l->n_classes - 1]);
    while (l->class_size[c] != size)
        c++;
    return c;
}

/* How many buffers a slab gets if the tier has `bytes` for its buffers. The beta's rule: truncate, then divide. */
static uint64_t slab_count(const struct tb_config_slab *slab, uint64_t bytes, uint64_t size)
{
    return (uint64_t)((double)bytes * slab->share) / size;
}

/*
 * Number the buffers of all slabs; `memory_bytes` is what the memory tiers' buffers may use
 * each. Numbers are of 31 bits, so that a number and a sum of two of them fit 32, and
 * TB_NONE is never one. It is counted in 64 bits first.
 */
static int count_buffers(const struct tb_config *config, struct tb_layout *l, const uint64_t *memory_bytes, struct tb_error *err)
{
    uint64_t n = 0;
    l->n_slabs = 0;
    for (uint32_t t = 0; t < config->n_tiers; t++) {
        const struct tb_config_tier *tier = &config->tiers[t];
        l->tier_first_slab[t] = l->n_slabs;
        for (uint32_t s = 0; s < tier->n_slabs; s++) {
            struct tb_layout_slab *slab = &l->slab[l->n_slabs++];
            uint64_t size = (uint64_t)tier->block * tier->slabs[s].units;
            uint64_t bytes = tier->medium == TB_MEDIUM_MEMORY ? memory_bytes[t] : tier->capacity;
            uint64_t count = slab_count(&tier->slabs[s], bytes, size);
            *slab = (struct tb_layout_slab){.tier = t,
                                            .class_index = class_of(l, size),
                                            .buffer_size = size,
                                            .first_buffer = (uint32_t)n,
                                            .n_buffers = (uint32_t)count};
            n += count;
            if (n >= UINT32_MAX / 2)
                return refuse(err, config, "tiers", "more than 2^31 buffers: raise block or units");
        }
    }
    assert(l->n_slabs <= TB_MAX_TIERS * TB_MAX_SLABS && n < TB_NONE / 2);
    l->n_buffers = (uint32_t)n;
    return 0;
}

/* Whole pages, so that no two sections share one. */
static void set_section(struct tb_layout *l, enum tb_section s, uint64_t count, uint64_t each)
{
    l->section[s].count = count;
    l->section[s].each = each;
    l->section[s].bytes = round_up(count * each, PAGE);
}

/*
 * Only buffers above one block can need a fragment. Those in memory may all need one at a time, where programs write pages at
 * random or records by turns, and a write that finds none free flushes its buffer. So memory tiers have fragments for all their
 * bytes, 8 for each block; there are others for one in eight buffers.
 */
static uint64_t n_fragments(const struct tb_config *config, const struct tb_layout *l)
{
    uint64_t memory = 0, other = 0;
    for (uint32_t s = 0; s < l->n_slabs; s++) {
        const struct tb_layout_slab *slab = &l->slab[s];
        if (slab->buffer_size <= TB_BLOCK_MIN)
            continue;
        if (config->tiers[slab->tier].medium == TB_MEDIUM_MEMORY)
            memory += slab->n_buffers * slab->buffer_size / l->class_size[l->n_classes - 1];
        other += slab->n_buffers;
    }
    other = other ? other / 8 + 64 : 0;
    other = other < FRAGMENTS_MAX ? other : FRAGMENTS_MAX;
    return memory > other ? memory : other;
}

/*
 * A working set larger than all tiers cannot be staged in anyway. Twice as many entries,
 * because one set of ways may be full early.
 */
/* A file finds its slot by its number, so many files share a slot. */
static uint64_t n_recent(uint64_t files)
{
    return files / FILES_PER_RECENT < 1 ? 1 : files / FILES_PER_RECENT < RECENT_MAX ? files / FILES_PER_RECENT : RECENT_MAX;
}

static uint64_t n_ghosts(const struct tb_config *config)
{
    uint64_t bytes = 0;
    for (uint32_t t = 0; t < config->n_tiers; t++)
        bytes += config->tiers[t].capacity;
    uint64_t n = power_of_two(2 * (bytes / TB_GHOST_FRAME + 1));
    return n < GHOSTS_MIN ? GHOSTS_MIN : n > GHOSTS_MAX ? GHOSTS_MAX : n;
}

static uint64_t n_opens(uint64_t files)
{
    return files < OPENS_MIN ? OPENS_MIN : files > OPENS_MAX ? OPENS_MAX : files;
}

/* One section after the other, without gaps. Where the buffers may begin. */
static uint64_t place_metadata(struct tb_layout *l)
{
    uint64_t bytes = 0;
    for (int s = 0; s < TB_SECTION_DATA; s++) {
        l->section[s].offset = bytes;
        bytes += l->section[s].bytes;
    }
    assert(bytes % PAGE == 0);
    return bytes;
}

/*
 * Size all sections except the buffers of the memory tiers; returns the bytes. Tables of
 * files are whole stripes, so that record and bucket of one number have one lock, and
 * clients are whole words of bits.
 */
static uint64_t size_metadata(const struct tb_config *config, struct tb_layout *l)
{
    uint64_t files = round_up(config->max_files, TB_STRIPES), clients = round_up(config->max_clients, TB_CLIENTS_WORD);

    l->n_buckets = (uint32_t)(TB_STRIPES * power_of_two((l->n_buffers + TB_STRIPES - 1) / TB_STRIPES));
    l->n_fragments = (uint32_t)n_fragments(config, l);
    l->fragment_bytes = l->n_classes ? l->class_size[l->n_classes - 1] / TB_BLOCK_MIN * sizeof(struct tb_interval) : 0;
    set_section(l, TB_SECTION_HEADER, 1, sizeof(struct tb_header));
    set_section(l, TB_SECTION_LOCKS, 1, sizeof(struct tb_locks));
    set_section(l, TB_SECTION_SLABS, l->n_slabs, sizeof(struct tb_slab));
    set_section(l, TB_SECTION_BUCKETS, l->n_buckets, sizeof(uint32_t));
    set_section(l, TB_SECTION_BUFFERS, l->n_buffers, sizeof(struct tb_buffer));
    set_section(l, TB_SECTION_FRAGMENTS, l->n_fragments, l->fragment_bytes);
    set_section(l, TB_SECTION_FILES, files, sizeof(struct tb_file) + sizeof(uint32_t));
    set_section(l, TB_SECTION_DIRS, NAMES_MIN + files / FILES_PER_NAME, sizeof(struct tb_name) + sizeof(uint32_t));
    set_section(l, TB_SECTION_OPENS, n_opens(files), sizeof(struct tb_open) + clients / TB_CLIENTS_WORD * sizeof(uint64_t));
    set_section(l, TB_SECTION_CLIENTS, clients, sizeof(struct tb_client));
    set_section(l, TB_SECTION_GHOSTS, n_ghosts(config), sizeof(struct tb_ghost));
    set_section(l, TB_SECTION_UNITS, config->placement.n_unit_ranges, sizeof(struct tb_unit_range));
    set_section(l, TB_SECTION_SAMPLES, TB_SAMPLES, sizeof(struct tb_sample));
    bool shares = config->several_nodes == TB_NODES_SHARED;
    set_section(l, TB_SECTION_NODES, shares ? files : 0, sizeof(struct tb_file_nodes));
    set_section(l, TB_SECTION_RECENT, shares ? n_recent(files) : 0, sizeof(struct tb_recent));
    uint64_t desks = !shares ? 0 : tb_config_remote_tier(config) < config->n_tiers ? TB_DESKS : TB_DESK_FILES + 1;
    set_section(l, TB_SECTION_REQUESTS, desks * TB_REQUESTS, request_bytes(config));
    assert(l->n_buckets % TB_STRIPES == 0);
    return place_metadata(l);
}

/* The first memory tier pays for the metadata: its buffers get the rest. Without a memory tier the metadata is all there is. */
static int pay(const struct tb_config *config, const struct tb_layout *l, uint64_t metadata, uint64_t *memory_bytes, struct tb_error *err)
{
    for (uint32_t t = 0; t < config->n_tiers; t++) {
        if (config->tiers[t].medium != TB_MEDIUM_MEMORY)
            continue;
        if (metadata > memory_bytes[t]) {
            snprintf(err->text, sizeof(err->text),
                     "%.600s: tiers[%u].capacity: %llu bytes do not hold the engine's metadata of %llu bytes "
                     "(%u buffers, max_files %u, max_clients %u): raise capacity or lower max_files",
                     config->file, t, (unsigned long long)config->tiers[t].capacity, (unsigned long long)metadata, l->n_buffers,
                     config->max_files, config->max_clients);
            return -EINVAL;
        }
        memory_bytes[t] -= metadata;
        break;
    }
    return 0;
}

/*
 * The buffers of memory tiers come last, so that the metadata needs no knowledge of them. They
 * begin at a page, and each slab at a multiple of its blocks.
 */
static void place_data(const struct tb_config *config, struct tb_layout *l, uint64_t at)
{
    uint64_t start = at;
    for (uint32_t s = 0; s < l->n_slabs; s++)
        if (config->tiers[l->slab[s].tier].medium == TB_MEDIUM_MEMORY) {
            l->slab[s].data_offset = at;
            at += l->slab[s].n_buffers * l->slab[s].buffer_size;
        }
    l->section[TB_SECTION_DATA] = (struct tb_layout_section){start, at - start, 1, at - start};
    l->total_bytes = round_up(at, config->region.page ? config->region.page : PAGE);
}

/*
 * The same result for the same configuration in every process of this version: nothing else
 * is asked. The second count has fewer buffers than the first, so their metadata fits what
 * was paid.
 */
int tb_layout_compute(const struct tb_config *config, struct tb_layout *out, struct tb_error *err)
{
    uint64_t memory_bytes[TB_MAX_TIERS], page = config->region.page ? config->region.page : 1;
    memset(out, 0, sizeof(*out));
    for (uint32_t t = 0; t < config->n_tiers; t++)
        memory_bytes[t] = config->tiers[t].capacity - config->tiers[t].capacity % page; /* the region must fit in whole pages */
    uint64_t paid = 0;
    int rc = find_classes(config, out, err);
    /* Counted twice: the records of the memory tier's own buffers are part of what it pays for. */
    if (!rc)
        rc = count_buffers(config, out, memory_bytes, err);
    if (!rc)
        rc = pay(config, out, paid = size_metadata(config, out), memory_bytes, err);
    if (!rc)
        rc = count_buffers(config, out, memory_bytes, err);
    if (!rc)
        place_data(config, out, size_metadata(config, out));
    assert(rc || out->section[TB_SECTION_DATA].offset <= paid);
    return rc;
}

/* At least TB_CHUNK_MIN: smaller chunks would spread the bytes of one call over many locks. */
uint64_t tb_layout_chunk(const struct tb_layout *l)
{
    uint64_t largest = l->n_classes ? l->class_size[l->n_classes - 1] : TB_CHUNK_MIN;
    return largest >= TB_CHUNK_MIN ? largest : TB_CHUNK_MIN / largest * largest;
}
