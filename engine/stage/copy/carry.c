/*
 * The steps of carry.h. The file beside has a name made of the source's, so that a mover that
 * goes on after a crash replaces what the dead one left, and no other file of any mover
 * has it.
 */
#include "stage/copy/carry.h"

#include <errno.h>
#include <fcntl.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "stage/copy/attributes.h"
#include "base/clock.h"

#define LONGEST_TICK_NS 10000000
#define LOOK_FIRST (1 << 20) /* a larger file is not copied before it is known that nothing is in its place */

/*
 * What the user is told is the step and the reason. Two reasons are no failure of the move: the mover was stopped, or the
 * source changed.
 */
static void fail(struct tb_carry *m, const char *step, int rc)
{
    m->step = step;
    m->rc = rc;
    m->end = rc == -ECANCELED ? TB_CARRY_STOPPED : rc == -ESTALE ? TB_CARRY_CHANGED : TB_CARRY_FAILED;
}

/*
 * The kernel grants a read lease only where no process has the file open to write. It is
 * given back at once. -EAGAIN alone says that there is a writer.
 */
static bool has_writer(int fd)
{
    if (fcntl(fd, F_SETLEASE, F_RDLCK))
        return errno == EAGAIN;
    fcntl(fd, F_SETLEASE, F_UNLCK);
    return false;
}

bool tb_file_has_writer(const char *path)
{
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool has = fd >= 0 && has_writer(fd);
    if (fd >= 0)
        close(fd);
    return has;
}

/* Where a file with several links went. */
struct link {
    dev_t device;
    ino_t inode;
    struct tb_content content;
    char destination[];
};

static int by_inode(const void *a, const void *b)
{
    const struct link *x = a, *y = b;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    return x->inode < y->inode ? -1 : x->inode > y->inode;
}

void tb_carry_note_link(struct tb_carries *moves, const struct stat *st, const char *destination)
{
    struct link *new = malloc(sizeof(*new) + strlen(destination) + 1);
    if (!new)
        return; /* then the next name gets a copy */
    *new = (struct link){st->st_dev, st->st_ino, tb_content_of(st)};
    strcpy(new->destination, destination);
    pthread_mutex_lock(&moves->table_mutex);
    struct link **known = tfind(new, &moves->links, by_inode);
    if (known) {
        free(*known);
        *known = new;
    } else if (!tsearch(new, &moves->links, by_inode)) {
        free(new);
    }
    pthread_mutex_unlock(&moves->table_mutex);
}

/* Where the file went, if it has its size and mtime still; `same`: its ctime too. False: nowhere yet. */
static bool find_link(struct tb_carries *moves, const struct stat *st, char *destination, bool *same)
{
    const struct link key = {.device = st->st_dev, .inode = st->st_ino};
    struct tb_content now = tb_content_of(st);
    pthread_mutex_lock(&moves->table_mutex);
    struct link **known = tfind(&key, &moves->links, by_inode);
    bool found = known && (*known)->content.mtime == now.mtime && (*known)->content.size == now.size;
    *same = found && (*known)->content.ctime == now.ctime;
    if (found)
        strcpy(destination, (*known)->destination);
    pthread_mutex_unlock(&moves->table_mutex);
    return found;
}

int tb_carries_begin(struct tb_carries *moves, const struct tb_config_stage *settings, struct tb_ledger *ledger, const char *host,
                     const char *root, const atomic_bool *stop)
{
    struct stat st = {0};
    *moves = (struct tb_carries){.settings = settings,
                                 .ledger = ledger,
                                 .host = host,
                                 .root = root,
                                 .stop = stop,
                                 .uid = geteuid(),
                                 .gid = getegid(),
                                 .links_mutex = PTHREAD_MUTEX_INITIALIZER,
                                 .table_mutex = PTHREAD_MUTEX_INITIALIZER};
    tb_rate_begin(&moves->rate, settings->bandwidth);
    if (root && stat(root, &st))
        return -errno;
    moves->root_device = st.st_dev;
    moves->root_inode = st.st_ino;
    return 0;
}

