/*
 * Visiting: directories level by level, then the files that their names don't rule out. Links are not followed. What
 * can't be read or looked at is named, counted, and makes the result none.
 */
#include "tb_find.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_REPORTED = 10 }; /* failures of a rank by name; all are counted */

struct walk {
    const struct tb_wanted *wanted;
    struct tb_list below, candidates; /* directories of the next level, files to look at */
    struct tb_found found;
};

/* errno must still be that of the call that failed. */
static void failed(struct walk *walk, const char *what, const char *path)
{
    if (walk->found.failures++ < MOST_REPORTED)
        fprintf(stderr, "%s: %s: %s: %s\n", TB_PROGRAM, path, what, strerror(errno));
}

/* Most file systems say it in the entry; only where they do not is the file looked at. */
static bool is_directory(struct walk *walk, const char *path, unsigned char type)
{
    struct stat st;
    if (type != DT_UNKNOWN)
        return type == DT_DIR;
    if (!lstat(path, &st))
        return S_ISDIR(st.st_mode);
    failed(walk, "stat", path);
    return false;
}

/* The name is compared first, because it costs no call. */
static void visit_entry(struct walk *walk, const char *path, const struct dirent *entry)
{
    const struct tb_wanted *wanted = walk->wanted;
    if (is_directory(walk, path, entry->d_type)) {
        tb_list_add(&walk->below, path);
        return;
    }
    walk->found.files++;
    if (wanted->name && fnmatch(wanted->name, entry->d_name, 0))
        return;
    if (wanted->size >= 0 || wanted->newer_than)
        tb_list_add(&walk->candidates, path);
    else
        walk->found.matched++;
}

/*
 * An entry that fails is counted and the others are still visited: the report then says how
 * many.
 */
static void read_directory(struct walk *walk, const char *directory)
{
    char path[PATH_MAX];
    DIR *d = opendir(directory);
    if (!d) {
        failed(walk, "open", directory);
        return;
    }
    struct dirent *entry;
    for (errno = 0; (entry = readdir(d)); errno = 0) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
            continue;
        if ((size_t)snprintf(path, sizeof(path), "%s/%s", directory, entry->d_name) < sizeof(path)) {
            visit_entry(walk, path, entry);
        } else {
            errno = ENAMETOOLONG;
            failed(walk, "name", directory);
        }
    }
    if (errno)
        failed(walk, "read", directory);
    closedir(d);
}

/* Paths follow each other in one text, each with its NUL. */
static void for_each(struct walk *walk, const struct tb_list *list, void (*visit)(struct walk *, const char *))
{
    for (const char *path = list->text; path < list->text + list->used; path += strlen(path) + 1)
        visit(walk, path);
}

/* By nanoseconds, as find compares; the same time is not newer. */
static bool is_newer(const struct timespec *time, const struct timespec *than)
{
    return time->tv_sec != than->tv_sec ? time->tv_sec > than->tv_sec : time->tv_nsec > than->tv_nsec;
}

/* The size in bytes must be equal, as with find's -size Nc. */
static void look_at(struct walk *walk, const char *path)
{
    const struct tb_wanted *wanted = walk->wanted;
    struct stat st;
    walk->found.looked_at++;
    if (lstat(path, &st)) {
        failed(walk, "stat", path);
        return;
    }
    bool fits = wanted->size < 0 || st.st_size == wanted->size;
    walk->found.matched += fits && (!wanted->newer_than || is_newer(&st.st_mtim, &wanted->since));
}

/* Each level is distributed again, so that a tree that is deep in one place keeps all ranks busy. */
static void walk_levels(struct walk *walk, const struct tb_world *w)
{
    for (int64_t left = 1; left;) {
        struct tb_list level = walk->below;
        walk->below = (struct tb_list){0};
        tb_list_deal(&level, w);
        for_each(walk, &level, read_directory);
        tb_list_free(&level);
        MPI_Allreduce(&walk->below.count, &left, 1, MPI_INT64_T, MPI_SUM, w->comm);
    }
}

/* Files are looked at last and distributed as well: they cost a call each. */
struct tb_found tb_walk(const struct tb_wanted *wanted, const struct tb_world *w)
{
    struct walk walk = {.wanted = wanted};
    if (w->rank == 0)
        tb_list_add(&walk.below, wanted->start);
    walk_levels(&walk, w);
    tb_list_deal(&walk.candidates, w);
    for_each(&walk, &walk.candidates, look_at);
    tb_list_free(&walk.candidates);
    struct tb_found all;
    _Static_assert(sizeof(all) == 4 * sizeof(int64_t), "all fields are counts");
    MPI_Allreduce(&walk.found, &all, 4, MPI_INT64_T, MPI_SUM, w->comm);
    return all;
}
