/*
 * Building a place's chain; see chain.h.  A chain without layers of its own
 * still gets one head, so that the caller holds something it may free.
 */
#include "chain.h"

#include <errno.h>
#include <stdlib.h>

#include "io_fault.h"
#include "io_layer.h"

struct chain {
    struct tb_io io; /* the head */
    struct tb_io_ops ops;
    struct tb_io *model, *fault;
};

static const struct tb_io_ops head_ops = {.name = "place"};

static int add_model(struct chain *c, const struct tb_device *model, struct tb_device_clock *clock, struct tb_io **top)
{
    if (!model)
        return 0;
    c->model = tb_io_model_new(model, clock, *top);
    if (!c->model)
        return ENOMEM;
    *top = c->model;
    return 0;
}

static int add_fault(struct chain *c, struct tb_io **top)
{
    const char *text = getenv("TB_FAULT");
    struct tb_fault fault;
    if (!text || !*text)
        return 0;
    if (tb_fault_parse(text, &fault))
        return EINVAL;
    c->fault = tb_io_fault_new(&fault, *top);
    if (!c->fault)
        return ENOMEM;
    *top = c->fault;
    return 0;
}

struct tb_io *tb_chain_new(const struct tb_device *model, struct tb_device_clock *clock, struct tb_io *base)
{
    struct chain *c = calloc(1, sizeof(*c));
    struct tb_io *top = base;
    int error = c ? add_model(c, model, clock, &top) : ENOMEM;
    if (!error)
        error = add_fault(c, &top);
    if (error) {
        if (c)
            tb_chain_free(&c->io);
        errno = error;
        return NULL;
    }
    tb_io_layer_init(&c->io, &c->ops, &head_ops, top);
    return &c->io;
}

void tb_chain_free(struct tb_io *chain)
{
    struct chain *c = (struct chain *)chain;
    tb_io_fault_free(c->fault);
    tb_io_model_free(c->model);
    free(c);
}
