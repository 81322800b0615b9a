/*
 * Choosing a malloc by LD_PRELOAD, and proof that it is the one that answers (allocator.h). The loader reads the variable
 * at the start of a program, so the program is started once more with it. Where another library's malloc answers then, the
 * row is skipped and not measured.
 */
#include "memory/allocator.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHOSEN "TB_COMPONENTS_ALLOCATOR" /* set in the program that was started once more */

static const struct library {
    const char *system, *preload, *in_name; /* NULL: nothing is preloaded */
} libraries[] = {
    {"glibc", NULL, "libc.so"},
    {"jemalloc", "libjemalloc.so.2", "jemalloc"},
    {"mimalloc", "libmimalloc.so.2", "mimalloc"},
};

static const struct library *find(const char *system)
{
    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++)
        if (strcmp(libraries[i].system, system) == 0)
            return &libraries[i];
    return NULL;
}

/* The variable keeps the new program from starting itself once more. */
static int start_again(const struct library *wanted, char **argv)
{
    setenv(CHOSEN, wanted->system, 1);
    setenv("LD_PRELOAD", wanted->preload, 1);
    execv("/proc/self/exe", argv);
    perror(argv[0]);
    return 1;
}

/* A preload that is missing is only a warning of the loader, so the library that malloc is in decides. */
int tb_allocator_choose(const struct tb_job *job, char **argv)
{
    const struct library *wanted = find(job->system);
    Dl_info found = {.dli_fname = "nothing"};
    if (!wanted)
        return 0;
    if (wanted->preload && !getenv(CHOSEN))
        return start_again(wanted, argv);
    unsetenv(CHOSEN);
    if (dladdr(dlsym(RTLD_DEFAULT, "malloc"), &found) && strstr(found.dli_fname, wanted->in_name))
        return 0;
    return tb_job_skip(job, "there is no library %s: malloc is that of %s", wanted->in_name, found.dli_fname);
}
