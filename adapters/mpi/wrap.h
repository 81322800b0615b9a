/* Both names of an MPI function, each going on to the next library's same name: layer.h says why. */
#ifndef TB_MPI_WRAP_H
#define TB_MPI_WRAP_H

#include "layer.h"

#define TB_LIST(...) __VA_ARGS__
/* `own` does the work; it gets the next function and the arguments. */
#define TB_WRAP(name, own, declared, given)           \
    TB_WRAPPER int MPI_##name declared                \
    {                                                 \
        return own(NEXT(MPI_##name), TB_LIST given);  \
    }                                                 \
    TB_WRAPPER int PMPI_##name declared               \
    {                                                 \
        return own(NEXT(PMPI_##name), TB_LIST given); \
    }

#endif
