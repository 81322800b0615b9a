/*
 * Which programs an adapter can be put under by LD_PRELOAD. Needs no instance. For a
 * script, the program of its "#!" line counts.
 */
#ifndef TIERBENCH_PROGRAM_H
#define TIERBENCH_PROGRAM_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/*
 * NULL: it can be served, or it cannot be read (then its execution will fail).
 * Else the reason, for a message: "is statically linked", "runs with
 * another user's rights".  Static.
 */
const char *tb_program_unserved(const char *path);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif
#endif
