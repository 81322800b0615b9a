/*
 * Pairs of source and destination, and their checks before anything is moved (staging/pairs.h). Room is counted for each file
 * system of a destination: all sources of it together must fit.
 */
#include "staging/pairs.h"

#include <ctype.h>
#include <errno.h>
#include <fts.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/ctl.h"
#include "staging/input.h"
#include "text/text.h"

/* Relative paths begin where the command was given; a slash at the end of a destination means: in that folder. */
static char *absolute(const char *path, const char *source)
{
    char here[PATH_MAX], full[2 * PATH_MAX], out[PATH_MAX];
    size_t n = strlen(path);
    const char *name = source ? strrchr(source, '/') : NULL;
    snprintf(full, sizeof(full), "%s%s", path, n && path[n - 1] == '/' && name ? name + 1 : "");
    if (!getcwd(here, sizeof(here)) || tb_path_absolute(here, full, out, sizeof(out)))
        return NULL;
    return strdup(out);
}

/* The pair counts before its paths are looked at, so pairs_free finds it also after an error. */
int pairs_add(struct pairs *p, const char *source, const char *destination, unsigned line)
{
    struct tb_pair *one = realloc(p->one, (p->n + 1) * sizeof(*one));
    if (one)
        p->one = one;
    unsigned *lines = one ? realloc(p->line, (p->n + 1) * sizeof(*lines)) : NULL;
    if (!lines)
        return ctl_fail("%s", strerror(ENOMEM));
    p->line = lines;
    p->line[p->n] = line;
    one[p->n].source = absolute(source, NULL);
    one[p->n].destination = absolute(destination, one[p->n].source);
    p->n++;
    if (!one[p->n - 1].source || !one[p->n - 1].destination)
        return ctl_fail("%s:%u: %s %s: a path is longer than %d bytes", p->file, line, source, destination, PATH_MAX - 1);
    return 0;
}

void pairs_free(struct pairs *p)
{
    for (size_t i = 0; i < p->n; i++) {
        free(p->one[i].source);
        free(p->one[i].destination);
    }
    free(p->one);
    free(p->line);
    *p = (struct pairs){0};
}

/* The next word of a line, in place; NULL: there is none. `*at` goes after it. */
static char *next_word(char **at)
{
    char *p = *at + strspn(*at, " \t\r\n"), *word = p, *to = p;
    if (!*p || *p == '#')
        return NULL;
    int quoted = *p == '"';
    for (p += quoted; *p && !(quoted ? *p == '"' : isspace((unsigned char)*p)); p++) {
        if (quoted && *p == '\\' && p[1])
            p++, *to++ = *p == 'n' ? '\n' : *p;
        else
            *to++ = *p;
    }
    *at = *p ? p + 1 : p;
    *to = '\0';
    return word;
}

/*
 * A third word is refused: most often a name has a blank and no quotes, and half of it would be taken for the destination.
 */
static int take_line(struct pairs *p, char *line, unsigned n)
{
    char *source = next_word(&line), *destination = source ? next_word(&line) : NULL;
    if (!source)
        return 0;
    if (!destination || next_word(&line))
        return ctl_fail("%s:%u: allowed: SOURCE DESTINATION, in double quotes where a blank is in them", p->file, n);
    return pairs_add(p, source, destination, n);
}

/* It ends at the first line that is wrong: nothing has been moved yet. */
int pairs_read_manifest(struct pairs *p, const char *file)
{
    const char *why;
    FILE *in = ctl_input_open(file, &why);
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    p->file = file;
    int rc = in ? 0 : ctl_fail("%s: %s", file, why);
    for (unsigned number = 1; !rc && (n = getline(&line, &room, in)) > 0; number++)
        rc = strlen(line) == (size_t)n ? take_line(p, line, number)
                                       : ctl_fail("%s:%u: a zero byte in the line; allowed: SOURCE DESTINATION", file, number);
    if (in && (why = ctl_input_close(in)) && !rc)
        rc = ctl_fail("%s: %s", file, why);
    free(line);
    return rc;
}

