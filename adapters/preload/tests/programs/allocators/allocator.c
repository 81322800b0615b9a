/*
 * An allocator as jemalloc is one: with its lock held it reads what the system says, when it begins and whenever it asks for more memory. The
 * lock is not recursive: a wrapper that asks for memory in such a call would wait for ever, and is told so here.
 *
 * Its constructor makes an early file, which is managed as any other.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PIECE (4 << 20)
#define HEAD 16 /* holds the size; also the alignment */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool has_lock __attribute__((tls_model("initial-exec")));
static char *piece;
static size_t used = PIECE;

static void take(void)
{
    static const char text[] = "the allocator was asked for memory while it asked the system\n";
    if (has_lock) {
        syscall(SYS_write, STDERR_FILENO, text, sizeof(text) - 1);
        syscall(SYS_exit_group, 3);
    }
    pthread_mutex_lock(&lock);
    has_lock = true;
}

static void give(void)
{
    has_lock = false;
    pthread_mutex_unlock(&lock);
}

/* By all the ways that allocators use. */
static void ask_system(void)
{
    char text[64];
    struct stat st;
    int fd = open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC);
    int by_number = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (readlink("/etc/malloc.conf", text, sizeof(text)) > 0 || fd < 0 || read(fd, text, sizeof(text)) <= 0)
        text[0] = 0;
    if (access("/sys/devices/system/node", R_OK) == 0 && stat("/sys/kernel/mm", &st) == 0)
        text[0] = 1;
    syscall(SYS_readlink, "/etc/malloc.conf", text, sizeof(text));
    close(by_number);
    close(fd);
}

/* One piece more than is needed is mapped and given back, as allocators do to align. */
static void ask_for_more(void)
{
    static bool began;
    ask_system();
    if (!began)
        pthread_atfork(take, give, give);
    began = true;
    piece = mmap(NULL, PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *rest = mmap(NULL, PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(rest, PIECE);
    used = 0;
}

/* A large block has a mapping of its own. Nothing is used twice. */
void *malloc(size_t n)
{
    size_t whole = (n + HEAD + HEAD - 1) / HEAD * HEAD;
    char *block;
    take();
    if (whole <= PIECE && used + whole > PIECE)
        ask_for_more();
    if (whole > PIECE)
        block = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    else
        block = piece + used;
    used += whole <= PIECE ? whole : 0;
    give();
    *(size_t *)(void *)block = n;
    return block + HEAD;
}

/* What is new is zero. */
void *calloc(size_t n, size_t size)
{
    return malloc(n * size);
}

void free(void *block)
{
    take(); /* it must not be held here either */
    (void)block;
    give();
}

void *realloc(void *block, size_t n)
{
    void *made = malloc(n);
    size_t old = block ? *(size_t *)(void *)((char *)block - HEAD) : 0;
    return block ? memcpy(made, block, old < n ? old : n) : made;
}

static void *aligned(size_t alignment, size_t n)
{
    uintptr_t block = (uintptr_t)malloc(n + alignment + HEAD);
    uintptr_t at = (block + HEAD + alignment - 1) / alignment * alignment;
    *(size_t *)(at - HEAD) = n;
    return (void *)at;
}

void *memalign(size_t alignment, size_t n);
void *memalign(size_t alignment, size_t n)
{
    return aligned(alignment, n);
}

void *aligned_alloc(size_t alignment, size_t n)
{
    return aligned(alignment, n);
}

int posix_memalign(void **out, size_t alignment, size_t n)
{
    *out = aligned(alignment, n);
    return 0;
}

/* `volatile`: the block would be left out. */
static __attribute__((constructor)) void begin(void)
{
    void *volatile block = malloc(100);
    const char *name = getenv("TEST_EARLY_FILE");
    int fd = name ? open(name, O_RDWR | O_CREAT | O_EXCL, 0600) : -1;
    if (fd >= 0 && (write(fd, "early", 5) != 5 || close(fd)))
        _exit(4);
    free(block);
}
