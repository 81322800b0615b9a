/*
 * Which malloc this program has.  jemalloc and mimalloc are put in front of the C library
 * as their users do it: by LD_PRELOAD, for which the program starts itself once more.
 */
#ifndef TB_COMPONENTS_ALLOCATOR_H
#define TB_COMPONENTS_ALLOCATOR_H

#include "common/job.h"

#define TB_ALLOCATORS "glibc", "jemalloc", "mimalloc"

/*
 * Make malloc that of the job's system, if it is one of them: returns in the program that has it.  0, or an exit status where
 * the library is missing or another malloc answers, which is said.
 */
int tb_allocator_choose(const struct tb_job *job, char **argv);

#endif
