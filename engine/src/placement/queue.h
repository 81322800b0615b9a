/*
 * Until when what was placed in each tier lasts.  A model's clock learns it only when
 * the bytes are copied, and real tiers have no other.
 */
#ifndef TB_PLACEMENT_QUEUE_H
#define TB_PLACEMENT_QUEUE_H

#include <stdatomic.h>
#include <stdint.h>

/*
 * Seconds until a tier would begin with what this thread gives it at its modelled time `now`.  `until`: ns of the
 * model's clock, one a tier, shared by all who place.
 */
double tb_queue_seconds(const _Atomic uint64_t *until, uint32_t tier, uint64_t now);
/* Others queue after `seconds` of work that the tier was given. */
void tb_queue_reserve(_Atomic uint64_t *until, uint32_t tier, uint64_t now, double seconds);

#endif
