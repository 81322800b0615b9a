/* A PFS that stalls, by LD_PRELOAD: the write at 1 MiB of a file waits for so many seconds as TB_SLOW_S says. */
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

__attribute__((visibility("default"))) ssize_t pwrite64(int fd, const void *bytes, size_t n, off64_t at)
{
    const char *seconds = getenv("TB_SLOW_S");
    if (at == 1 << 20 && seconds)
        sleep((unsigned)atoi(seconds));
    return ((__typeof__(pwrite64) *)dlsym(RTLD_NEXT, "pwrite64"))(fd, bytes, n, at);
}