/* By size and time, as a mover leaves a file: what came before a crash takes no more room. */
static bool is_there(const struct tb_pair *one, const FTSENT *e)
{
    char path[PATH_MAX];
    struct stat st;
    return (size_t)snprintf(path, sizeof(path), "%s%s", one->destination, e->fts_path + strlen(one->source)) < sizeof(path) &&
           lstat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == e->fts_statp->st_size &&
           st.st_mtim.tv_sec == e->fts_statp->st_mtim.tv_sec && st.st_mtim.tv_nsec == e->fts_statp->st_mtim.tv_nsec;
}

/* Lengths, not blocks: holes are counted in full. The check errs to the safe side. */
uint64_t pairs_bytes(const struct tb_pair *one)
{
    char *const paths[] = {one->source, NULL};
    bool may_be_there = access(one->destination, F_OK) == 0;
    uint64_t bytes = 0;
    FTS *fts = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    for (FTSENT *e; fts && (e = fts_read(fts));)
        if (e->fts_info == FTS_F && !(may_be_there && is_there(one, e)))
            bytes += (uint64_t)e->fts_statp->st_size;
    if (fts)
        fts_close(fts);
    return bytes;
}

/* The lowest part above a path that is there: it has to be a folder. */
static void existing_part(const char *path, char *out)
{
    struct stat st;
    snprintf(out, PATH_MAX, "%s", path);
    do {
        char *slash = strrchr(out, '/');
        slash[slash == out] = '\0';
    } while (strcmp(out, "/") != 0 && stat(out, &st));
}

struct place {
    char folder[PATH_MAX];
    struct stat st;
    struct statvfs fs;
};

/* The destination itself need not be there. What counts is the folder in which the first missing part will be made. */
static int look_at_place(const struct pairs *p, size_t i, struct place *out)
{
    existing_part(p->one[i].destination, out->folder);
    if (stat(out->folder, &out->st) || statvfs(out->folder, &out->fs))
        return ctl_fail("%s:%u: destination %s: %s", p->file, p->line[i], out->folder, strerror(errno));
    if (!S_ISDIR(out->st.st_mode))
        return ctl_fail("%s:%u: destination %s: %s is no folder", p->file, p->line[i], p->one[i].destination, out->folder);
    if (access(out->folder, W_OK | X_OK))
        return ctl_fail("%s:%u: destination %s: %s; allowed: a folder that you may write to", p->file, p->line[i], out->folder,
                        strerror(errno));
    return 0;
}

/* Of the destinations so far, a row for each file system. */
#define MOST_PLACES 32
struct rooms {
    dev_t device[MOST_PLACES];
    uint64_t need[MOST_PLACES];
    size_t n;
};

/*
 * What is free now may be taken by others before the files come. This check finds a wrong place early; a full one is also
 * told while files are moved.
 */
static int check_room(const struct pairs *p, size_t i, struct rooms *rooms)
{
    struct place here;
    size_t k = 0;
    int rc = look_at_place(p, i, &here);
    if (rc)
        return rc;
    while (k < rooms->n && rooms->device[k] != here.st.st_dev)
        k++;
    if (k == MOST_PLACES)
        return 0; /* further file systems are not counted: a full one is told while files are moved */
    if (k == rooms->n)
        rooms->device[rooms->n++] = here.st.st_dev;
    rooms->need[k] += pairs_bytes(&p->one[i]);
    uint64_t room = (uint64_t)here.fs.f_bavail * here.fs.f_frsize;
    if (rooms->need[k] <= room)
        return 0;
    return ctl_fail("%s:%u: destination %s: no room: %llu bytes are to go there, and %llu are free", p->file, p->line[i], here.folder,
                    (unsigned long long)rooms->need[k], (unsigned long long)room);
}

/* A folder is never put in the place of a file, nor a file in that of a folder. */
static int check_kinds(const struct pairs *p, size_t i)
{
    struct stat from, to;
    const struct tb_pair *one = &p->one[i];
    if (lstat(one->source, &from) || lstat(one->destination, &to) || S_ISDIR(from.st_mode) == S_ISDIR(to.st_mode))
        return 0;
    return ctl_fail("%s:%u: destination %s: is %s, and the source is %s", p->file, p->line[i], one->destination,
                    S_ISDIR(to.st_mode) ? "a folder" : "no folder", S_ISDIR(from.st_mode) ? "one" : "none");
}

