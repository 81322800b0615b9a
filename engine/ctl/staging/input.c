/*
 * A file is refused by its kind before a line is read: a pipe would wait for a writer, and a
 * device may never end. Stdio does not say why a line is the last one, so that is asked at the end.
 */
#include "staging/input.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BYTES_MAX (256L << 20) /* a list of a million files */

/* By the descriptor: the name may lead to another file at the next look. */
static const char *refusal(int fd)
{
    struct stat st;
    if (fstat(fd, &st))
        return strerror(errno);
    if (!S_ISREG(st.st_mode))
        return S_ISDIR(st.st_mode) ? "is a directory; allowed: a text file" : "is a pipe or a device; allowed: a text file";
    return st.st_size > BYTES_MAX ? "is larger than 256 MiB; allowed: a text file" : NULL;
}

/* Without waiting: a pipe without a writer would hold the open for ever. */
FILE *ctl_input_open(const char *file, const char **why)
{
    int fd = open(file, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    *why = fd < 0 ? strerror(errno) : refusal(fd);
    FILE *in = *why ? NULL : fdopen(fd, "r");
    if (!*why && !in)
        *why = strerror(errno);
    if (!in && fd >= 0)
        close(fd);
    return in;
}

/* An error of a read is told here, because a loop over lines sees only that they end. */
const char *ctl_input_close(FILE *in)
{
    int error = ferror(in) ? errno : 0;
    fclose(in);
    return error ? strerror(error) : NULL;
}
