/*
 * Telling the one consumer of MPI-IO events (events.h): one at a time. It may come and go
 * while other threads make calls; each call asks once.
 */
#include <stdatomic.h>
#include <time.h>

#include "layer.h"

static _Atomic(tb_mpi_consumer *) consumer;
static void *_Atomic argument; /* set before the consumer is */

tb_mpi_events_function tb_mpi_events;
/*
 * The argument is stored first, so that a call that sees the function sees it too. NULL takes
 * the consumer away.
 */
TB_WRAPPER bool tb_mpi_events(tb_mpi_consumer *function, void *arg)
{
    if (function && consumer)
        return false;
    if (function)
        argument = arg;
    consumer = function;
    return true;
}

bool tb_mpi_traces(void)
{
    return atomic_load_explicit(&consumer, memory_order_relaxed);
}

/* The clock that a trace of the same process uses. */
double tb_mpi_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/*
 * The size of the event goes with it, so that a consumer that was built earlier can skip what
 * it does not know.
 */
void tb_mpi_tell(const struct tb_mpi_file *file, struct tb_mpi_event *event)
{
    tb_mpi_consumer *function = consumer;
    event->bytes_of_event = sizeof(*event);
    event->file = file->number;
    event->path = file->path;
    event->rank = file->rank;
    event->ranks = file->ranks;
    event->amode = file->amode;
    if (function)
        function(event, argument);
}
