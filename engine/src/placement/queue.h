/*
 * For each tier: the time at which the work that was given to it will be done.  A model's clock
 * knows of work only when its bytes are copied, and real tiers have no clock.
 */
#ifndef TB_PLACEMENT_QUEUE_H
#define TB_PLACEMENT_QUEUE_H

#include <stdatomic.h>
#include <stdint.h>

/*
 * Seconds until a tier would begin with what this thread gives it at its modelled time `now`.  `until`: ns of the
 * model's clock, one a tier, shared by all processes that place.
 */
double tb_queue_seconds(const _Atomic uint64_t *until, uint32_t tier, uint64_t now);
/* Others queue after `seconds` of work that the tier was given. */
void tb_queue_reserve(_Atomic uint64_t *until, uint32_t tier, uint64_t now, double seconds);

#endif