/* Where a path leads once links are followed, as far as it is there. */
static void lead(const char *path, char *out)
{
    char there[PATH_MAX], real[PATH_MAX];
    snprintf(out, PATH_MAX, "%s", path);
    if (realpath(path, real)) {
        strcpy(out, real);
        return;
    }
    existing_part(path, there);
    if (realpath(there, real) && strlen(real) + strlen(path) - strlen(there) < PATH_MAX)
        sprintf(out, "%s%s", strcmp(real, "/") == 0 ? "" : real, path + (strcmp(there, "/") == 0 ? 0 : strlen(there)));
}

/* Links are followed on both sides: a destination may be inside its source by another name. */
static bool is_in_source(const struct tb_pair *one)
{
    char source[PATH_MAX], destination[PATH_MAX];
    lead(one->source, source);
    lead(one->destination, destination);
    return tb_path_is_under(destination, source);
}

/* A destination inside its source would be walked as a part of it, and copied into itself. */
static int check_one(const struct pairs *p, size_t i, int sources_exist, const char *absent, struct rooms *rooms)
{
    const struct tb_pair *one = &p->one[i];
    if (tb_path_is_under(one->destination, one->source) || is_in_source(one))
        return ctl_fail("%s:%u: destination %s is in its source %s; allowed: a place outside it", p->file, p->line[i], one->destination,
                        one->source);
    if (sources_exist && access(one->source, R_OK))
        return ctl_fail("%s:%u: source %s: %s", p->file, p->line[i], one->source, strerror(errno));
    if (absent && tb_path_is_under(one->destination, absent))
        return 0;
    int rc = check_kinds(p, i);
    return rc ? rc : check_room(p, i, rooms);
}

static int by_destination(const void *a, const void *b)
{
    return strcmp((*(const struct tb_pair *const *)a)->destination, (*(const struct tb_pair *const *)b)->destination);
}

int pairs_follow(struct pairs *p)
{
    struct stat st;
    for (size_t i = 0; i < p->n; i++) {
        char *to = lstat(p->one[i].source, &st) == 0 && S_ISLNK(st.st_mode) ? realpath(p->one[i].source, NULL) : p->one[i].source;
        if (!to)
            return ctl_fail("%s:%u: source %s: %s", p->file, p->line[i], p->one[i].source, strerror(errno));
        if (to != p->one[i].source)
            free(p->one[i].source);
        p->one[i].source = to;
    }
    return 0;
}

/*
 * Two sources of one destination. By sorting, since a manifest may have as many lines as a job has files.
 */
static int check_clashes(const struct pairs *p)
{
    const struct tb_pair **sorted = malloc((p->n + 1) * sizeof(*sorted));
    int rc = sorted ? 0 : ctl_fail("%s", strerror(ENOMEM));
    for (size_t i = 0; i < p->n && sorted; i++)
        sorted[i] = &p->one[i];
    if (sorted)
        qsort(sorted, p->n, sizeof(*sorted), by_destination);
    for (size_t i = 1; i < p->n && !rc; i++)
        if (strcmp(sorted[i]->destination, sorted[i - 1]->destination) == 0)
            rc = ctl_fail("%s:%u: destination %s: line %u has it too, for %s", p->file, p->line[sorted[i] - p->one], sorted[i]->destination,
                          p->line[sorted[i - 1] - p->one], sorted[i - 1]->source);
    free(sorted);
    return rc;
}

/* All of it before the first byte moves: either every pair can begin, or nothing has changed. */
int pairs_check(const struct pairs *p, int sources_exist, const char *absent)
{
    struct rooms rooms = {0};
    int rc = check_clashes(p);
    for (size_t i = 0; i < p->n && !rc; i++)
        rc = check_one(p, i, sources_exist, absent, &rooms);
    return rc;
}
