/*
 * The steps of carry.h. The file beside has a name made of the source's, so that a mover that
 * goes on after a crash replaces what the dead one left, and no other file of any mover
 * has it.
 */
#include "stage/copy/carry.h"

#include <errno.h>
#include <fcntl.h>
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
    m->end = rc == TB_BYTES_STOPPED ? TB_CARRY_STOPPED : rc == TB_BYTES_SHORTER ? TB_CARRY_CHANGED : TB_CARRY_FAILED;
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

void tb_carries_begin(struct tb_carries *moves, const struct tb_config_stage *settings, struct tb_ledger *ledger, const char *host,
                      bool beside_program, const atomic_bool *stop)
{
    *moves = (struct tb_carries){.settings = settings,
                                 .ledger = ledger,
                                 .host = host,
                                 .stop = stop,
                                 .uid = geteuid(),
                                 .gid = getegid(),
                                 .links_mutex = PTHREAD_MUTEX_INITIALIZER};
    tb_links_begin(&moves->links);
    tb_rate_begin(&moves->rate, settings->bandwidth);
    tb_brought_begin(&moves->brought, beside_program);
}

void tb_carries_end(struct tb_carries *moves)
{
    tb_links_end(&moves->links);
    tb_brought_end(&moves->brought);
    tb_roots_end(&moves->roots);
}

bool tb_carry_is_removed(struct tb_carries *moves, const char *destination)
{
    return tb_brought_is_removed(&moves->brought, destination) && tb_roots_are_there(&moves->roots, destination);
}

/* A mkdir leaves out setgid, and a default ACL of the folder above changes the mode. The owner first, as its change may clear mode bits. */
static int dress_folder(const struct tb_carries *moves, const char *path, const struct stat *like)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int rc = moves->uid == 0 && fchown(fd, like->st_uid, like->st_gid) && errno != EPERM ? -errno : 0;
    if (!rc && fchmod(fd, (like->st_mode & 07777) | 0700))
        rc = -errno;
    close(fd);
    return rc;
}

/* Of the folder `like`, for root: its owner, too. What is new in a folder is on the storage after the fsync of that one. */
static int make_one(struct tb_carries *moves, struct tb_folders *folders, const char *path, const char *like)
{
    struct stat st = {.st_mode = 0755};
    const char *name;
    bool has_like = like && stat(like, &st) == 0;
    int rc = tb_brought_make(&moves->brought, path, (st.st_mode & 07777) | 0700);
    if (rc <= 0)
        return rc;
    if (has_like && (rc = dress_folder(moves, path, &st)))
        return rc;
    struct tb_folder *above = tb_folders_of(folders, path, &name);
    if (!above)
        return -errno;
    above->is_changed = true;
    return tb_roots_are_there(&moves->roots, path) ? 0 : -ENODEV;
}

/*
 * The destination's folder, and those above it, with the modes of the source's. A mode of a folder is its source's, but
 * always with this user's own rights: the mover has to write into it.
 */
int tb_carry_make_folders(struct tb_carries *moves, struct tb_folders *folders, const char *source, const char *destination)
{
    char path[PATH_MAX], like[PATH_MAX];
    size_t n = strlen(destination), k = strlen(source);
    if (n >= sizeof(path) || k >= sizeof(like))
        return -ENAMETOOLONG;
    if (!tb_roots_are_there(&moves->roots, destination))
        return -ENODEV;
    memcpy(path, destination, n + 1);
    memcpy(like, source, k + 1);
    for (char *p = path + 1; (p = strchr(p, '/')); p++) {
        size_t rest = n - (size_t)(p - path);
        bool same = rest < k && strcmp(source + k - rest, destination + n - rest) == 0; /* the same part below */
        *p = '\0';
        if (same)
            like[k - rest] = '\0';
        int rc = make_one(moves, folders, path, same ? like : NULL);
        if (rc)
            return rc;
        if (same)
            like[k - rest] = '/';
        *p = '/';
    }
    return 0;
}

