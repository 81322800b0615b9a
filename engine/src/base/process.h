/*
 * What the system says of a process: whether it is still the one that it was, and what it does.
 */
#ifndef TB_BASE_PROCESS_H
#define TB_BASE_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TB_PROCESS_ENDED (UINT64_MAX - 1)
/* In clock ticks since boot; 0: it cannot be read; TB_PROCESS_ENDED: only its parent has not asked for it yet. */
uint64_t tb_process_start_time(int pid);
/*
 * The addresses that the kernel told the program at its start, mixed: no two programs of a process have the same, as
 * long as addresses are random.  0 where they can't be read.
 */
uint64_t tb_process_image(int pid);

/* "process 12 (python3, stopped)"; returns its length. */
int tb_process_describe(int pid, char *out, size_t size);
bool tb_process_is_stopped(int pid);

/*
 * For daemons and tools that write what programs wrote: RLIMIT_FSIZE is as high as it may be, and a file that is too large all the
 * same is an error of the write (EFBIG), and no signal. Both go on in what this process executes.
 */
void tb_process_writes_any_size(void);

#endif
