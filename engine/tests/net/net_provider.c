/* Whether a provider can be opened here: net_provider NAME. Exit status 0, or 2 with why not. */
#include <stdio.h>

#include "net/transport/transport.h"

int main(int argc, char **argv)
{
    const struct tb_net_address own = {"127.0.0.1", "0"};
    struct tb_transport t;
    struct tb_error err;
    if (argc != 2 || tb_transport_open(&t, argv[1], &own, &err))
        return fprintf(stderr, "%s\n", argc == 2 ? err.text : "usage: net_provider NAME"), 2;
    tb_transport_end(&t);
    return 0;
}
