/*
 * execl and its kin, in every library that wraps the exec family: their words become
 * a list, which the library's own execv, execvp and execve take.
 */
#include <unistd.h>

#include "wrap.h"

/* With the NULL, counted before they are copied: there may be many. */
#define WORDS(argv, first, args)                                      \
    size_t n_words = 1;                                               \
    va_list args, counted;                                            \
    va_start(args, first);                                            \
    va_copy(counted, args);                                           \
    for (const char *w = first; w; w = va_arg(counted, const char *)) \
        n_words++;                                                    \
    va_end(counted);                                                  \
    const char *argv[n_words];                                        \
    argv[0] = first;                                                  \
    for (size_t i = 1; i < n_words; i++)                              \
        argv[i] = va_arg(args, const char *);

TB_WRAPPER int execl(const char *path, const char *first, ...)
{
    WORDS(argv, first, args)
    va_end(args);
    return execv(path, (char *const *)argv);
}

TB_WRAPPER int execlp(const char *file, const char *first, ...)
{
    WORDS(argv, first, args)
    va_end(args);
    return execvp(file, (char *const *)argv);
}

TB_WRAPPER int execle(const char *path, const char *first, ...)
{
    WORDS(argv, first, args)
    char *const *envp = va_arg(args, char *const *);
    va_end(args);
    return execve(path, (char *const *)argv, envp);
}
