/*
 * Calls on names that change a file's identity: unlink, rename, link, mkdir. They are chain
 * operations, because the engine keeps records of files and journals what happens to their
 * names. Two names may be under different prefixes, or one of them under none.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/adapter.h"

/* "." and ".." name nothing that could go or move: the kernel has an error for each case. */
static bool ends_in_dots(const char *path)
{
    size_t n = strlen(path);
    while (n && path[n - 1] == '/')
        n--;
    size_t from = n;
    while (from && path[from - 1] != '/')
        from--;
    return n > from && n - from <= 2 && path[from] == '.' && path[n - 1] == '.';
}

TB_WRAPPER int unlinkat(int dirfd, const char *path, int flags)
{
    struct tb_path p;
    bool found = tb_path_find(dirfd, path, &p);
    if (found && !ends_in_dots(path))
        return (int)TB_CALL(p.io, unlink, p.path, flags);
    return !found || tb_path_real_of(&dirfd, &path, TB_NAME_MAKE, &p) ? REAL(unlinkat)(dirfd, path, flags) : -1;
}

/* libc makes this one and rmdir of unlinkat, too; a program may call any of the three. */
TB_WRAPPER int unlink(const char *path)
{
    return unlinkat(AT_FDCWD, path, 0);
}
TB_WRAPPER int rmdir(const char *path)
{
    return unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}

/* As libc does: a file first, and only what is refused as a directory is then removed as one. */
TB_WRAPPER int remove(const char *path)
{
    int saved = errno;
    if (unlinkat(AT_FDCWD, path, 0) == 0)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return -1;
    errno = saved;
    return unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}

/* Two names, at least one of them managed. */
struct pair {
    struct tb_path from, to;
    struct tb_io *from_chain, *to_chain; /* NULL: that one is not managed */
    bool is_buffered;                    /* the engine serves one of them; else both are the PFS's chain's */
};

/* *chain is NULL where the name is not managed. */
static bool find_one(int dirfd, const char *path, struct tb_path *out, struct tb_io **chain)
{
    bool found = tb_path_find(dirfd, path, out);
    *chain = found ? out->io : NULL;
    return found;
}

/* By the engine's buffers. */
static bool is_served(bool found, const struct tb_path *p)
{
    return found && p->mode != TB_MODE_BYPASS;
}

/*
 * False: the call is the kernel's. The engine needs absolute names of both, also of the one
 * that it does not manage: its record of the file keeps the new name. A name too long for a
 * record is the kernel's alone.
 */
static bool find_pair(int from_dir, const char *from, int to_dir, const char *to, struct pair *out)
{
    bool a = find_one(from_dir, from, &out->from, &out->from_chain), b = find_one(to_dir, to, &out->to, &out->to_chain);
    if ((!a && !b) || (!a && !tb_path_name(from_dir, from, out->from.path)) || (!b && !tb_path_name(to_dir, to, out->to.path)))
        return false; /* one may be no string at all */
    if (ends_in_dots(from) || ends_in_dots(to))
        return false;
    out->is_buffered = is_served(a, &out->from) || is_served(b, &out->to);
    if (a && !b)
        tb_path_flush(&out->from); /* where it goes, it is not served from buffers */
    if (a && strlen(out->to.path) >= TB_PATH_MAX)
        tb_path_coherent(&out->from); /* the engine keeps no name of that length: processes that have the file open go on without buffers */
    return strlen(out->from.path) < TB_PATH_MAX && strlen(out->to.path) < TB_PATH_MAX;
}

/* In a shadow the engine's own walk says so. */
static bool is_no_directory(const struct pair *p)
{
    struct stat st;
    if (p->from_chain && p->from.mode == TB_MODE_SCRATCH)
        return false;
    int rc = p->from_chain ? (int)TB_CALL(p->from_chain, stat, p->from.path, &st, AT_SYMLINK_NOFOLLOW) : REAL(lstat)(p->from.path, &st);
    return rc == 0 && !S_ISDIR(st.st_mode);
}

/*
 * In bypass both names are the PFS's, so one chain of it does; the engine is needed where
 * either side has buffers.
 */
static int rename_pair(const struct pair *p, unsigned flags)
{
    const char *from = p->from.path, *to = p->to.path;
    if (p->is_buffered)
        return (int)TB_INSIDE(tb_engine_rename(tb_adapter_engine(), p->from_chain, from, p->to_chain, to, flags));
    return (int)TB_CALL(p->from_chain ? p->from_chain : p->to_chain, rename, from, to, flags);
}

static int link_pair(const struct pair *p)
{
    const char *from = p->from.path, *to = p->to.path;
    if (p->is_buffered)
        return (int)TB_INSIDE(tb_engine_link(tb_adapter_engine(), p->from_chain, from, p->to_chain, to));
    return (int)TB_CALL(p->from_chain ? p->from_chain : p->to_chain, link, from, to);
}

TB_WRAPPER int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
    struct pair p;
    bool found = find_pair(from_dir, from, to_dir, to, &p);
    if (found && (tb_path_is_directory(from) || tb_path_is_directory(to)) && is_no_directory(&p))
        return (int)tb_result(-ENOTDIR);
    if (found)
        return rename_pair(&p, flags);
    return tb_path_real(&from_dir, &from, TB_NAME_MAKE, &p.from) && tb_path_real(&to_dir, &to, TB_NAME_MAKE, &p.to)
             ? REAL(renameat2)(from_dir, from, to_dir, to, flags)
             : -1;
}

TB_WRAPPER int rename(const char *from, const char *to)
{
    return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0);
}
TB_WRAPPER int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    return renameat2(from_dir, from, to_dir, to, 0);
}

/*
 * Those that follow a link, or name a descriptor, are no chain operation; they need no record either. No link is made at
 * a name with a slash at the end, or of one that is no directory: that is the kernel's to refuse.
 */
TB_WRAPPER int linkat(int from_dir, const char *from, int to_dir, const char *to, int flags)
{
    struct pair p;
    struct tb_path of_pfs;
    if (flags && tb_path_of_pfs(tb_path_meant(from_dir, from, flags & AT_SYMLINK_FOLLOW ? flags : flags | AT_SYMLINK_NOFOLLOW), &of_pfs))
        return linkat(AT_FDCWD, of_pfs.path, to_dir, to, 0);
    if (!flags && !tb_path_is_directory(from) && !tb_path_is_directory(to) && find_pair(from_dir, from, to_dir, to, &p))
        return link_pair(&p);
    return tb_path_real(&from_dir, &from, TB_NAME_CHANGE, &p.from) && tb_path_real(&to_dir, &to, TB_NAME_MAKE, &p.to)
             ? REAL(linkat)(from_dir, from, to_dir, to, flags)
             : -1;
}

TB_WRAPPER int link(const char *from, const char *to)
{
    return linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
}

/* A trailing slash is allowed here, so the name without it is meant. */
TB_WRAPPER int mkdirat(int dirfd, const char *path, mode_t mode)
{
    struct tb_path p;
    return tb_path_find(dirfd, path, &p) ? (int)TB_CALL(p.io, mkdir, p.path, mode) : REAL(mkdirat)(dirfd, path, mode);
}

TB_WRAPPER int mkdir(const char *path, mode_t mode)
{
    return mkdirat(AT_FDCWD, path, mode);
}
