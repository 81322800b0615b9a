/*
 * Record locks of the program: files that may have one are marked, and the engine's own
 * descriptors of marked files are kept open, because closing one would drop the program's
 * locks (core/record_locks.h).
 */
#include "core/record_locks.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/adapter.h"

#define BUCKETS 256
#define PAGE 4096
#define KEPT_SIGNAL 63 /* F_SETSIG of a kept descriptor that is inherited: without O_ASYNC the kernel ignores it */

struct tb_lock_mark {
    dev_t device;
    ino_t inode;
    int n_asking; /* threads between tb_lock_asks and tb_lock_asked */
    int kept;     /* the first kept descriptor, -1: none */
    struct tb_lock_mark *next;
};

/*
 * Held for reading by a thread that closes a descriptor of a file without a mark; for writing by a thread that changes
 * marks or kept descriptors. So no file gets a mark between the look at it and the close.
 */
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct tb_lock_mark *marks[BUCKETS], *unused;
static _Atomic int n_marks;
static int next_kept[TB_FD_LIMIT]; /* untouched pages cost nothing */

/*
 * How often this thread has taken the lock. During a fork it is held for writing, and
 * the fork handlers of other libraries may close descriptors.
 */
static _Thread_local int held;

static void lock_to_look(void)
{
    tb_enter(); /* a signal's handler, which may lock or close, waits */
    if (held++ == 0)
        pthread_rwlock_rdlock(&lock);
}

/* May be nested in one thread. What the thread does inside is passed on, not managed. */
static void lock_to_change(void)
{
    tb_enter();
    if (held++ == 0)
        pthread_rwlock_wrlock(&lock);
}

static void unlock(void)
{
    if (--held == 0)
        pthread_rwlock_unlock(&lock);
    tb_leave();
}

/* By identity, because locks are of a file whatever its names are. */
static struct tb_lock_mark **bucket_of(const struct stat *st)
{
    return &marks[(st->st_ino ^ st->st_dev) % BUCKETS];
}

static struct tb_lock_mark *find(const struct stat *st)
{
    struct tb_lock_mark *m = *bucket_of(st);
    while (m && (m->inode != st->st_ino || m->device != st->st_dev))
        m = m->next;
    return m;
}

static struct tb_lock_mark *find_of(int fd)
{
    struct stat st;
    return n_marks && REAL(fstat)(fd, &st) == 0 ? find(&st) : NULL;
}

/* By system call: a handler that interrupted malloc may lock. */
static bool make_unused(void)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    struct tb_lock_mark *page = (void *)REAL(syscall)(SYS_mmap, NULL, PAGE, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (page == MAP_FAILED)
        return false;
    for (size_t i = 0; i < PAGE / sizeof(*page); i++) {
        page[i].next = unused;
        unused = &page[i];
    }
    return true;
}

static struct tb_lock_mark *add(const struct stat *st)
{
    struct tb_lock_mark *m = unused, **bucket = bucket_of(st);
    if (!m && !make_unused())
        return NULL;
    m = unused;
    unused = m->next;
    *m = (struct tb_lock_mark){.device = st->st_dev, .inode = st->st_ino, .kept = -1, .next = *bucket};
    *bucket = m;
    n_marks++;
    return m;
}

static void keep(struct tb_lock_mark *m, int fd)
{
    if (fd >= TB_FD_LIMIT) /* beyond the table: it stays open */
        return;
    tb_fd_own(fd);
    next_kept[fd] = m->kept;
    m->kept = fd;
}

static void close_own(int fd)
{
    tb_fd_disown(fd); /* before the number can be given out again */
    REAL(close)(fd);
}

static void close_kept(struct tb_lock_mark *m)
{
    while (m->kept >= 0) {
        int fd = m->kept;
        m->kept = next_kept[fd];
        close_own(fd);
    }
}

static void forget(struct tb_lock_mark *m)
{
    struct tb_lock_mark **link = bucket_of(&(struct stat){.st_dev = m->device, .st_ino = m->inode});
    while (*link != m)
        link = &(*link)->next;
    *link = m->next;
    m->next = unused;
    unused = m;
    n_marks--;
}

/* ---- the program's locks ---- */

struct tb_lock_mark *tb_lock_asks(int fd)
{
    struct stat st;
    int saved = errno;
    struct tb_lock_mark *m = NULL;
    if (tb_inside || !tb_adapter_engine() || REAL(fstat)(fd, &st) || !S_ISREG(st.st_mode))
        return errno = saved, NULL;
    lock_to_change();
    m = find(&st);
    m = m ? m : add(&st);
    if (m)
        m->n_asking++;
    unlock();
    errno = saved;
    return m;
}