int tb_carry_make_folder(struct tb_carries *moves, struct tb_folders *folders, const char *source, const char *destination)
{
    char inside[2][PATH_MAX];
    if (snprintf(inside[0], PATH_MAX, "%s/.", source) >= PATH_MAX || snprintf(inside[1], PATH_MAX, "%s/.", destination) >= PATH_MAX)
        return -ENAMETOOLONG;
    return tb_carry_make_folders(moves, folders, inside[0], inside[1]);
}

/* What failed may have been the fsync of a folder above, which has a new folder since: all of them get one more. */
static void sync_above(struct tb_folders *folders, const struct tb_carry *m)
{
    char path[PATH_MAX];
    const char *name;
    snprintf(path, sizeof(path), "%s", m->folder->path);
    for (char *slash; *path && (slash = strrchr(path, '/')); *slash = '\0') {
        struct tb_folder *above = tb_folders_of(folders, path, &name);
        if (above)
            above->is_changed = true;
    }
}

/*
 * The root is looked at after each folder's opening: what is open then stays on its file system, whatever becomes of the mount
 * point.
 */
static int open_destination(struct tb_carries *moves, struct tb_folders *folders, struct tb_carry *m)
{
    const struct tb_folder *known = folders->first;
    m->folder = tb_folders_of(folders, m->destination, &m->name);
    if (!m->folder && errno == ENOENT) {
        int rc = tb_carry_make_folders(moves, folders, m->source, m->destination);
        if (rc)
            return rc;
        m->folder = tb_folders_of(folders, m->destination, &m->name);
    }
    if (!m->folder)
        return -errno;
    if (folders->first == known)
        return 0;
    int rc = tb_roots_are_there(&moves->roots, m->folder->path) ? tb_brought_meet(&moves->brought, m->folder->path) : -ENODEV;
    if (!rc && m->is_retry)
        sync_above(folders, m);
    if (!rc)
        return 0;
    tb_folders_close_newest(folders);
    m->folder = NULL;
    return rc;
}

