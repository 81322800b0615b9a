/* What a configuration may say of nodes that talk to each other (`nodes: shared`): its network, and second copies. */
#ifndef TB_CONFIG_NODES_H
#define TB_CONFIG_NODES_H

#include <stdio.h>

#include "config/config.h"

#define TB_COPIES_MEMORY (256u << 20) /* where it is not said */
#define TB_COPIES_LEAST (1u << 20)    /* of a message */

/* A listener exists only where it was asked for. NULL: nothing of it is given. */
static inline const char *tb_network_given(const struct tb_config *c)
{
    return c->network.folder[0]    ? "network.folder"
         : c->network.interface[0] ? "network.interface"
         : c->network.provider[0]  ? "network.provider"
                                   : NULL;
}

static inline void tb_copies_fill_in(struct tb_config *c)
{
    if (c->copies > 1 && !c->copies_memory)
        c->copies_memory = TB_COPIES_MEMORY;
}

/* NULL, or the key of what is wrong, with what is allowed in `text`. `nodes`: the name of the value. */
static inline const char *tb_nodes_wrong(const struct tb_config *c, const char *nodes, char *text, size_t size)
{
    bool shared = c->several_nodes == TB_NODES_SHARED;
    const char *given = tb_network_given(c);
    if (given && !shared)
        return snprintf(text, size, "is given with nodes: %s; allowed: with nodes: shared", nodes), given;
    if (c->copies > 1 && !shared)
        return snprintf(text, size, "%u with nodes: %s, where nodes do not talk to each other; allowed: 1, or 2 with nodes: shared",
                        c->copies, nodes),
               "copies";
    if (c->copies_memory && c->copies < 2)
        return snprintf(text, size, "is given with copies: 1; allowed: with copies: 2"), "copies_memory";
    if (c->copies > 1 && c->copies_memory < TB_COPIES_LEAST)
        return snprintf(text, size, "%llu bytes; allowed: 1MiB and more", (unsigned long long)c->copies_memory), "copies_memory";
    return NULL;
}

#endif
