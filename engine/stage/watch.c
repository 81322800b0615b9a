/*
 * Each folder has a watch; a new folder gets its own, and is looked through at once, since
 * files may have been made in it before. A folder that was renamed has the wrong path from
 * then on: all watches are made again.
 */
#include "stage/watch.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stage/walk.h"

#define EVENTS (IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_CREATE | IN_ATTRIB | IN_ONLYDIR | IN_EXCL_UNLINK)

typedef void take_file(void *arg, const char *path, const struct stat *st);

/*
 * Numbers of watches grow by one for each folder, so a table by number is short. Without room for one the watch is blind
 * from then on, and the whole folder is looked at again and again.
 */
static void add(void *arg, const char *folder, const struct stat *st)
{
    struct tb_watch *w = arg;
    (void)st;
    int wd = inotify_add_watch(w->fd, folder, EVENTS);
    if (wd < 0) {
        w->is_blind |= errno == ENOSPC || errno == ENOMEM;
        return;
    }
    if ((size_t)wd >= w->n) {
        size_t n = (size_t)wd * 2 + 16;
        char **path = realloc(w->path, n * sizeof(*path));
        if (!path) {
            w->is_blind = true;
            return;
        }
        memset(path + w->n, 0, (n - w->n) * sizeof(*path));
        w->path = path;
        w->n = n;
    }
    free(w->path[wd]);
    w->path[wd] = strdup(folder);
}

/* A system without inotify is served by walks alone, so this is no error. */
int tb_watch_begin(struct tb_watch *w, const char *folder)
{
    *w = (struct tb_watch){.fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK)};
    if (w->fd < 0) {
        w->is_blind = w->lost = true;
        return 0;
    }
    int rc = tb_walk(&(struct tb_walk){.folder = add, .arg = w}, folder);
    w->lost = w->is_blind;
    return rc;
}

void tb_watch_end(struct tb_watch *w)
{
    for (size_t i = 0; i < w->n; i++)
        free(w->path[i]);
    free(w->path);
    if (w->fd >= 0)
        close(w->fd);
    *w = (struct tb_watch){.fd = -1};
}

/* Where the top of the folder is watched: the first watch. */
static void begin_anew(struct tb_watch *w)
{
    char *top = w->n > 1 && w->path[1] ? strdup(w->path[1]) : NULL;
    tb_watch_end(w);
    if (!top || tb_watch_begin(w, top))
        w->is_blind = true;
    w->lost = true;
    free(top);
}

/*
 * False: the watches are being made anew, and what is left of this read is of the old ones. A new folder is watched first
 * and walked after that: a file that is made between the two is told twice, and the table of items takes it once.
 */
static bool take(struct tb_watch *w, const struct inotify_event *e, take_file *file, void *arg)
{
    char path[PATH_MAX];
    struct stat st;
    if (e->mask & IN_Q_OVERFLOW)
        w->lost = true;
    if (e->wd < 0 || (size_t)e->wd >= w->n || !w->path[e->wd] || !e->len)
        return true;
    if (e->mask & IN_ISDIR && e->mask & IN_MOVED_FROM)
        return begin_anew(w), false;
    if ((size_t)snprintf(path, sizeof(path), "%s/%s", w->path[e->wd], e->name) >= sizeof(path) || tb_is_movers_own(path))
        return true;
    if (e->mask & IN_ISDIR) {
        if (e->mask & (IN_CREATE | IN_MOVED_TO)) {
            tb_walk(&(struct tb_walk){.folder = add, .arg = w}, path);
            tb_walk(&(struct tb_walk){.file = file, .arg = arg}, path);
        }
    } else if (lstat(path, &st) == 0 && (S_ISLNK(st.st_mode) || e->mask & (IN_CLOSE_WRITE | IN_MOVED_TO | IN_ATTRIB))) {
        file(arg, path, &st);
    }
    return true;
}

/* Without waiting: the descriptor does not block, and the caller polls it. */
void tb_watch_read(struct tb_watch *w, take_file *file, void *arg)
{
    char events[64 << 10] __attribute__((aligned(8)));
    bool goes_on = true;
    for (ssize_t n; goes_on && w->fd >= 0 && (n = read(w->fd, events, sizeof(events))) > 0;)
        for (char *at = events; goes_on && at < events + n;) {
            const struct inotify_event *e = (const struct inotify_event *)(void *)at;
            at += sizeof(*e) + e->len;
            goes_on = take(w, e, file, arg);
        }
}
