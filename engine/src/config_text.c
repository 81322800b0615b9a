#include "config_text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define TEXT_MAX (1u << 20) /* bytes; no configuration is as long */

static int refuse(struct tb_error *err, const char *file, int error, const char *text)
{
    snprintf(err->text, sizeof(err->text), "%.900s: %s", file, text);
    return -error;
}

static int find_directory(const char *file, char *directory)
{
    char *resolved = realpath(file, NULL);
    if (!resolved)
        return -errno;
    char *slash = strrchr(resolved, '/');
    *(slash == resolved ? slash + 1 : slash) = '\0';
    int n = snprintf(directory, TB_PATH_MAX, "%s", resolved);
    free(resolved);
    return n < TB_PATH_MAX ? 0 : -ENAMETOOLONG;
}

static int read_all(FILE *in, const char *file, char **text, struct tb_error *err)
{
    char *buffer = malloc(TEXT_MAX + 1);
    if (!buffer)
        return refuse(err, file, ENOMEM, strerror(ENOMEM));
    errno = 0;
    size_t n = fread(buffer, 1, TEXT_MAX + 1, in);
    int rc = 0;
    if (ferror(in))
        rc = refuse(err, file, errno ? errno : EIO, strerror(errno ? errno : EIO));
    else if (n > TEXT_MAX)
        rc = refuse(err, file, EINVAL, "longer than 1 MiB: not a configuration");
    else if (memchr(buffer, '\0', n))
        rc = refuse(err, file, EINVAL, "holds a NUL byte: not a text file");
    if (rc) {
        free(buffer);
        return rc;
    }
    buffer[n] = '\0';
    *text = buffer;
    return 0;
}

int tb_text_read(const char *file, char *directory, char **text, struct tb_error *err)
{
    FILE *in = fopen(file, "re");
    if (!in)
        return refuse(err, file, errno, strerror(errno));
    int rc = find_directory(file, directory);
    if (rc)
        refuse(err, file, -rc, strerror(-rc));
    else
        rc = read_all(in, file, text, err);
    fclose(in);
    return rc;
}

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
    out[length] = '\0';
    return 0;
}

bool tb_path_is_under(const char *path, const char *parent)
{
    size_t n = strlen(parent);
    if (n == 1) /* "/" holds everything */
        return true;
    return strncmp(path, parent, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

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
    out[used] = '\0';
    return 0;
}

void tb_text_show(const char *text, char *out, size_t size)
{
    size_t used = 0;
    while (*text && used + 4 < size) {
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
    memcpy(out + used, *text ? "..." : "", *text ? 4 : 1);
}
