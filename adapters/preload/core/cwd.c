/*
 * The working directory, and directories by descriptor, in the program's words.
 *
 * Every relative name needs it, so it is asked of the kernel once and kept until
 * this process changes it or a directory of a managed prefix is renamed.  A
 * directory that is renamed past the adapter keeps its old name here; it
 * matters only where it moves across the border of a managed prefix.
 */
#include "core/cwd.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/adapter.h"

static _Atomic uint32_t version; /* odd: being written */
static uint32_t moves;           /* what tb_engine_moves said */
static char kept[PATH_MAX];      /* "": not known */

/* A child of fork may have been copied in the middle of a change. */
void tb_cwd_reset(void)
{
    version = 0;
    kept[0] = 0;
}

/* If another thread writes just now, this answer is not kept. */
static void keep(const char *name, uint32_t moved)
{
    uint32_t before = version;
    if (before & 1 || !atomic_compare_exchange_strong(&version, &before, before + 1))
        return; /* another one writes: asked again next time */
    moves = moved;
    strcpy(kept, name);
    version = before + 2;
}

/* Even while another thread writes: what it stores is from before the change. */
static void forget(void)
{
    uint32_t before;
    do
        before = version & ~1u;
    while (!atomic_compare_exchange_weak(&version, &before, before + 1));
    kept[0] = 0;
    version = before + 2;
}

/* Copied first and believed afterwards, where the version did not move. */
static bool recall(tb_engine *e, char *out)
{
    uint32_t before = version;
    if (before & 1 || moves != tb_engine_moves(e))
        return false;
    size_t n = strnlen(kept, PATH_MAX - 1);
    memcpy(out, kept, n);
    out[n] = 0;
    atomic_thread_fence(memory_order_acquire);
    return n && version == before;
}

/* In place: what the kernel says as the program calls it. */
static void show(tb_engine *e, char *name)
{
    char shown[PATH_MAX];
    if (tb_engine_shown(e, name, shown, sizeof(shown)))
        strcpy(name, shown);
}

/*
 * The count of renames is read before the kernel is asked: a rename in between makes the
 * answer old, never wrongly new.
 */
bool tb_directory_name(tb_engine *e, int dirfd, char *out)
{
    char link[64];
    if (dirfd == AT_FDCWD) {
        if (recall(e, out))
            return true;
        uint32_t moved = tb_engine_moves(e);
        if (!REAL(getcwd)(out, PATH_MAX))
            return false;
        show(e, out);
        keep(out, moved);
        return true;
    }
    snprintf(link, sizeof(link), "/proc/self/fd/%d", dirfd);
    ssize_t n = REAL(readlink)(link, out, PATH_MAX - 1);
    out[n > 0 ? n : 0] = 0;
    show(e, out);
    return n > 0;
}

/* Forgotten also if it failed: the kernel is asked again, which is always right. */
TB_WRAPPER int chdir(const char *path)
{
    struct tb_path p;
    if (!tb_path_real(&(int){AT_FDCWD}, &path, TB_NAME_ENTER, &p))
        return -1;
    int rc = REAL(chdir)(path);
    forget();
    return rc;
}

TB_WRAPPER int fchdir(int fd)
{
    int rc = REAL(fchdir)(fd);
    forget();
    return rc;
}

/* Of a place in a shadow: the program's name, which may be longer or shorter. */
static char *shown_cwd(char *out, size_t size)
{
    char name[PATH_MAX];
    tb_engine *e = tb_inside ? NULL : tb_adapter_engine();
    if (!e || !REAL(getcwd)(name, sizeof(name)) || !tb_engine_shown(e, name, name, sizeof(name)))
        return REAL(getcwd)(out, size);
    size_t n = strlen(name) + 1;
    if (size < n && (out || size))
        return errno = out && !size ? EINVAL : ERANGE, NULL;
    out = out ? out : malloc(size ? size : n);
    return out ? memcpy(out, name, n) : NULL;
}

char *__getcwd_chk(char *out, size_t size, size_t room);
char *__getwd_chk(char *out, size_t room);
/* clang-format off: one line each */
TB_WRAPPER char *getcwd(char *out, size_t size)
{
    return shown_cwd(out, size);
}
TB_WRAPPER char *getwd(char *out)
{
    return shown_cwd(out, PATH_MAX);
}
TB_WRAPPER char *get_current_dir_name(void)
{
    return shown_cwd(NULL, 0);
}
TB_WRAPPER char *__getwd_chk(char *out, size_t room)
{
    return shown_cwd(out, room);
}
/* clang-format on */
TB_WRAPPER char *__getcwd_chk(char *out, size_t size, size_t room)
{
    if (size > room)
        abort();
    return shown_cwd(out, size);
}
