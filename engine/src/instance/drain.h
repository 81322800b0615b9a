#ifndef TB_INSTANCE_DRAIN_H
#define TB_INSTANCE_DRAIN_H

#include "base/report.h"
#include "region/handle.h"

/*
 * Flush every dirty file with `threads` threads, not counting those that wait for a sync; reports failures only.  0, or the first error.
 * What waits for another process is gone round, and is waited for at the end: -ETIMEDOUT where that
 * process has been stopped (SIGSTOP) for 30 s.  Then threads still wait, and the handle stays as long as they
 * do: a detach does nothing.
 */
int tb_instance_drain(tb_engine *engine, int threads, tb_progress *progress, tb_file_reporter *report, void *arg);

#endif
