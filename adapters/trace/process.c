/*
 * How a process ends: what ended by its own will is whole, anything else is said
 * to be incomplete.  And what it does through MPI-IO, where the MPI adapter is
 * loaded to tell.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include "../mpi/events.h"
#include "adapter.h"

#define NONMPI "DARSHAN_ENABLE_NONMPI"

tb_trace *_Atomic tb_application_found;

void *tb_real(const char *name)
{
    void *f = dlsym(RTLD_NEXT, name);
    if (!f)
        abort(); /* a libc without a function we wrap is not the one we were built for */
    return f;
}

/*
 * What the MPI adapter tells, in the words of the trace. A call that failed is left out, as in
 * the rest of the record.
 */
static void told(const struct tb_mpi_event *e, void *trace)
{
    static const enum tb_trace_mpi_call calls[] = {
        [TB_MPI_OPEN] = TB_TRACE_MPI_OPEN,   [TB_MPI_CLOSE] = TB_TRACE_MPI_CLOSE, [TB_MPI_READ] = TB_TRACE_MPI_READ,
        [TB_MPI_WRITE] = TB_TRACE_MPI_WRITE, [TB_MPI_SYNC] = TB_TRACE_MPI_SYNC,   [TB_MPI_VIEW] = TB_TRACE_MPI_VIEW,
        [TB_MPI_INFO] = TB_TRACE_MPI_HINT,
    };
    static const enum tb_trace_mpi_way ways[] = {
        [TB_MPI_INDEPENDENT] = TB_TRACE_MPI_INDEPENDENT,
        [TB_MPI_COLLECTIVE] = TB_TRACE_MPI_COLLECTIVE,
        [TB_MPI_SPLIT] = TB_TRACE_MPI_SPLIT,
        [TB_MPI_NONBLOCKING] = TB_TRACE_MPI_NONBLOCKING,
    };
    if (e->error)
        return;
    struct tb_trace_mpi event = {.call = calls[e->operation],
                                 .way = ways[e->way],
                                 .path = e->path,
                                 .amode = e->amode,
                                 .hints = e->hints,
                                 .offset = e->offset,
                                 .bytes = e->bytes,
                                 .times = {e->start, e->end}};
    tb_trace_mpi(trace, &event);
}

/*
 * The site's Darshan, told to trace programs without MPI, takes a rank for such, with a log of
 * its own. Only the process knows that it is a rank: a script may start the launcher. Darshan asks
 * for the variable in its own constructor, and this one runs first: our library comes later in
 * LD_PRELOAD, and neither needs the other.
 */
static void leave_ranks_to_mpi(void)
{
    if (getenv(NONMPI) && tb_trace_is_rank(tb_application()))
        unsetenv(NONMPI);
}

/* Looked up, not linked: without the MPI adapter in LD_PRELOAD there is no such function. */
static __attribute__((constructor)) void begin(void)
{
    leave_ranks_to_mpi();
    tb_mpi_events_function *events = (tb_mpi_events_function *)dlsym(RTLD_DEFAULT, "tb_mpi_events");
    if (events && tb_application())
        events(told, tb_application());
}

/* False too where there is no such function.  A library that a program loaded for itself alone is in no list of symbols but its own. */
static bool mpi_says(const char *name)
{
    static const char *const libraries[] = {"libmpi.so.40", "libmpi.so.12"}; /* Open MPI; MPICH and its kin */
    int (*ask)(int *) = (int (*)(int *))dlsym(RTLD_DEFAULT, name), flag = 0;
    for (size_t i = 0; !ask && i < sizeof(libraries) / sizeof(libraries[0]); i++) {
        void *library = dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD);
        if (library) {
            ask = (int (*)(int *))dlsym(library, name);
            dlclose(library); /* it stays: the program loaded it */
        }
    }
    return ask && ask(&flag) == 0 && flag;
}

/*
 * MPI_Abort ends a rank by _exit, and so does a shell that ends well: only the first is between
 * MPI_Init and MPI_Finalize.  MPI may be asked for both at any time.
 */
static enum tb_trace_end how_it_quits(void)
{
    bool aborts = tb_trace_is_rank(tb_application()) && mpi_says("PMPI_Initialized") && !mpi_says("PMPI_Finalized");
    return aborts ? TB_TRACE_QUITS : TB_TRACE_EXITS;
}

TB_WRAPPER void _exit(int status)
{
    tb_trace_ends(tb_application(), how_it_quits());
    REAL(_exit)(status);
    __builtin_unreachable();
}

TB_WRAPPER void _Exit(int status)
{
    tb_trace_ends(tb_application(), how_it_quits());
    REAL(_Exit)(status);
    __builtin_unreachable();
}

/* MPI_Abort does not end a rank this way: a program that calls it ends by its own will. */
TB_WRAPPER void quick_exit(int status)
{
    tb_trace_ends(tb_application(), TB_TRACE_EXITS);
    REAL(quick_exit)(status);
    __builtin_unreachable();
}

/*
 * The record is made whole before the call: after an exec that went well no code of this
 * program runs again. Where the exec failed the trace goes on.
 */
#define EXEC(call)                                         \
    do {                                                   \
        tb_trace_ends(tb_application(), TB_TRACE_EXITS);   \
        int result = call; /* back only where it failed */ \
        tb_trace_ends(tb_application(), TB_TRACE_GOES_ON); \
        return result;                                     \
    } while (0)

/* clang-format off: one line each */
TB_WRAPPER int execve(const char *path, char *const argv[], char *const envp[])
{
    EXEC(REAL(execve)(path, argv, envp));
}
TB_WRAPPER int execv(const char *path, char *const argv[])
{
    EXEC(REAL(execv)(path, argv));
}
TB_WRAPPER int execvp(const char *file, char *const argv[])
{
    EXEC(REAL(execvp)(file, argv));
}
TB_WRAPPER int execvpe(const char *file, char *const argv[], char *const envp[])
{
    EXEC(REAL(execvpe)(file, argv, envp));
}
TB_WRAPPER int fexecve(int fd, char *const argv[], char *const envp[])
{
    EXEC(REAL(fexecve)(fd, argv, envp));
}
/* clang-format on */
TB_WRAPPER int execveat(int dirfd, const char *path, char *const argv[], char *const envp[], int flags)
{
    EXEC(REAL(execveat)(dirfd, path, argv, envp, flags));
}
