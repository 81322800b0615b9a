/*
 * The chain below the engine, for one place (the PFS or a directory tier):
 *
 *   [trace, where TIERBENCH_TRACE is set] -> [fault, where TB_FAULT is] -> [undo, where TB_UNDO is]
 *   -> [model, where the place has one] -> base
 */
#ifndef TB_CHAIN_H
#define TB_CHAIN_H

#include "config/device.h"
#include <tierbench/io.h>

struct tb_device_clock;

/*
 * `model` may be NULL; else it and `clock` must outlive the chain, as `base`
 * must.  NULL with errno: ENOMEM, or EINVAL where TB_FAULT is no fault.
 */
struct tb_io *tb_chain_new(const struct tb_device *model, struct tb_device_clock *clock, struct tb_io *base);

/* Frees the layers that tb_chain_new made over `base`, and not the base. */
void tb_chain_free(struct tb_io *chain, const struct tb_io *base);

#endif
