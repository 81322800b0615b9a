/*
 * Placement: which tiers take the bytes of one write.  A policy is one file with
 * one table; adding a policy is adding a file, a name in the configuration and a
 * line in placement/placement.c.
 *
 * Policies judge by predicted time: what is queued at the tier, its latency, and
 * bytes / bandwidth, from the tier's model, else its measured profile, else
 * nominal figures in which only the order of media counts.
 */
#ifndef TB_PLACEMENT_H
#define TB_PLACEMENT_H

#include "placement/hot_data.h"
#include "region/handle.h"

#define TB_MAX_PARTS 16u

/* Bytes of a file that no buffer owns yet; they lie in one chunk, which the caller has locked. */
struct tb_place_request {
    uint32_t file;
    uint64_t offset, bytes;
    bool may_flush; /* the caller can flush first and ask again */
};

struct tb_placement {
    uint64_t bytes; /* the first of the request's, that this is about: the rest is asked for again; 0: all */
    uint32_t n;
    struct {
        uint32_t tier;
        uint64_t bytes;
    } part[TB_MAX_PARTS];   /* in the order of the file's bytes; what they don't cover goes to the PFS */
    uint32_t flush_tier;
    uint64_t flush_first;   /* bytes to flush from that tier before asking again; 0: place as said */
};

struct tb_placement_ops {
    const char *name;
    void (*place)(tb_engine *e, const struct tb_place_request *request, struct tb_placement *out);
    void (*note_name)(tb_engine *e, struct tb_file *f, const char *path); /* NULL: names are nothing to it */
    bool together; /* the parts of a write are handed to their devices at once */
};

extern const struct tb_placement_ops tb_placement_max_bandwidth;
extern const struct tb_placement_ops tb_placement_data_locality;
extern const struct tb_placement_ops tb_placement_hot_data;
extern const struct tb_placement_ops tb_placement_user_defined;
extern const struct tb_placement_ops tb_placement_random;
extern const struct tb_placement_ops tb_placement_round_robin;
extern const struct tb_placement_ops tb_placement_minimize_io_time;

void tb_place(tb_engine *e, const struct tb_place_request *request, struct tb_placement *out);

bool tb_place_together(const tb_engine *e);

static inline void tb_place_note_access(tb_engine *e, uint32_t file)
{
    if (e->header->config.placement.policy == TB_POLICY_HOT_DATA)
        tb_place_count_access(e, file);
}
/* Note the file's name, new or changed. */
void tb_place_note_name(tb_engine *e, struct tb_file *f, const char *path);

/* For policies: */

/* The next `bytes` to `tier`. */
void tb_placement_add(struct tb_placement *p, uint32_t tier, uint64_t bytes);
/* The next `bytes` to the tiers of `order`, as much as each has room for. */
void tb_placement_in_order(tb_engine *e, const uint32_t *order, uint32_t n, uint64_t bytes, struct tb_placement *out);
/* Multiples of this are ends of buffers in every tier. */
uint64_t tb_placement_grain(const tb_engine *e);

/* Figures of a tier, or of the PFS where `tier` is TB_NONE: seconds, bytes per second. */
struct tb_tier_figures {
    double latency, bandwidth; /* of a write */
    double read_latency, read_bandwidth;
    uint32_t channels;
};
struct tb_tier_figures tb_tier_figures(const tb_engine *e, uint32_t tier);
/* Seconds until a tier (TB_NONE: the PFS) would begin with what this thread gives it at its modelled time `now`. */
double tb_tier_queue(tb_engine *e, uint32_t tier, uint64_t now);
/* Others queue behind `seconds` of work that the tier was given. */
void tb_tier_reserve(tb_engine *e, uint32_t tier, uint64_t now, double seconds);

/* splitmix64: a number from a number. */
static inline uint64_t tb_scramble(uint64_t x)
{
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

#endif
