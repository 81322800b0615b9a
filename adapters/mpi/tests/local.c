/*
 * One source for three parts: an MPI library of a name that nobody knows, a module that needs it, and a program without MPI that loads the
 * module for itself alone, as Python loads mpi4py's. The module's call goes to the layer in front, and from there to its own library.
 */
#include <stdio.h>

#define ANSWER 77

int MPI_File_sync(void *file);
int ask(void);

#ifdef PART_LIBRARY
int MPI_File_sync(void *file)
{
    return file ? 0 : ANSWER;
}
#elif defined(PART_MODULE)
int ask(void)
{
    return MPI_File_sync(NULL);
}
#else
#include <dlfcn.h>

int main(int argc, char **argv)
{
    void *module = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    int (*function)(void) = module ? (int (*)(void))dlsym(module, "ask") : NULL;
    int answer = function ? function() : 0;
    printf("%d\n", answer);
    return answer == ANSWER ? 0 : 1;
}
#endif