/* As tb_bytes_equal. What has them is on the storage after that: it may be a user's copy, which no program has fsynced. */
static int has_bytes_of(const struct tb_carries *moves, int with, int at, const char *path)
{
    int fd = openat(at, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int same = tb_bytes_equal(with, fd, moves->stop);
    if (same > 0 && fsync(fd))
        same = -errno;
    close(fd);
    return same;
}

/* With its bytes, or its target where it is a link. `with` is open and has the source's bytes. 1, 0, or why it cannot be said. */
static int is_same(const struct tb_carries *moves, const struct tb_carry *m, const struct stat *there, int with, const char *target)
{
    struct tb_content is = tb_content_of(there), should = tb_content_of(&m->before);
    char other[PATH_MAX];
    if (is.size != should.size || is.mtime != should.mtime || (there->st_mode & S_IFMT) != (m->before.st_mode & S_IFMT))
        return 0;
    if (target) {
        ssize_t n = readlinkat(m->folder->fd, m->name, other, sizeof(other));
        return n == (ssize_t)strlen(target) && memcmp(other, target, (size_t)n) == 0;
    }
    return has_bytes_of(moves, with, m->folder->fd, m->name);
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
    int same = is_same(moves, m, &st, with, target);
    if (same < 0)
        return fail(m, "compare with the file that is there", same);
    m->is_there = same;
    if (!same) {
        m->end = TB_CARRY_CLASH;
        return;
    }
    m->folder->is_changed = true;
    m->lies_beside = true; /* perhaps: a kill may have left it as a second name */
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
    if (!tb_links_find(&moves->links, &m->before, known, &same) || stat(known, &st) || tb_content_of(&st).mtime != now.mtime ||
        tb_content_of(&st).size != now.size || strcmp(known, m->destination) == 0 ||
        !(same || (is_dressed(moves, m, &st) && has_bytes_of(moves, m->in, AT_FDCWD, known) > 0)))
        return false;
    unlinkat(m->folder->fd, m->beside, 0);
    if (linkat(AT_FDCWD, known, m->folder->fd, m->beside, 0))
        return false;
    m->lies_beside = true;
    m->out = openat(m->folder->fd, m->beside, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    return m->out >= 0;
}

/*
 * Always a new file: bytes never go into a file of this name that another user made, or that a killed mover left. It has the source's
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
                  is_same(moves, m, &st, m->in, NULL) > 0;
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
    if (rc == -EIDRM) {
        m->end = TB_CARRY_GONE;
        return;
    }
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

/* At once, and not when its batch is published: on a full file system the next file has this one's room. */
static void drop_beside(struct tb_carry *m)
{
    unlinkat(m->folder->fd, m->beside, 0);
    m->lies_beside = false;
    close_one(&m->out);
}

/* The source is closed early, since a batch may have as many files open as the limit allows. */
void tb_carry_dress(struct tb_carries *moves, struct tb_carry *m)
{
    if (!tb_carry_has_bytes(m))
        return;
    int rc = m->bytes.error;
    if (rc) {
        drop_beside(m);
        return fail(m, rc == TB_BYTES_DIFFER ? "compare" : "copy", rc);
    }
    m->sum = tb_bytes_sum(&m->bytes);
    bool gives_owner = moves->uid == 0 && (m->before.st_uid != 0 || m->before.st_gid != moves->gid);
    rc = tb_attributes_copy(m->in, m->out, &m->before, gives_owner, m->has_extended);
    if (rc)
        return fail(m, rc == TB_BYTES_DIFFER ? "compare" : "set the attributes", rc);
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

/*
 * On file systems with a rename that always replaces, as Lustre and NFS: a link takes the name only where it is free, and the
 * file loses its other name after that. Where there are no links either, a name that another node takes after this look is lost to it.
 */
static int take_free_name(struct tb_carry *m)
{
    if (linkat(m->folder->fd, m->beside, m->folder->fd, m->name, 0) == 0)
        return unlinkat(m->folder->fd, m->beside, 0) ? -errno : 0;
    if (errno == EEXIST)
        return -EEXIST;
    if (faccessat(m->folder->fd, m->name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return -EEXIST;
    return renameat(m->folder->fd, m->beside, m->folder->fd, m->name) ? -errno : 0;
}

/* Where the destination is not ours, a name that is there is not replaced. The log is asked only where one may be. */
static int take_name(struct tb_carries *moves, struct tb_carry *m)
{
    if (renameat2(m->folder->fd, m->beside, m->folder->fd, m->name, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EEXIST && errno != EINVAL && errno != ENOSYS)
        return -errno;
    bool is_taken = errno == EEXIST;
    if (tb_ledger_owns(moves->ledger, moves->host, m->source, m->destination))
        return renameat(m->folder->fd, m->beside, m->folder->fd, m->name) ? -errno : 0;
    return is_taken ? -EEXIST : take_free_name(m);
}

static bool has_to_be_synced(const struct tb_carry *m)
{
    return !m->end && !m->is_there && m->bytes.sum;
}

/* A wish: what fails here is told by the fsync. */
void tb_carry_begin_to_sync(const struct tb_carry *m)
{
    if (has_to_be_synced(m))
        sync_file_range(m->out, 0, 0, SYNC_FILE_RANGE_WRITE);
}

void tb_carry_sync(struct tb_carry *m)
{
    if (has_to_be_synced(m) && fsync(m->out))
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
    if (m->end == TB_CARRY_FAILED && tb_carry_is_removed(moves, m->destination))
        m->end = TB_CARRY_GONE; /* in the middle of it */
    if (m->lies_beside)
        unlinkat(m->folder->fd, m->beside, 0);
    if (m->has_links) {
        if (!m->end)
            tb_links_note(&moves->links, &m->before, m->destination);
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