/* Else the PFS is not mounted, and the folder of the same name below would take the file. */
static bool root_is_there(const struct tb_carries *moves)
{
    struct stat st;
    return !moves->root || (stat(moves->root, &st) == 0 && st.st_dev == moves->root_device && st.st_ino == moves->root_inode);
}

void tb_carries_end(struct tb_carries *moves)
{
    tdestroy(moves->links, free);
}

/*
 * The destination's folder, and those above it, with the modes of the source's. A mode of a folder is its source's, but
 * always with this user's own rights: the mover has to write into it.
 */
int tb_carry_make_folders(const char *source, const char *destination)
{
    char path[PATH_MAX], like[PATH_MAX];
    size_t n = strlen(destination), k = strlen(source);
    struct stat st;
    if (n >= sizeof(path) || k >= sizeof(like))
        return -ENAMETOOLONG;
    memcpy(path, destination, n + 1);
    memcpy(like, source, k + 1);
    for (char *p = path + 1; (p = strchr(p, '/')); p++) {
        size_t rest = n - (size_t)(p - path);
        *p = '\0';
        mode_t mode = 0755;
        if (rest < k && strcmp(source + k - rest, destination + n - rest) == 0) { /* the same part below */
            like[k - rest] = '\0';
            mode = stat(like, &st) == 0 ? st.st_mode & 07777 : mode;
            like[k - rest] = '/';
        }
        if (mkdir(path, mode | 0700) && errno != EEXIST)
            return -errno;
        *p = '/';
    }
    return 0;
}

/*
 * The root is looked at after each folder's opening: what is open then stays on its file system, whatever becomes of the mount
 * point.
 */
static int open_destination(const struct tb_carries *moves, struct tb_folders *folders, struct tb_carry *m)
{
    const struct tb_folder *known = folders->first;
    m->folder = tb_folders_of(folders, m->destination, &m->name);
    if (!m->folder && errno == ENOENT) {
        int rc = root_is_there(moves) ? tb_carry_make_folders(m->source, m->destination) : -ENODEV;
        if (rc)
            return rc;
        m->folder = tb_folders_of(folders, m->destination, &m->name);
    }
    if (!m->folder)
        return -errno;
    if (folders->first == known || root_is_there(moves))
        return 0;
    tb_folders_close_newest(folders);
    m->folder = NULL;
    return -ENODEV;
}

static bool has_bytes_of(int with, int at, const char *path)
{
    int fd = openat(at, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    bool same = fd >= 0 && tb_bytes_equal(with, fd) > 0;
    if (fd >= 0)
        close(fd);
    return same;
}

/* With its bytes, or its target where it is a link. `with` is open and has the source's bytes. */
static bool is_same(const struct tb_carry *m, const struct stat *there, int with, const char *target)
{
    struct tb_content is = tb_content_of(there), should = tb_content_of(&m->before);
    char other[PATH_MAX];
    if (is.size != should.size || is.mtime != should.mtime || (there->st_mode & S_IFMT) != (m->before.st_mode & S_IFMT))
        return false;
    if (target) {
        ssize_t n = readlinkat(m->folder->fd, m->name, other, sizeof(other));
        return n == (ssize_t)strlen(target) && memcmp(other, target, (size_t)n) == 0;
    }
    return has_bytes_of(with, m->folder->fd, m->name);
}

/*
 * A destination that was there before is replaced only if an earlier move of this source put
 * it there. If it is the same, that move was killed before it could say so, and perhaps
 * before the fsync of the folder, and nothing else is left to do.
 */
static void meet_destination(struct tb_carries *moves, struct tb_carry *m, int with, const char *target)
{
    struct stat st;
    if (fstatat(m->folder->fd, m->name, &st, AT_SYMLINK_NOFOLLOW) || tb_ledger_owns(moves->ledger, moves->host, m->source, m->destination))
        return;
    m->is_there = is_same(m, &st, with, target);
    if (m->is_there)
        m->folder->is_changed = true;
    else
        m->end = TB_CARRY_CLASH;
}

/* A link as it is: where it points is not changed. */
static void open_symlink(struct tb_carries *moves, struct tb_carry *m)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(m->from->fd, m->source_name, target, sizeof(target) - 1);
    if (n < 0)
        return fail(m, "read the link", -errno);
    target[n] = '\0';
    meet_destination(moves, m, -1, target);
    if (m->end || m->is_there)
        return;
    m->sum = XXH3_64bits(target, (size_t)n);
    const struct timespec times[] = {m->before.st_atim, m->before.st_mtim};
    unlinkat(m->folder->fd, m->beside, 0);
    m->lies_beside = symlinkat(target, m->folder->fd, m->beside) == 0;
    if (!m->lies_beside || utimensat(m->folder->fd, m->beside, times, AT_SYMLINK_NOFOLLOW))
        fail(m, "make the link", -errno);
}

