/*
 * Named points between the stores of a publication, a flush, a promise: places where a
 * client may be killed. What is stored before such a point is in the region before what is
 * stored after it: in any build the compiler moves no access across it. That is enough,
 * because a kill comes between two instructions, and the processor undoes none before it.
 *
 * A test build (TB_STEPS) calls tb_step() at each, which the test defines. A meeting is a
 * point where it matters what other processes do at that moment (engine/tests/steps/scene.h).
 */
#ifndef TB_STEP_H
#define TB_STEP_H

#ifdef TB_STEPS
void tb_step(const char *name);
#define TB_STEP(name) tb_step(name)
#define TB_MEETING(name) tb_step(name)
#else
#include <stdatomic.h>
#define TB_STEP(name) atomic_signal_fence(memory_order_seq_cst)
#define TB_MEETING(name) ((void)0)
#endif

#endif
