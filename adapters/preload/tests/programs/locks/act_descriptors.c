/*
 * Actions on descriptors and on the locks themselves. What the program closes takes its fcntl locks with it; numbers of descriptors
 * are the lowest free ones, also while the engine keeps descriptors of its own.
 */
#include "locks.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static void map_descriptor_gone(void)
{
    char *m = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, second, 0);
    close(second); /* every fcntl lock of the process goes */
    run_lock(fd, FCNTL);
    munmap(m, BYTES); /* and this closes nothing of the program's */
}

/* What the program closes itself takes fcntl locks with it. */
static void close_own(void)
{
    close(open(f, O_RDONLY));
}

void close_second(void)
{
    close(second);
}

static void close_first(void)
{
    close(fd);
}

static void close_copy(void)
{
    close(dup(fd));
}

static void close_by_copy(void)
{
    dup2(other, second);
}

static void close_by_copy3(void)
{
    dup3(other, second, O_CLOEXEC);
}

static void close_by_range(void)
{
    close_range((unsigned)second, (unsigned)second, 0);
}

static void close_from(void)
{
    close_range((unsigned)second, TELL - 1, 0);
}

static void close_by_number(void)
{
    syscall(SYS_close, second);
}

static void close_stream(void)
{
    fclose(fopen(f, "r"));
}

static void close_given(void)
{
    fclose(fdopen(second, "r"));
}

static void unlock_part(void)
{
    struct flock r = {.l_type = F_UNLCK, .l_start = 120, .l_len = 10};
    fcntl(fd, F_SETLK, &r);
    truncate_name();
}

static void lock_again(void)
{
    close_second();
    run_lock(fd, FCNTL);
    truncate_name();
    link_unlink();
}

static void lock_by_number(void)
{
    struct flock r = {.l_type = F_WRLCK, .l_start = 300, .l_len = 10};
    syscall(SYS_fcntl, fd, F_SETLK, &r);
    truncate_name();
}

static void unlock(void)
{
    struct flock r = {.l_type = F_UNLCK};
    fcntl(fd, F_SETLK, &r);
}

static void lock_only(short from, off_t at)
{
    struct flock r = {.l_type = F_WRLCK, .l_whence = from, .l_start = at, .l_len = 4};
    unlock();
    fcntl(fd, F_SETLK, &r);
}

static void lock_from_end(void)
{
    put(fd, 10, 2 * BYTES);
    lock_only(SEEK_END, -10);
}

static void lock_from_here(void)
{
    lseek(fd, 5000, SEEK_SET);
    lock_only(SEEK_CUR, -10);
}

static void ask_from_here(void)
{
    struct flock r = {.l_type = F_WRLCK, .l_whence = SEEK_CUR, .l_start = 7, .l_len = 4};
    fcntl(fd, F_GETLK, &r);
    printf("%d %d %lld %lld\n", r.l_type, r.l_whence, (long long)r.l_start, (long long)r.l_len);
}

static void lockf_here(void)
{
    unlock();
    lseek(fd, 7000, SEEK_SET);
    (void)!write(fd, "abc", 3);
    (void)!lockf(fd, F_LOCK, -3);
}

static void lockf_tests(void)
{
    lseek(fd, 100, SEEK_SET);
    printf("%d", lockf(fd, F_TEST, 10));
    printf(" %d\n", lockf(fd, F_ULOCK, 10));
}

static void unlock_all(void)
{
    unlock();
    truncate_name();
}

static void lock_read(void)
{
    struct flock r = {.l_type = F_RDLCK, .l_start = 50, .l_len = 10};
    fcntl(second, F_SETLK, &r);
    truncate_name();
}

static void descriptors_are_low(void)
{
    truncate_name();
    link_unlink();
    int at = open("/dev/null", O_RDONLY);
    if (at != second + 1)
        printf("descriptor %d, not %d\n", at, second + 1);
    close(at);
}

static int restricted(uint64_t flags)
{
    struct open_how how = {.flags = flags, .resolve = RESOLVE_NO_MAGICLINKS};
    int at = (int)syscall(SYS_openat2, AT_FDCWD, f, &how, sizeof(how));
    if (at != second + 1)
        printf("descriptor %d, not %d\n", at, second + 1);
    return at;
}

static void open_restricted(void)
{
    restricted(O_RDWR);
}

static void close_restricted(void)
{
    close(restricted(O_RDWR | O_TRUNC));
}

static void open_handle(void)
{
    struct {
        struct file_handle handle;
        unsigned char room[128];
    } h = {.handle.handle_bytes = 128};
    int mount, here = open(".", O_RDONLY | O_DIRECTORY);
    if (name_to_handle_at(AT_FDCWD, f, &h.handle, &mount, 0))
        return;
    int at = open_by_handle_at(here, &h.handle, O_RDWR);
    if (at != here + 1)
        printf("descriptor %d, not %d\n", at, here + 1);
    put(at, 100, 0);
}

/* The program may open nothing more; what needs no descriptor of it works all the same. */
static void no_descriptor_free(void)
{
    int first = dup(0), last = first;
    for (int at; (at = dup(0)) >= 0;)
        last = at;
    truncate_name();
    link_unlink();
    append_sync();
    printf("%d %d\n", truncate(f, BYTES), open(f, O_RDONLY));
    for (; last >= first; last--)
        if (last != TELL && last != HEAR)
            close(last);
}

const struct action descriptor_actions[] = {
    ACTION(map_descriptor_gone), ACTION(close_own),        ACTION(close_second),        ACTION(close_first),
    ACTION(close_copy),          ACTION(close_by_copy),    ACTION(close_by_copy3),      ACTION(close_by_range),
    ACTION(close_from),          ACTION(close_by_number),  ACTION(close_stream),        ACTION(close_given),
    ACTION(unlock_part),         ACTION(unlock_all),       ACTION(lock_again),          ACTION(lock_by_number),
    ACTION(lock_from_end),       ACTION(lock_from_here),   ACTION(ask_from_here),       ACTION(lockf_tests),
    ACTION(lockf_here),          ACTION(lock_read),        ACTION(descriptors_are_low), ACTION(no_descriptor_free),
    ACTION(open_restricted),     ACTION(close_restricted), ACTION(open_handle),         {NULL, NULL},
};
