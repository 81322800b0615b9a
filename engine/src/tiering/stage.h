/*
 * Stage-in: bytes that a reader had to fetch from the backing file stay in a buffer.
 *
 * When: at the second miss of the same bytes; at the first if a hint says keep or the file
 * is persistent-sync; never if a hint says once. Where: the fastest tier with a free
 * buffer, else with a clean one that was not used for longer than these bytes are worth.
 *
 * The reader holds the chunk's lock from its read to the publication, so no write of the
 * engine comes between. A change of a backing file without these locks (a truncation, a
 * file made coherent, another node) calls tb_stage_void; then what was read before is not
 * staged.
 */
#ifndef TB_STAGE_H
#define TB_STAGE_H

#include "flush/backing.h"

/* The chunk of every offset is locked by the caller. */

/* Should bytes that were missed stay?  Notes the miss. */
bool tb_stage_wanted(struct tb_target *t, uint64_t offset, uint64_t n);
/* Read bytes that no buffer owns from the backing file, and stage them in where they are wanted. */
int tb_stage_read(struct tb_target *t, char *to, uint64_t n, uint64_t offset);

/*
 * Fill unowned bytes of one chunk with clean ones read from the backing file after
 * `voided` was; they start with this heat.  Returns how many found room below
 * `limit`: all, some from the front, or none.
 */
struct tb_staging {
    uint32_t voided; /* header->voided before the read */
    uint32_t heat, limit;
    bool ahead, keep;
};
uint64_t tb_stage_publish(tb_engine *e, uint32_t file, const struct tb_staging *s, const char *bytes, uint64_t n, uint64_t offset);

/* How many of these bytes may become valid now: none past the file's end, and none while its length is being set. */
uint64_t tb_stage_limit(const tb_engine *e, uint32_t file, uint64_t offset, uint64_t n);

#endif
