/* What the locker holds and needs: its files, its lock, and the pipes by which it and its parent take turns. */
#include "locks.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

char block[1 << 20];
int fd = -1, appended = -1, other = -1, second = -1;
char f[64], other_name[80], second_name[80];

void die(const char *what)
{
    perror(what);
    exit(1);
}

int run_lock(int at, enum kind kind)
{
    struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 100, .l_len = 100};
    if (kind == FLOCK)
        return flock(at, LOCK_EX | LOCK_NB);
    if (kind == LOCKF) /* from where the descriptor is */
        return lseek(at, 100, SEEK_SET) != 100 ? -1 : lockf(at, F_TLOCK, 100);
    return fcntl(at, kind == OFD ? F_OFD_SETLK : F_SETLK, &range);
}

void put(int at, off_t n, off_t offset)
{
    for (off_t done = 0, piece; done < n; done += piece) {
        piece = n - done < (off_t)sizeof(block) ? n - done : (off_t)sizeof(block);
        if (pwrite(at, block, (size_t)piece, offset + done) != piece)
            die("pwrite");
    }
}

int make(const char *name, int flags)
{
    int at = open(name, O_RDWR | flags, 0644);
    if (at < 0)
        die(name);
    return at;
}

void tell(int at)
{
    if (write(at, "x", 1) != 1)
        _exit(1);
}

bool hear(int at)
{
    char c;
    return read(at, &c, 1) == 1;
}
