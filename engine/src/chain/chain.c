/*
 * Building a place's chain: the layers are rows of one table, lowest first. A new layer is
 * a folder beside this file and a row here; see chain/chain.h.
 */
#include "chain/chain.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "chain/fault/fault.h"
#include "chain/model/model.h"
#include "chain/trace/trace.h"
#include "chain/undo/undo.h"
#include "io/io_layer.h"

/*
 * Undo below fault: it notes what really reached the file. Trace highest, so that it shows
 * what a fault did, and has the time that a model added.
 */
static const struct {
    const char *variable; /* of the environment, which asks for the layer; NULL: `make` knows by itself */
    tb_io_make *make;
} layers[] = {
    {NULL, tb_io_model_new},
    {"TB_UNDO", tb_io_undo_new},
    {"TB_FAULT", tb_io_fault_new},
    {NULL, tb_io_trace_new},
};

/* An empty variable asks for nothing, as one that is not set. */
static const char *text_of(const char *variable)
{
    const char *text = variable != NULL ? getenv(variable) : NULL;
    return text != NULL && *text != '\0' ? text : NULL;
}

struct tb_io *tb_chain_new(const struct tb_device *model, struct tb_device_clock *clock, struct tb_io *base)
{
    const struct tb_io_place place = {.model = model, .clock = clock};
    struct tb_io *io = base;
    for (size_t i = 0; i < sizeof(layers) / sizeof(layers[0]); i++) {
        struct tb_io *made = layers[i].make(&place, text_of(layers[i].variable), io);
        if (made == NULL) {
            int error = errno;
            tb_chain_free(io, base);
            errno = error;
            return NULL;
        }
        assert(made == io || (made->next == io && made->ops->free != NULL));
        io = made;
    }
    return io;
}

/* The base is the caller's, also if it is a layer itself and knows how to free itself. */
void tb_chain_free(struct tb_io *chain, const struct tb_io *base)
{
    while (chain != base) {
        struct tb_io *next = chain->next;
        assert(next != NULL);
        chain->ops->free(chain);
        chain = next;
    }
}
