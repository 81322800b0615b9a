/*
 * How often is a name routed in one call? Prints a line a call: its name and the number. And is
 * a file that was renamed from one prefix to another still the one that the process has open?
 *   routes FOLDER      FOLDER/other: another prefix
 * It runs under a copy of the preload library that counts (routes_count.c).
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tierbench/engine.h>

static unsigned (*routed)(void);
static char name[4096], other[4096];

static int open_and_close(int flags)
{
    int fd = open(name, flags, 0600);
    return fd < 0 ? -1 : close(fd);
}

static int statx_it(void)
{
    struct statx x;
    return statx(AT_FDCWD, name, 0, STATX_BASIC_STATS, &x);
}

static void say(const char *call, unsigned before, int rc)
{
    unsigned n = routed() - before;
    if (rc) {
        fprintf(stderr, "%s: %s\n", call, strerror(errno));
        exit(1);
    }
    printf("%s %u\n", call, n);
}

#define COUNT(call, ...)                \
    do {                                \
        unsigned before = routed();     \
        say(call, before, __VA_ARGS__); \
    } while (0)

/* Asked by its new name, of a descriptor that was opened by the old one. */
static int promise_elsewhere(const char *to)
{
    enum tb_mode mode;
    enum tb_fsync fsync;
    int (*promise)(const char *, enum tb_mode *, enum tb_fsync *);
    *(void **)&promise = dlsym(RTLD_DEFAULT, "tb_adapter_promise");
    int fd = open(name, O_CREAT | O_RDWR, 0600), rc = fd < 0 || rename(name, to) ? -errno : promise(to, &mode, &fsync);
    close(fd);
    return rc || unlink(to);
}

int main(int argc, char **argv)
{
    struct stat st;
    routed = (unsigned (*)(void))dlsym(RTLD_DEFAULT, "tb_routes_counted");
    if (argc != 2 || !routed)
        return fprintf(stderr, "usage: %s FOLDER, under the library that counts\n", argv[0]), 2;
    snprintf(name, sizeof(name), "%s/one", argv[1]);
    snprintf(other, sizeof(other), "%s/two", argv[1]);
    COUNT("create", open_and_close(O_CREAT | O_EXCL | O_RDWR));
    COUNT("open", open_and_close(O_RDWR));
    COUNT("stat", stat(name, &st));
    COUNT("statx", statx_it());
    COUNT("access", access(name, R_OK));
    COUNT("truncate", truncate(name, 10));
    COUNT("chmod", chmod(name, 0640));
    COUNT("link", link(name, other));
    COUNT("unlink", unlink(other));
    COUNT("rename", rename(name, other));
    COUNT("remove", remove(other));
    COUNT("mkdir", mkdir(name, 0700));
    COUNT("rmdir", rmdir(name));
    snprintf(other, sizeof(other), "%s/other/one", argv[1]);
    if (promise_elsewhere(other))
        return fprintf(stderr, "%s is not known as open\n", other), 1;
    return 0;
}