/* Mode and owner as the source's, and no attributes that a look does not show. */
static bool is_dressed(const struct tb_carries *moves, const struct tb_carry *m, const struct stat *there)
{
    bool owner = moves->uid != 0 || (there->st_uid == m->before.st_uid && there->st_gid == m->before.st_gid);
    return owner && there->st_mode == m->before.st_mode && !tb_attributes_has_extended(m->in);
}

/*
 * Another name of a file that is there already becomes a link to it. A link that was made or removed since has changed the ctime, and
 * so may have a chmod or a write that kept the mtime: then all is compared. False: a copy is made.
 */
static bool link_to_known(struct tb_carries *moves, struct tb_carry *m)
{
    char known[PATH_MAX];
    struct tb_content now = tb_content_of(&m->before);
    struct stat st;
    bool same;
    if (!find_link(moves, &m->before, known, &same) || stat(known, &st) || tb_content_of(&st).mtime != now.mtime ||
        tb_content_of(&st).size != now.size || strcmp(known, m->destination) == 0 ||
        !(same || (is_dressed(moves, m, &st) && has_bytes_of(m->in, AT_FDCWD, known))))
        return false;
    unlinkat(m->folder->fd, m->beside, 0);
    if (linkat(AT_FDCWD, known, m->folder->fd, m->beside, 0))
        return false;
    m->lies_beside = true;
    m->out = openat(m->folder->fd, m->beside, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    return m->out >= 0;
}

/*
 * Made anew: bytes never go into a file of this name that another user made, or that a killed mover left. It has the source's
 * mode from the first, but that others may not write to it; with an ACL the mode says too little, and no other user may read it.
 */
static int make_beside(const struct tb_carry *m)
{
    const int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    mode_t mode = m->has_extended ? 0600 : (m->before.st_mode & 0755) | 0600;
    int fd = openat(m->folder->fd, m->beside, flags, mode);
    if (fd >= 0 || errno != EEXIST)
        return fd;
    unlinkat(m->folder->fd, m->beside, 0);
    return openat(m->folder->fd, m->beside, flags, mode);
}

/*
 * A file got another name after it was moved: its ctime is new, and all that was moved is as it was. Attributes that are not looked
 * at here are copied with the bytes.
 */
static bool was_moved_before(struct tb_carries *moves, struct tb_carry *m)
{
    struct stat st;
    m->is_there = tb_ledger_owns(moves->ledger, moves->host, m->source, m->destination) &&
                  fstatat(m->folder->fd, m->name, &st, AT_SYMLINK_NOFOLLOW) == 0 && is_dressed(moves, m, &st) &&
                  is_same(m, &st, m->in, NULL);
    m->folder->is_changed |= m->is_there;
    return m->is_there;
}

/* A small file that meets a name hears of it when it takes it: nearly always there is none. */
static void open_file(struct tb_carries *moves, struct tb_carry *m)
{
    if (m->before.st_size > LOOK_FIRST)
        meet_destination(moves, m, m->in, NULL);
    if (m->end || m->is_there || (m->has_links && (link_to_known(moves, m) || was_moved_before(moves, m))))
        return;
    m->has_extended = tb_attributes_has_extended(m->in);
    m->out = make_beside(m);
    m->lies_beside = m->out >= 0;
    if (m->out < 0)
        return fail(m, "make a file beside the destination", -errno);
    int rc = tb_bytes_begin(&m->bytes, m->in, m->out, &m->before, &moves->rate, moves->stop);
    if (rc)
        fail(m, "write", rc);
}

/*
 * Times of files are those of the kernel's last tick on many file systems: what is written in the same tick as the look at a file
 * leaves no trace in them. So the look is repeated until it is after the tick of the last change: what changes the file from then on
 * gets another time. A time far ahead is that of another machine's clock, which is not waited for.
 */
static int look_after_tick(int fd, struct stat *st)
{
    struct timespec now;
    while (fstat(fd, st) == 0) {
        clock_gettime(CLOCK_REALTIME_COARSE, &now);
        int64_t ahead = (int64_t)(st->st_ctim.tv_sec - now.tv_sec) * 1000000000 + st->st_ctim.tv_nsec - now.tv_nsec;
        if (ahead < 0 || ahead > LONGEST_TICK_NS)
            return 0;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return -errno;
}

/*
 * Opened and looked at. ELOOP: it is a symbolic link, which is not opened. Without following a link, and without waiting
 * for the writer of a named pipe that has the name by now.
 */
static int open_source(struct tb_folders *folders, struct tb_carry *m)
{
    m->from = tb_folders_of(folders, m->source, &m->source_name);
    if (!m->from)
        return -errno;
    m->in = openat(m->from->fd, m->source_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (m->in >= 0)
        return look_after_tick(m->in, &m->before);
    return errno != ELOOP || fstatat(m->from->fd, m->source_name, &m->before, AT_SYMLINK_NOFOLLOW) ? -errno : 0;
}

/*
 * The order is: source, folder of the destination, what is there, file beside. So nothing is made for a file that is gone.
 * `links_mutex` is held from here until tb_carry_publish, by one file of several links at a time: the next name of the
 * same file then finds where the first one went.
 */
void tb_carry_open(struct tb_carries *moves, struct tb_folders *folders, struct tb_carry *m)
{
    m->end = TB_CARRY_GOES_ON;
    m->in = m->out = -1;
    m->start_ns = tb_now_ns();
    snprintf(m->beside, sizeof(m->beside), ".tierbench-%016llx", (unsigned long long)XXH3_64bits(m->source, strlen(m->source)));
    int rc = open_source(folders, m);
    if (rc == -ENOENT || rc == -ENOTDIR) {
        m->end = TB_CARRY_GONE;
        return;
    }
    if (rc)
        return fail(m, "open the source", rc);
    if (!S_ISREG(m->before.st_mode) && !S_ISLNK(m->before.st_mode)) {
        m->end = TB_CARRY_GONE; /* what took its name in between is no file */
        return;
    }
    if ((m->has_links = m->before.st_nlink > 1))
        pthread_mutex_lock(&moves->links_mutex);
    rc = open_destination(moves, folders, m);
    if (rc)
        return fail(m, "open the destination's folder", rc);
    if (S_ISLNK(m->before.st_mode))
        open_symlink(moves, m);
    else
        open_file(moves, m);
}

bool tb_carry_has_bytes(const struct tb_carry *m)
{
    return m->end == TB_CARRY_GOES_ON && m->bytes.sum;
}

static void close_one(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/*
 * With sync_file_range the storage begins to write while the next file of the batch is copied. The source is closed early,
 * since a batch may have as many files open as the limit allows.
 */
void tb_carry_dress(struct tb_carries *moves, struct tb_carry *m)
{
    if (!tb_carry_has_bytes(m))
        return;
    int rc = m->bytes.error;
    if (rc)
        return fail(m, rc == -EBADMSG ? "compare" : "copy", rc);
    m->sum = tb_bytes_sum(&m->bytes);
    bool gives_owner = moves->uid == 0 && (m->before.st_uid != 0 || m->before.st_gid != moves->gid);
    rc = tb_attributes_copy(m->in, m->out, &m->before, gives_owner, m->has_extended);
    if (rc)
        return fail(m, rc == -EBADMSG ? "compare" : "set the attributes", rc);
    sync_file_range(m->out, 0, 0, SYNC_FILE_RANGE_WRITE);
    close_one(&m->in);
}

/* Content only: that it was read has changed its atime. */
static bool is_as_before(const struct tb_carry *m)
{
    struct stat st;
    if (fstatat(m->from->fd, m->source_name, &st, AT_SYMLINK_NOFOLLOW) || st.st_ino != m->before.st_ino)
        return false;
    struct tb_content a = tb_content_of(&st), b = tb_content_of(&m->before);
    return a.size == b.size && a.mtime == b.mtime && a.ctime == b.ctime;
}

/* Where the destination is not ours, a name that is there is not replaced. The log is asked only where one is. */
static int take_name(struct tb_carries *moves, struct tb_carry *m)
{
    if (renameat2(m->folder->fd, m->beside, m->folder->fd, m->name, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EEXIST && errno != EINVAL && errno != ENOSYS)
        return -errno;
    if ((errno == EEXIST || faccessat(m->folder->fd, m->name, F_OK, AT_SYMLINK_NOFOLLOW) == 0) &&
        !tb_ledger_owns(moves->ledger, moves->host, m->source, m->destination))
        return -EEXIST;
    return renameat(m->folder->fd, m->beside, m->folder->fd, m->name) ? -errno : 0;
}

void tb_carry_sync(struct tb_carry *m)
{
    if (!m->end && !m->is_there && m->bytes.sum && fsync(m->out))
        fail(m, "fsync", -errno);
}

/*
 * The name is taken. It may be that of the same file, put there by a move that was killed before it said so: then a link to the file's
 * other name goes in its place, or the two names would be two files.
 */
static void meet_taken_name(struct tb_carries *moves, struct tb_carry *m)
{
    bool is_link = m->lies_beside && !m->bytes.sum && S_ISREG(m->before.st_mode);
    meet_destination(moves, m, m->out, NULL);
    if (m->is_there && is_link && renameat(m->folder->fd, m->beside, m->folder->fd, m->name))
        fail(m, "take the name", -errno);
}

/*
 * Last looks before the name: the size of what was written, and the source once more. If killed before the rename, a file
 * beside stays, which the next move of this source replaces; after it, the file is at its place, and meet_destination
 * finds it.
 */
static void publish(struct tb_carries *moves, struct tb_carry *m)
{
    bool looks_again = m->bytes.sum && moves->settings->verify == TB_STAGE_STORED;
    int rc = looks_again ? tb_bytes_check_stored(&m->bytes) : 0;
    if (rc)
        return fail(m, "compare", rc);
    if (!is_as_before(m)) {
        m->end = TB_CARRY_CHANGED;
        return;
    }
    rc = take_name(moves, m);
    m->folder->is_changed = true;
    if (rc == -EEXIST)
        meet_taken_name(moves, m);
    else if (rc)
        fail(m, "take the name", rc);
    else
        m->lies_beside = m->has_links;
}

/* A rename onto another link of the same file does nothing, and leaves the name beside: so it is removed after success too. */
void tb_carry_publish(struct tb_carries *moves, struct tb_carry *m)
{
    if (!m->end && !m->is_there)
        publish(moves, m);
    if (m->lies_beside)
        unlinkat(m->folder->fd, m->beside, 0);
    if (m->has_links) {
        if (!m->end)
            tb_carry_note_link(moves, &m->before, m->destination);
        pthread_mutex_unlock(&moves->links_mutex);
    }
}

/* Not done before the folder's fsync: until then a crash could take the name back. */
void tb_carry_finish(struct tb_carry *m)
{
    if (!m->end && m->folder->synced)
        fail(m, "fsync the folder", m->folder->synced);
    if (m->end == TB_CARRY_GOES_ON)
        m->end = TB_CARRY_DONE;
    tb_bytes_end(&m->bytes);
    close_one(&m->in);
    close_one(&m->out);
    m->took_ns = tb_now_ns() - m->start_ns;
}
