/* Building a place's chain; see chain/chain.h. */
#include "chain/chain.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "chain/fault.h"
#include "chain/fault_parse.h"
#include "chain/model.h"
#include "chain/trace.h"
#include "chain/undo.h"

/* Puts the fault of the environment over `next`; takes `next` away with it when it fails. */
static struct tb_io *with_fault(struct tb_io *next)
{
    struct tb_fault fault;
    const char *text = getenv("TB_FAULT");
    if (text == NULL || *text == '\0')
        return next;
    bool valid = tb_fault_parse(text, &fault) == 0;
    struct tb_io *io = valid ? tb_io_fault_new(&fault, next) : NULL;
    if (io == NULL) {
        tb_chain_free(next);
        errno = valid ? ENOMEM : EINVAL;
    }
    return io;
}

/* TB_UNDO names the log. Only crash tests set it. */
static struct tb_io *with_undo(struct tb_io *next)
{
    const char *path = getenv("TB_UNDO");
    struct tb_io *io = path && *path ? tb_io_undo_new(path, next) : next;
    if (io == NULL)
        tb_chain_free(next);
    return io;
}

/* Highest of the layers below the engine, so that a trace has the time that a model added. */
static struct tb_io *with_trace(struct tb_io *next)
{
    tb_trace *trace = tb_trace_of(TB_TRACE_STORAGE);
    struct tb_io *io = trace != NULL ? tb_io_trace_new(trace, next) : next;
    if (io == NULL)
        tb_chain_free(next);
    return io;
}

static struct tb_io *with_environment(struct tb_io *next)
{
    struct tb_io *io = with_undo(next);
    io = io != NULL ? with_fault(io) : NULL;
    return io != NULL ? with_trace(io) : NULL;
}

/* Model lowest, then undo, fault and trace: a trace shows what a fault or a model did. */
struct tb_io *tb_chain_new(const struct tb_device *model, struct tb_device_clock *clock, struct tb_io *base)
{
    if (model == NULL)
        return with_environment(base);
    struct tb_io *io = tb_io_model_new(model, clock, base);
    if (io == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    return with_environment(io);
}

/* The layers made here are known by their names; the first other one is the base. */
void tb_chain_free(struct tb_io *chain)
{
    while (chain != NULL) {
        struct tb_io *next = chain->next;
        if (strcmp(chain->ops->name, "fault") == 0)
            tb_io_fault_free(chain);
        else if (strcmp(chain->ops->name, "undo") == 0)
            tb_io_undo_free(chain);
        else if (strcmp(chain->ops->name, "trace") == 0)
            tb_io_trace_free(chain);
        else if (strcmp(chain->ops->name, "model") == 0)
            tb_io_model_free(chain);
        else
            return;
        chain = next;
    }
}
