/*
 * The MPI library after this one: its symbols, and whether it is the kind we know. Handles
 * differ between MPI libraries, so under another one than Open MPI every call passes through
 * untouched.
 */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>

#include "layer.h"

#define LIBRARY "libmpi.so.40" /* Open MPI 2 to 5 */

static _Thread_local int inside __attribute__((tls_model("initial-exec")));

/* A library that a program loaded for itself alone (Python's modules do) is in no list of symbols but its own. */
static void *find(void *where, const char *name)
{
    void *found = dlsym(where, name), *library = found ? NULL : dlopen(LIBRARY, RTLD_LAZY | RTLD_NOLOAD);
    if (library) {
        found = dlsym(library, name);
        dlclose(library); /* it stays loaded: the program loaded it, too */
    }
    return found;
}

/* Of one loaded library and those that it needs. */
static void *find_in(const struct link_map *one, const char *name)
{
    void *library = dlopen(one->l_name, RTLD_LAZY | RTLD_NOLOAD), *found = library ? dlsym(library, name) : NULL;
    if (library)
        dlclose(library);
    return found;
}

/* In an object that is not this one. */
static bool is_another(const void *symbol)
{
    Dl_info here, there;
    return dladdr((void *)tb_mpi_next, &here) && dladdr(symbol, &there) && here.dli_fbase != there.dli_fbase;
}

/* The same of an MPI library of any name: of all that are loaded, in their order. */
static void *find_anywhere(const char *name)
{
    struct link_map *one = NULL;
    void *program = dlopen(NULL, RTLD_LAZY), *found = NULL;
    if (!program || dlinfo(program, RTLD_DI_LINKMAP, &one))
        return NULL;
    for (; one && !found; one = one->l_next) {
        found = *one->l_name ? find_in(one, name) : NULL;
        found = found && is_another(found) ? found : NULL;
    }
    dlclose(program);
    return found;
}

/* The program itself may hold the one copy that all use. */
static void *info_null(void)
{
    return find(RTLD_DEFAULT, "ompi_mpi_info_null");
}

/* Open MPI's MPI_INFO_NULL is an object at an address of its library, not a number. */
bool tb_mpi_is_info(MPI_Info info)
{
    return info != (MPI_Info)info_null();
}

/*
 * A function that is missing ends the program at its first use: there is nothing to pass the
 * call to.
 */
void *tb_mpi_next(const char *name)
{
    void *found = find(RTLD_NEXT, name);
    found = found ? found : find_anywhere(name);
    if (!found) {
        fprintf(stderr, "tierbench: the MPI library has no %s\n", name);
        abort();
    }
    return found;
}

/* By a symbol that only Open MPI has. */
static bool is_open_mpi(void)
{
    static int known; /* 1 yes, -1 no; threads that come at once find the same */
    if (!known)
        known = info_null() ? 1 : -1;
    return known > 0;
}

/* False inside: the MPI library may call its own functions by their public names. */
bool tb_mpi_enter(void)
{
    if (inside || !is_open_mpi())
        return false;
    inside++;
    return true;
}

void tb_mpi_leave(void)
{
    inside--;
}
