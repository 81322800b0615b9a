/*
 * Ints of a shared file that say which rank wrote them: BLOCKS blocks of BLOCK ints a rank,
 * which the includer defines, the ranks' by turns.
 */
#include "ranks.h"

/* What rank `r` writes as the i-th int of its block b. */
static int value(int r, int b, int i)
{
    return (r * BLOCKS + b) * BLOCK + i;
}

static void fill(int *block, int r, int b)
{
    for (int i = 0; i < BLOCK; i++)
        block[i] = value(r, b, i);
}

static void compare(const char *what, const int *block, int r, int b)
{
    for (int i = 0; i < BLOCK; i++)
        if (block[i] != value(r, b, i))
            fail(what, i, block[i], value(r, b, i));
}

static MPI_Offset place(int r, int b)
{
    return ((MPI_Offset)b * size + r) * BLOCK * (MPI_Offset)sizeof(int);
}
