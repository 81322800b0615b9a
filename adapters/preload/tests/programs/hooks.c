/*
 * Hooks in place of mmap, munmap and mremap, which reach the kernel by number: so UCX and Open MPI watch memory. They write a jump to the
 * hook over the beginning of the function that the program would call. A mapping is then a hook and one call of the kernel, and not the
 * hook once more; and it shows what is buffered. Other processors than x86-64 have other jumps: nothing is asked there.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static int failures;
#define CHECK(ok) ((ok) ? (void)0 : (void)(failures++, printf("%d: %s (%s)\n", __LINE__, #ok, strerror(errno))))
#define PAGE 4096

static _Thread_local int depth;
static _Atomic int n_hooked;

static long hooked(long number, const void *address, size_t a, long b, long c, long d, long e)
{
    if (depth++)
        _exit(9); /* else it would go on until the stack is full */
    n_hooked++;
    long rc = syscall(number, address, a, b, c, d, e);
    depth--;
    return rc;
}

static void *map(void *address, size_t n, int protection, int flags, int fd, off_t offset)
{
    return (void *)hooked(SYS_mmap, address, n, protection, flags, fd, offset);
}

static int unmap(void *address, size_t n)
{
    return (int)hooked(SYS_munmap, address, n, 0, 0, 0, 0);
}

static void *remap(void *old, size_t old_size, size_t size, int flags, void *wanted)
{
    return (void *)hooked(SYS_mremap, old, old_size, (long)size, flags, (long)wanted, 0);
}

/* jmp *0(%rip), and where to. */
static void hook(const char *name, uintptr_t to)
{
    unsigned char jump[14] = {0xff, 0x25};
    char *function = dlsym(RTLD_DEFAULT, name);
    uintptr_t page = (uintptr_t)function & ~(uintptr_t)(PAGE - 1);
    memcpy(jump + 6, &to, sizeof(to));
    CHECK(mprotect((void *)page, 2 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC) == 0);
    memcpy(function, jump, sizeof(jump));
}

static void mapped(int fd, char *at)
{
    CHECK(at != MAP_FAILED && memcmp(at, "abc", 3) == 0);
    at = at == MAP_FAILED ? at : mremap(at, PAGE, 2 * PAGE, MREMAP_MAYMOVE);
    CHECK(at != MAP_FAILED && memcmp(at, "abc", 3) == 0);
    CHECK(pwrite(fd, "ABC", 3, 0) == 3 && memcmp(at, "ABC", 3) == 0);
    CHECK(munmap(at, 2 * PAGE) == 0 && pwrite(fd, "abc", 3, 0) == 3);
}

int main(void)
{
#ifdef __x86_64__
    hook("mmap", (uintptr_t)map);
    hook("munmap", (uintptr_t)unmap);
    hook("mremap", (uintptr_t)remap);
    int fd = open("hooked", O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0 && pwrite(fd, "abc", 3, 0) == 3);
    mapped(fd, mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0));
    mapped(fd, (void *)syscall(SYS_mmap, NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0));
    CHECK(n_hooked >= 5 && close(fd) == 0);
#endif
    return failures > 0;
}
