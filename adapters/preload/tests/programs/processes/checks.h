/* What the programs of this folder check with: a check that fails is printed and counted. */
#ifndef TB_TEST_CHECKS_H
#define TB_TEST_CHECKS_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int failures;
#define CHECK(ok) ((ok) ? (void)0 : (void)(failures++, printf("%d: %s (%s)\n", __LINE__, #ok, strerror(errno))))

/* The file has this text and no more. */
static inline int holds(const char *path, const char *text)
{
    char got[64] = "";
    int fd = open(path, O_RDONLY);
    ssize_t n = read(fd, got, sizeof(got) - 1);
    close(fd);
    return n == (ssize_t)strlen(text) && !strcmp(got, text);
}

#endif
