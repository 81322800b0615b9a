/*
 * A configuration file as text: read whole and checked, paths made absolute from its
 * directory, ${NAME} replaced from the environment, and the messages that name file and
 * line.
 */
#include "text/text.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEXT_MAX (1u << 20) /* bytes; no configuration is as long */
#define TOO_LONG "longer than a configuration can be; allowed: up to 1 MiB"

/* One message: file, what is wrong. The file's name is cut before it could push the reason out of the message. */
static int refuse(struct tb_error *err, const char *file, int error, const char *text)
{
    snprintf(err->text, sizeof(err->text), "%.900s: %s", file, text);
    return -error;
}

/* Of the file itself, after symbolic links: relative paths mean the same whatever link is used. */
static int find_directory(const char *file, char *directory)
{
    char *resolved = realpath(file, NULL);
    if (!resolved)
        return -errno;
    assert(resolved[0] == '/');
    char *slash = strrchr(resolved, '/');
    *(slash == resolved ? slash + 1 : slash) = '\0';
    int n = snprintf(directory, TB_PATH_MAX, "%s", resolved);
    free(resolved);
    return n < TB_PATH_MAX ? 0 : -ENAMETOOLONG;
}

/* Up to `size` bytes, fewer only at the end of the file; or -errno. A signal may cut a read short, which is no end. */
static ssize_t read_up_to(int fd, char *buffer, size_t size)
{
    size_t n = 0;
    while (n < size) {
        ssize_t got = read(fd, buffer + n, size - n);
        if (got == 0)
            break;
        if (got < 0 && errno != EINTR)
            return -errno;
        n += got > 0 ? (size_t)got : 0;
    }
    return (ssize_t)n;
}

bool tb_text_has_variable_mark(const char *text)
{
    return strstr(text, TB_VARIABLE_OPEN) || strstr(text, TB_VARIABLE_CLOSE);
}

/* What can be wrong with `n` bytes of text, which end with a NUL; or NULL. */
static const char *what_is_wrong(const char *text, size_t n)
{
    if (n > TEXT_MAX)
        return TOO_LONG;
    if (memchr(text, '\0', n))
        return "holds a NUL byte; allowed: a text file";
    if (tb_text_has_variable_mark(text))
        return "holds the character U+E000 or U+E001, which marks variables here; allowed: any other";
    return NULL;
}

/*
 * One byte more than allowed is read, so that a file which grows during the read is noticed.
 * A NUL byte would end the text for all code that reads it as a string, and hide what follows.
 */
static int read_all(int fd, const char *file, char **text, struct tb_error *err)
{
    char *buffer = malloc(TEXT_MAX + 2);
    if (!buffer)
        return refuse(err, file, ENOMEM, strerror(ENOMEM));
    ssize_t n = read_up_to(fd, buffer, TEXT_MAX + 1);
    buffer[n < 0 ? 0 : n] = '\0';
    const char *wrong = n < 0 ? strerror((int)-n) : what_is_wrong(buffer, (size_t)n);
    if (wrong) {
        free(buffer);
        return refuse(err, file, n < 0 ? (int)-n : EINVAL, wrong);
    }
    *text = buffer;
    return 0;
}

/*
 * Refuse by its kind what could block, never end, or take long to read. By the descriptor and
 * not by the name, which may lead to another file at the next look.
 */
static int check_kind(int fd, const char *file, struct tb_error *err)
{
    struct stat st;
    if (fstat(fd, &st))
        return refuse(err, file, errno, strerror(errno));
    if (S_ISDIR(st.st_mode))
        return refuse(err, file, EINVAL, "is a directory; allowed: a regular file");
    if (S_ISFIFO(st.st_mode))
        return refuse(err, file, EINVAL, "is a pipe; allowed: a regular file");
    if (!S_ISREG(st.st_mode))
        return refuse(err, file, EINVAL, "is a device; allowed: a regular file");
    return st.st_size > TEXT_MAX ? refuse(err, file, EINVAL, TOO_LONG) : 0;
}

/*
 * A pipe without a writer would make an open without O_NONBLOCK wait, and a terminal would
 * become the daemon's own without O_NOCTTY. Both are refused after the open.
 */
