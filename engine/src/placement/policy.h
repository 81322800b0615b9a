/*
 * What a placement policy is: a function from a small description of the hierarchy
 * and of one write to a placement.  It sees no engine and no region, so tests and
 * `tierctl plan` ask the same code as a running instance does.
 *
 * A policy is one file with one `tb_placement_NAME`, and one row of config/policies.h.
 * It says which parts of the description it reads (`needs`), because looking costs
 * time in every write.  One that needs more for some writes only asks for that in
 * `wants` and is called again; it changes its state in its last call only.
 *
 * Policies judge by predicted time: what is queued at the tier, its latency, and
 * bytes / bandwidth.
 */
#ifndef TB_POLICY_H
#define TB_POLICY_H

#include "placement/tiers.h"
#include "region/policy_state.h"

#define TB_MAX_PARTS 16u

/* Parts of the description that are looked at on demand. */
enum tb_known {
    TB_KNOW_TOP = 1,     /* tier[0].room; where that is more than the write, perhaps only as much as it */
    TB_KNOW_ROOMS = 2,   /* tier[].room */
    TB_KNOW_DIRTY = 4,   /* tier[].dirty */
    TB_KNOW_QUEUES = 8,  /* tier[].queue, pfs_queue */
    TB_KNOW_BEFORE = 16, /* the write's neighbour before it */
    TB_KNOW_AFTER = 32,
    TB_KNOW_HEAT = 64, /* the file's hottest_memory and epoch */
};

struct tb_hierarchy {
    const struct tb_tiers *tiers; /* what never changes of them */
    unsigned known;               /* enum tb_known: the rest means nothing */
    struct {
        uint64_t room;  /* bytes that free and clean buffers can take */
        uint64_t dirty; /* bytes */
        double queue;   /* seconds until the tier would begin with what it is given now */
    } tier[TB_MAX_TIERS];
    double pfs_queue; /* the same of the PFS */
};

/* The file of a write or of an access. */
struct tb_placed_file {
    uint32_t number;
    uint32_t memory;         /* what the policy remembers of it: its heat, or the rules its name matches */
    uint64_t size;           /* bytes, without the write */
    uint32_t hottest_memory; /* of the file that the state calls hottest */
    uint32_t epoch;          /* of heat, see buffer/heat.h */
};

/* The buffer next to a write, in the same chunk. */
struct tb_neighbour {
    uint32_t tier;       /* TB_NONE: no buffer has that byte, or it is of another chunk */
    uint64_t start, end; /* bytes of the file */
};

/* Bytes of a file that no buffer owns yet; they are in one chunk. */
struct tb_placed_write {
    struct tb_placed_file file;
    uint64_t offset, bytes;
    bool may_flush; /* the writer can flush first and ask again */
    struct tb_neighbour before, after;
};

struct tb_placement {
    unsigned wants; /* enum tb_known that the policy lacks: it must be asked again with them, and the rest means nothing */
    uint64_t bytes; /* the first of the write's, that this is about: the rest is asked for again; 0: all */
    uint32_t n;
    uint32_t flush_tier;
    uint64_t flush_first; /* bytes to flush from that tier before asking again; 0: place as said */
    struct tb_part {
        uint32_t tier;
        uint64_t bytes;
        double seconds;   /* of work for the tier, which others queue after; 0: the policy predicts none */
    } part[TB_MAX_PARTS]; /* in the order of the file's bytes; what they don't cover goes to the PFS */
};

struct tb_placement_ops {
    unsigned needs; /* enum tb_known of the first call */
    bool together;  /* the parts of a write are handed to their devices at once */
    /* `out` is empty. */
    void (*place)(const struct tb_hierarchy *h, const struct tb_placed_write *w, struct tb_policy_state *state, struct tb_placement *out);
    /* What to remember of a file of this name, new or changed; NULL: names are nothing to it. */
    uint32_t (*note_name)(const struct tb_config_placement *settings, const char *path);
    /* What to remember of a file after one more access; NULL: accesses are nothing to it.  The file's heat is known. */
    uint32_t (*note_access)(struct tb_policy_state *state, const struct tb_placed_file *file);
};

/* For policies: */

/* The next `bytes` to `tier`, which they keep busy for `seconds`. */
void tb_placement_add(struct tb_placement *p, uint32_t tier, uint64_t bytes, double seconds);
/* The next `bytes` to the tiers of `order`, as much as each has room for. */
void tb_placement_in_order(const struct tb_hierarchy *h, const uint32_t *order, uint32_t n, uint64_t bytes, struct tb_placement *out);

/* What a policy gave, cheap: parts of tiers there are, for no more bytes than were asked for; a flush only where the writer can. */
bool tb_placement_is_valid(const struct tb_hierarchy *h, const struct tb_placed_write *w, const struct tb_placement *p);
/* The same, and no tier gets more than the room that the policy was told of. */
bool tb_placement_is_whole(const struct tb_hierarchy *h, const struct tb_placed_write *w, const struct tb_placement *p);

/* Nothing is placed yet. */
static inline void tb_placement_clear(struct tb_placement *p)
{
    p->wants = p->n = p->flush_tier = 0;
    p->bytes = p->flush_first = 0;
}

#endif
