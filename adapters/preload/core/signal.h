#ifndef TB_PRELOAD_SIGNAL_H
#define TB_PRELOAD_SIGNAL_H

#include <stdint.h>

/* Signals that came to this thread inside wait until it leaves (core/signal.c). */
extern _Thread_local volatile uint64_t tb_held_signals __attribute__((tls_model("initial-exec")));
void tb_release_signals(void);

#endif
