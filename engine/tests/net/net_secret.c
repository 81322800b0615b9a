/* Makes the secret of a folder, as the process that starts the nodes does: net_secret FOLDER */
#include <stdio.h>

#include "net/proof/secret.h"

int main(int argc, char **argv)
{
    struct tb_error err;
    if (argc != 2 || tb_net_secret_make(argv[1], &err))
        return fprintf(stderr, "%s\n", argc == 2 ? err.text : "usage: net_secret FOLDER"), 2;
    return 0;
}
