/*
 * Placement in an instance: the engine describes itself to the policy of its
 * configuration (placement/policy.h) and keeps what the policy gives back.
 */
#ifndef TB_PLACEMENT_H
#define TB_PLACEMENT_H

#include "placement/policy.h"
#include "region/handle.h"

/* What one process needs to place; made when it attaches. */
struct tb_placer {
    const struct tb_placement_ops *policy;
    struct tb_tiers tiers;
};

/* For free(); NULL: no memory. */
struct tb_placer *tb_placer_new(const struct tb_config *config, const struct tb_layout *layout, const struct tb_unit_range *units);

const struct tb_placement_ops *tb_placement_ops_of(enum tb_policy policy);

/* Bytes of a file that no buffer owns yet; they are in one chunk, which the caller has locked. */
struct tb_place_request {
    uint32_t file;
    uint64_t offset, bytes;
    bool may_flush; /* the caller can flush first and ask again */
};

void tb_place(tb_engine *e, const struct tb_place_request *request, struct tb_placement *out);

static inline bool tb_place_together(const tb_engine *e)
{
    return e->placement->policy->together;
}

void tb_place_count_access(tb_engine *e, uint32_t file);

/* Note an access to the file's bytes. */
static inline void tb_place_note_access(tb_engine *e, uint32_t file)
{
    if (e->placement->policy->note_access)
        tb_place_count_access(e, file);
}

/* Note the file's name, new or changed. */
void tb_place_note_name(tb_engine *e, struct tb_file *f, const char *path);

#endif