int tb_text_read(const char *file, char *directory, char **text, struct tb_error *err)
{
    int fd = open(file, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return refuse(err, file, errno, strerror(errno));
    int rc = check_kind(fd, file, err);
    int found = rc ? 0 : find_directory(file, directory);
    if (found)
        rc = refuse(err, file, -found, strerror(-found));
    if (!rc)
        rc = read_all(fd, file, text, err);
    close(fd);
    return rc;
}

/*
 * By the text alone: nothing on the file system is asked, and links are not followed. So the
 * same text gives the same path in every process, also before the directory exists. ".."
 * above the root stays at the root, as the kernel has it.
 */
int tb_path_absolute(const char *directory, const char *path, char *out, size_t size)
{
    char joined[2 * TB_PATH_MAX];
    int n = snprintf(joined, sizeof(joined), "%s/%s", path[0] == '/' ? "" : directory, path);
    if (n >= (int)sizeof(joined))
        return -ENAMETOOLONG;
    size_t length = 0;
    char *rest = joined;
    for (char *part; (part = strsep(&rest, "/"));) {
        if (!*part || strcmp(part, ".") == 0)
            continue;
        if (strcmp(part, "..") == 0) {
            while (length > 0 && out[--length] != '/')
                ;
            continue;
        }
        size_t part_length = strlen(part);
        if (length + part_length + 2 > size)
            return -ENAMETOOLONG;
        out[length] = '/';
        memcpy(out + length + 1, part, part_length);
        length += part_length + 1;
    }
    if (length == 0)
        out[length++] = '/';
    assert(out[0] == '/' && length < size);
    out[length] = '\0';
    return 0;
}

bool tb_path_is_under(const char *path, const char *parent)
{
    size_t n = strlen(parent);
    return n == 1 || tb_path_begins(path, parent, n); /* "/" holds everything */
}

int tb_path_longest(const char *path, const void *rows, size_t n, size_t size)
{
    int best = -1;
    size_t longest = 0;
    for (size_t i = 0; i < n; i++) {
        const char *prefix = (const char *)rows + i * size;
        size_t length = strlen(prefix);
        if (length > longest && tb_path_is_under(path, prefix)) {
            longest = length;
            best = (int)i;
        }
    }
    return best;
}

/*
 * Values of variables are not expanded again, so a value may hold any text. An unset variable
 * is an error and not empty: a path would otherwise become another, valid one.
 */
int tb_text_expand(const char *text, char *out, size_t size)
{
    size_t used = 0;
    while (*text) {
        const char *end = NULL, *piece = text;
        size_t length = 1;
        if (strncmp(text, TB_VARIABLE_OPEN, 3) == 0 && (end = strstr(text, TB_VARIABLE_CLOSE))) {
            char name[256];
            snprintf(name, sizeof(name), "%.*s", (int)(end - text - 3), text + 3);
            piece = getenv(name);
            if (!piece) {
                snprintf(out, size, "%s", name);
                return -EINVAL;
            }
            length = strlen(piece);
        }
        if (used + length + 1 > size)
            return -ENAMETOOLONG;
        memcpy(out + used, piece, length);
        used += length;
        text = end ? end + 3 : text + 1;
    }
    assert(used < size);
    out[used] = '\0';
    return 0;
}

/*
 * For messages: variables are shown as the user wrote them, long values are cut, and a new
 * line becomes a blank, because a message is one line.
 */
void tb_text_show(const char *text, char *out, size_t size)
{
    size_t used = 0;
    while (*text && used + 6 <= size) { /* room for "${" and "...\0" */
        if (strncmp(text, TB_VARIABLE_OPEN, 3) == 0) {
            out[used++] = '$';
            out[used++] = '{';
            text += 3;
        } else if (strncmp(text, TB_VARIABLE_CLOSE, 3) == 0) {
            out[used++] = '}';
            text += 3;
        } else {
            out[used++] = *text == '\n' ? ' ' : *text;
            text++;
        }
    }
    assert(used + 4 <= size); /* text.h: at least 8 */
    memcpy(out + used, *text ? "..." : "", *text ? 4 : 1);
}
