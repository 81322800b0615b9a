/*
 * The kernel says the name of an open file without links (/proc/self/fd), and realpath that of a directory. Both begin with the prefix's
 * own real name; what is remembered begins with the prefix as it is configured, since recovery looks for that.
 */
#include "io/real_name.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "config/config.h"

static size_t length_of(const char *directory)
{
    return strcmp(directory, "/") == 0 ? 0 : strlen(directory);
}

static bool is_below(const char *name, const char *directory)
{
    size_t n = length_of(directory);
    return strncmp(name, directory, n) == 0 && name[n] == '/';
}

/* The real name `name` in the words of the configuration; mostly these are the same. */
static bool say_below(struct tb_io *io, const char *prefix, const char *name, char *out)
{
    char root[PATH_MAX];
    const char *real = is_below(name, prefix) ? prefix : TB_IO(io, realpath, prefix, root) == 0 ? root : NULL;
    return real && is_below(name, real) &&
           snprintf(out, TB_PATH_MAX, "%.*s%s", (int)length_of(prefix), prefix, name + length_of(real)) < (int)TB_PATH_MAX;
}

static bool is_name_of(struct tb_io *io, const char *path, const struct tb_identity *id)
{
    struct tb_identity there;
    return tb_identity_of_path(io, path, &there) == 0 && tb_identity_is_same(&there, id);
}

void tb_real_name_of_file(struct tb_io *base, const char *prefix, int fd, const struct tb_identity *id, char *path)
{
    char self[32], name[PATH_MAX], said[TB_PATH_MAX];
    snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
    ssize_t n = TB_IO(base, readlink, self, name, sizeof(name) - 1);
    if (n <= 0)
        return;
    name[n] = 0;
    if (strcmp(name, path) != 0 && say_below(base, prefix, name, said) && is_name_of(base, said, id))
        strcpy(path, said);
}

/* `directory` below `prefix`; what cannot be looked at is left to the call that uses it. */
static bool goes_through_links(struct tb_io *io, const char *prefix, const char *directory)
{
    char part[PATH_MAX];
    struct statx st;
    size_t n = strlen(directory);
    memcpy(part, directory, n + 1);
    for (char *end = part + length_of(prefix); end < part + n;) {
        end += 1 + strcspn(end + 1, "/");
        char cut = *end;
        *end = 0;
        if (TB_IO(io, statx, part, AT_SYMLINK_NOFOLLOW, STATX_TYPE, &st))
            return false;
        if (S_ISLNK(st.stx_mode))
            return true;
        *end = cut;
    }
    return false;
}

void tb_real_name_of_place(struct tb_io *io, const char *prefix, char *path)
{
    char directory[PATH_MAX], real[PATH_MAX], said[TB_PATH_MAX], last[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) : 0;
    if (n <= length_of(prefix))
        return;
    memcpy(directory, path, n);
    directory[n] = 0;
    if (!goes_through_links(io, prefix, directory) || TB_IO(io, realpath, directory, real) || !say_below(io, prefix, real, said))
        return;
    strcpy(last, slash);
    if (strlen(said) + strlen(last) < TB_PATH_MAX)
        strcat(strcpy(path, said), last);
}