void tb_lock_asked(struct tb_lock_mark *m)
{
    int saved = errno;
    if (!m)
        return;
    lock_to_change();
    m->n_asking--;
    unlock();
    errno = saved;
}

bool tb_locks_are_marked(int fd)
{
    int saved = errno;
    if (!n_marks || tb_inside)
        return false;
    lock_to_look();
    bool marked = find_of(fd);
    unlock();
    errno = saved;
    return marked;
}

struct tb_lock_mark *tb_locks_go_begin(int fd)
{
    if (!n_marks)
        return NULL;
    int saved = errno;
    lock_to_change();
    struct tb_lock_mark *m = find_of(fd);
    if (!m)
        unlock();
    errno = saved;
    return m;
}

/* A thread that is just asking for a lock may have it already: then its file stays marked. */
void tb_locks_go_end(struct tb_lock_mark *m, bool closed)
{
    if (!m)
        return;
    int saved = errno;
    if (closed && !m->n_asking) {
        close_kept(m);
        forget(m);
    }
    unlock();
    errno = saved;
}

/* ---- the engine's own descriptors ---- */

/* Is an own descriptor good for what one that is opened with `flags` is wanted for?  Offsets don't matter to the engine. */
static bool is_good_for(int fd, int flags)
{
    int has = REAL(fcntl)(fd, F_GETFL), access = has & O_ACCMODE;
    return has >= 0 && !(has & (O_APPEND | O_DIRECT)) && (access == O_RDWR || access == (flags & O_ACCMODE));
}

static int take_kept(struct tb_lock_mark *m, int flags)
{
    for (int *link = &m->kept; *link >= 0; link = &next_kept[*link])
        if (is_good_for(*link, flags)) {
            int fd = *link;
            *link = next_kept[fd];
            return fd;
        }
    return -1;
}

/*
 * The program may use all descriptors that it is allowed. What the engine needs comes on
 * top of that, as far as the hard limit goes. A fork waits until the limit is back, so no
 * child inherits the raised one.
 */
static int open_beyond(const char *path, int flags, mode_t mode)
{
    struct rlimit allowed, more;
    if (REAL(getrlimit)(RLIMIT_NOFILE, &allowed) || allowed.rlim_cur >= allowed.rlim_max)
        return errno = EMFILE, -1;
    more = allowed;
    more.rlim_cur = allowed.rlim_max;
    REAL(setrlimit)(RLIMIT_NOFILE, &more);
    int fd = REAL(open)(path, flags, mode), error = errno;
    REAL(setrlimit)(RLIMIT_NOFILE, &allowed);
    errno = error;
    return fd;
}

static int open_somewhere(const char *path, int flags, mode_t mode)
{
    int fd = REAL(open)(path, flags, mode);
    return fd < 0 && errno == EMFILE ? open_beyond(path, flags, mode) : fd;
}

/* The number moves up; where the file has just become that of a marked name, the low one can't be closed, and stays. */
static int open_unmarked(const char *path, int flags, mode_t mode)
{
    int low = open_somewhere(path, flags, mode);
    int high = low < 0 || find_of(low) ? -1 : REAL(fcntl)(low, F_DUPFD_CLOEXEC, tb_fd_own_from());
    if (low >= 0)
        tb_fd_own(high >= 0 ? high : low);
    if (high >= 0)
        REAL(close)(low);
    return low < 0 ? -errno : high >= 0 ? high : low;
}

/*
 * A descriptor of a marked file can't move: its first number would be closed.  So all lower numbers are taken while it
 * is opened, by descriptors that only name a place (O_PATH), which the kernel closes without a look at locks.
 */
static int open_marked(const char *path, int flags, mode_t mode)
{
    bool taken[TB_OWN_FD_FROM] = {false};
    int above = tb_fd_own_from(), blank = REAL(open)("/", O_PATH | O_CLOEXEC), at = blank;
    for (; at >= 0 && at < above; at = REAL(fcntl)(blank, F_DUPFD_CLOEXEC, 0))
        taken[at] = true;
    if (at >= 0)
        REAL(close)(at);
    int fd = open_somewhere(path, flags, mode);
    int rc = fd < 0 ? -errno : fd;
    for (int i = 0; i < above; i++)
        if (taken[i])
            REAL(close)(i);
    if (fd >= 0)
        tb_fd_own(fd);
    return rc;
}

/* A name that can't be looked at leads to no marked file. */
static struct tb_lock_mark *find_named(const char *path)
{
    struct stat st;
    return n_marks && REAL(stat)(path, &st) == 0 ? find(&st) : NULL;
}

