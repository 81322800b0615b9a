/*
 * What placement policies remember between writes, in the region: all processes of
 * an instance read and change it without a lock, so a policy may rely on no two
 * words of it together.  Zeroes are a valid state.
 */
#ifndef TB_POLICY_STATE_H
#define TB_POLICY_STATE_H

#include <stdatomic.h>
#include <stdint.h>

struct tb_policy_state {
    _Atomic uint64_t placed;  /* how many writes round-robin or random placed */
    _Atomic uint32_t hottest; /* hot-data: the file that was; any value will do */
};

#endif
