/*
 * Named points between the stores of a publication, a flush, a promise: places where a
 * client may be killed. A test build (TB_STEPS) calls tb_step() at each, which the test
 * defines; any other build has nothing there. A meeting is such a point where it matters
 * what other processes do at that moment (test_races.c).
 */
#ifndef TB_STEP_H
#define TB_STEP_H

#ifdef TB_STEPS
void tb_step(const char *name);
#define TB_STEP(name) tb_step(name)
#define TB_MEETING(name) tb_step(name)
#else
#define TB_STEP(name) ((void)0)
#define TB_MEETING(name) ((void)0)
#endif

#endif
