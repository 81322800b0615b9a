/*
 * What every library of wrappers needs: the next function of a name, and the
 * arguments of functions that take a varying number of them.
 */
#ifndef TB_WRAP_H
#define TB_WRAP_H

#include <stdarg.h>
#include <stddef.h>

#define TB_WRAPPER __attribute__((visibility("default")))

/* The function that `find` gives for this name (`text`), looked up once at each place of use. */
#define TB_FOUND_ONCE(find, name, text)                       \
    (__extension__({                                          \
        static __typeof__(&(name)) found_function;            \
        if (!found_function)                                  \
            found_function = (__typeof__(&(name)))find(text); \
        found_function;                                       \
    }))

/* The next function of this name (libc's, or the next library's); usable before any constructor ran. */
void *tb_real(const char *name);
#define REAL(name) TB_FOUND_ONCE(tb_real, name, #name)

/* The mode that open and its kin take where they make a file. */
#define MODE_OF(flags, last)               \
    mode_t mode = 0;                       \
    if ((flags) & (O_CREAT | O_TMPFILE)) { \
        va_list args;                      \
        va_start(args, last);              \
        mode = va_arg(args, mode_t);       \
        va_end(args);                      \
    }

#endif