/* Looked at twice: most files are not marked, and those need no lock for writing. */
int tb_own_open(const char *path, int flags, mode_t mode)
{
    lock_to_look();
    bool marked = find_named(path);
    int fd = marked ? -1 : open_unmarked(path, flags, mode);
    unlock();
    if (!marked)
        return fd;
    lock_to_change();
    struct tb_lock_mark *m = find_named(path);
    fd = m ? take_kept(m, flags) : -1;
    if (fd < 0)
        fd = m ? open_marked(path, flags, mode) : open_unmarked(path, flags, mode);
    unlock();
    return fd;
}

/* A descriptor of a marked file is kept instead of closed. */
int tb_own_close(int fd)
{
    lock_to_look();
    bool marked = find_of(fd);
    if (!marked)
        tb_fd_disown(fd);
    int rc = marked || REAL(close)(fd) == 0 ? 0 : -errno;
    unlock();
    if (!marked)
        return rc;
    lock_to_change();
    struct tb_lock_mark *m = find_of(fd);
    if (m)
        keep(m, fd);
    else
        close_own(fd);
    unlock();
    return 0;
}

/* ---- fork and exec ---- */

void tb_locks_before_fork(void)
{
    lock_to_change();
}

void tb_locks_in_parent(void)
{
    unlock();
}

/* A child has no record locks; what it closes takes none of its parent's. */
void tb_locks_in_child(void)
{
    pthread_rwlock_init(&lock, NULL); /* held by the parent's thread */
    held = 0;
    for (int i = 0; i < BUCKETS; i++)
        while (marks[i]) {
            close_kept(marks[i]);
            forget(marks[i]);
        }
    tb_leave();
}

/* The engine's own of marked files, those in use by other threads too, live on in the executed program, or don't. */
static void live_on(bool yes)
{
    for (int fd = tb_fd_next_own(0); fd < INT_MAX; fd = tb_fd_next_own(fd + 1))
        if (find_of(fd)) {
            REAL(fcntl)(fd, F_SETFD, yes ? 0 : FD_CLOEXEC);
            REAL(fcntl)(fd, F_SETSIG, yes ? KEPT_SIGNAL : 0);
        }
}

bool tb_locks_exec_begin(void)
{
    int saved = errno;
    if (!n_marks || tb_inside)
        return false;
    lock_to_change();
    live_on(true);
    errno = saved;
    return true;
}

void tb_locks_exec_end(bool begun)
{
    int saved = errno;
    if (!begun)
        return;
    live_on(false);
    unlock();
    errno = saved;
}

/* The kernel shows a lock at the descriptor by which it was taken. */
static bool has_record_lock(int fd)
{
    char path[64], line[256];
    bool found = false;
    snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
    FILE *info = REAL(fopen)(path, "re");
    while (info && !found && fgets(line, sizeof(line), info))
        found = strncmp(line, "lock:", 5) == 0 && strstr(line, "POSIX");
    if (info)
        REAL(fclose)(info);
    return found;
}

/* What the program before exec locked is locked still. */
static void mark_locked(int fd, const struct stat *st)
{
    if (has_record_lock(fd) && !find(st))
        add(st);
}

/* A kept one of a file without locks came along by a fork of another thread. */
static void adopt_kept(int fd, const struct stat *st)
{
    if (REAL(fcntl)(fd, F_GETSIG) != KEPT_SIGNAL)
        return;
    struct tb_lock_mark *m = find(st);
    if (!m) {
        REAL(close)(fd);
        return;
    }
    REAL(fcntl)(fd, F_SETFD, FD_CLOEXEC);
    REAL(fcntl)(fd, F_SETSIG, 0);
    keep(m, fd);
}

static void each_regular(DIR *descriptors, void (*act)(int, const struct stat *))
{
    struct stat st;
    REAL(rewinddir)(descriptors);
    for (struct dirent *d; (d = REAL(readdir)(descriptors));) {
        int fd = d->d_name[0] == '.' ? -1 : atoi(d->d_name);
        if (fd >= 0 && REAL(fstat)(fd, &st) == 0 && S_ISREG(st.st_mode))
            act(fd, &st);
    }
}

void tb_locks_adopt(void)
{
    DIR *descriptors = REAL(opendir)("/proc/self/fd");
    if (!descriptors)
        return;
    lock_to_change();
    each_regular(descriptors, mark_locked);
    if (n_marks)
        each_regular(descriptors, adopt_kept);
    unlock();
    REAL(closedir)(descriptors);
}
