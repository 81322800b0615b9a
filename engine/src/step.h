/*
 * Named points between the stores of a publication, a flush, a promise: places
 * where a client may be killed.  A test build (TB_STEPS) calls tb_step() at each,
 * which the test defines; any other build has nothing there.
 */
#ifndef TB_STEP_H
#define TB_STEP_H

#ifdef TB_STEPS
void tb_step(const char *name);
#define TB_STEP(name) tb_step(name)
#else
#define TB_STEP(name) ((void)0)
#endif

#endif
