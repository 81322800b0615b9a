/*
 * Lines of spectral.log are made, appended and read here. Names may hold any byte but NUL
 * and '/', so tab, newline and backslash are escaped in them.
 */
#include "stage/log/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SPECTRAL "Spectral Work "
#define FILE_WORD " File : "
#define FACT "Tierbench"
/* Far above the longest line, which has two paths of PATH_MAX bytes, each byte escaped, and a few numbers. */
#define READ_AT_ONCE (1u << 20)

/* What the log says is believed. So it is this user's, or of the owner of its folder (which could replace it anyway), and no link. */
static bool is_trusted(int fd, const char *folder)
{
    struct stat log, around;
    return fstat(fd, &log) == 0 && S_ISREG(log.st_mode) && log.st_nlink == 1 &&
           (log.st_uid == geteuid() || (stat(folder, &around) == 0 && log.st_uid == around.st_uid));
}

/* One that another mover is just writing may look so: then there is an empty line between two. */
static bool has_torn_end(int fd)
{
    struct stat st;
    char last;
    return fstat(fd, &st) == 0 && st.st_size > 0 && pread(fd, &last, 1, st.st_size - 1) == 1 && last != '\n';
}

/*
 * Appended to by all movers of the folder and by processes that wait for them, so it is opened to append: each write goes to the
 * end, whatever others wrote since. What has the name may be no file: O_NONBLOCK opens it without waiting, and is_trusted
 * refuses it.
 */
int tb_log_open(struct tb_log *log, const char *folder)
{
    char path[PATH_MAX];
    if ((size_t)snprintf(path, sizeof(path), "%s/%s", folder, TB_LOG_NAME) >= sizeof(path))
        return -ENAMETOOLONG;
    *log = (struct tb_log){.appends = PTHREAD_MUTEX_INITIALIZER};
    log->fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644);
    if (log->fd < 0)
        return -errno;
    if (is_trusted(log->fd, folder)) {
        log->is_torn = has_torn_end(log->fd);
        return 0;
    }
    tb_log_close(log);
    return -EPERM;
}

/* The log may be closed twice: -1 says that it is. */
void tb_log_close(struct tb_log *log)
{
    if (log->fd >= 0)
        close(log->fd);
    log->fd = -1;
    free(log->text);
    log->text = NULL;
}

/*
 * Room for `more` bytes; false: there is none, and the lines are in error. It stays in error until they are appended, so
 * that no part of them is.
 */
static bool reserve(struct tb_lines *l, size_t more)
{
    if (l->n + more <= l->room)
        return !l->error;
    size_t room = (l->n + more) * 2;
    char *text = realloc(l->text, room);
    if (!text)
        return l->error = -ENOMEM, false;
    l->text = text;
    l->room = room;
    return !l->error;
}

/* An error stays in the lines until they are appended: so not each caller has to look. */
static void put(struct tb_lines *l, const char *text)
{
    size_t n = strlen(text);
    if (!reserve(l, n))
        return;
    memcpy(l->text + l->n, text, n);
    l->n += n;
}

/* At most every byte needs two. Nearly all names have nothing to escape, and are copied as a whole. */
static void put_escaped(struct tb_lines *l, const char *text)
{
    static const char special[] = "\t\n\\", letter[] = "tn\\";
    size_t n = strlen(text);
    if (!reserve(l, 2 * n))
        return;
    for (size_t plain; (plain = strcspn(text, special)) < n; text += plain + 1, n -= plain + 1) {
        memcpy(l->text + l->n, text, plain);
        l->n += plain;
        l->text[l->n++] = '\\';
        l->text[l->n++] = letter[strchr(special, text[plain]) - special];
    }
    memcpy(l->text + l->n, text, n);
    l->n += n;
}

/* Spectral's words to the letter: its own programs and scripts read these lines. */
void tb_lines_spectral(struct tb_lines *l, const char *word, const char *destination)
{
    put(l, SPECTRAL);
    put(l, word);
    put(l, FILE_WORD);
    put_escaped(l, destination);
    put(l, "\n");
}

/* The word is one of ours and has nothing to escape; fields are names and texts of others. */
void tb_lines_fact(struct tb_lines *l, const char *word, ...)
{
    va_list fields;
    put(l, FACT "\t");
    put(l, word);
    va_start(fields, word);
    for (const char *field; (field = va_arg(fields, const char *));) {
        put(l, "\t");
        put_escaped(l, field);
    }
    va_end(fields);
    put(l, "\n");
}

void tb_lines_free(struct tb_lines *l)
{
    free(l->text);
    *l = (struct tb_lines){0};
}

/* The lines that are whole in the first `n` bytes were written; a part of one is written again. */
static void drop_written(struct tb_lines *l, size_t n)
{
    const char *end = memrchr(l->text, '\n', n);
    size_t whole = end ? (size_t)(end - l->text) + 1 : 0;
    memmove(l->text, l->text + whole, l->n - whole);
    l->n -= whole;
}

/* Before them a line that has no end gets one, or the first of these would be its end. */
static int write_lines(struct tb_log *log, struct tb_lines *l)
{
    if (log->is_torn && write(log->fd, "\n", 1) < 1)
        return -errno;
    log->is_torn = false;
    ssize_t n = write(log->fd, l->text, l->n);
    if (n < 0)
        return -errno;
    log->is_torn = (size_t)n < l->n;
    drop_written(l, (size_t)n);
    return log->is_torn ? -ENOSPC : 0;
}

/* One write, so that lines of other processes do not come between. Lines that there was no memory for are lost as a whole. */
int tb_log_append(struct tb_log *log, struct tb_lines *l)
{
    int rc = l->error;
    if (rc)
        l->n = 0;
    l->error = 0;
    if (rc || !l->n)
        return rc;
    pthread_mutex_lock(&log->appends);
    rc = write_lines(log, l);
    pthread_mutex_unlock(&log->appends);
    return rc;
}

/* In place: the text only becomes shorter. Nearly all texts stay as they are. */
static void unescape(char *text)
{
    char *to = strchr(text, '\\');
    for (const char *from = to; from && *from; from++) {
        if (*from == '\\' && from[1]) {
            from++;
            *to++ = *from == 't' ? '\t' : *from == 'n' ? '\n' : *from;
        } else {
            *to++ = *from;
        }
    }
    if (to)
        *to = '\0';
}

/* Fields past TB_LOG_FIELDS are left out: a newer program may write more of them. */
static void take_fact(char *line, tb_log_take *take, void *arg)
{
    char *field[TB_LOG_FIELDS], *word = NULL;
    int n = 0;
    for (char *part; n < TB_LOG_FIELDS && (part = strsep(&line, "\t"));) {
        unescape(part);
        if (!word)
            word = part;
        else
            field[n++] = part;
    }
    take(arg, word, field, n);
}

/* Lines of anything else are left alone: the log may be an older one of Spectral's own. */
static void take_line(char *line, tb_log_take *spectral, tb_log_take *fact, void *arg)
{
    char *name;
    if (strncmp(line, FACT "\t", sizeof(FACT)) == 0) {
        take_fact(line + sizeof(FACT), fact, arg);
    } else if (strncmp(line, SPECTRAL, sizeof(SPECTRAL) - 1) == 0 && (name = strstr(line, FILE_WORD))) {
        *name = '\0';
        name += sizeof(FILE_WORD) - 1;
        unescape(name);
        spectral(arg, line + sizeof(SPECTRAL) - 1, &name, 1);
    }
}

/*
 * Whole lines of the bytes in `text`; the number of bytes they take. A line longer than one read is never whole, and stops
 * the reading. No line is that long: it has at most three names.
 */
static size_t take_lines(char *text, size_t n, tb_log_take *spectral, tb_log_take *fact, void *arg)
{
    size_t at = 0;
    for (char *end; (end = memchr(text + at, '\n', n - at));) {
        *end = '\0';
        char *line = text + at;
        at = (size_t)(end - text) + 1;
        take_line(line, spectral, fact, arg);
    }
    return at;
}

/* A last line without its end is being written: it is read the next time. */
int tb_log_read(struct tb_log *log, tb_log_take *spectral, tb_log_take *fact, void *arg)
{
    if (!log->text && !(log->text = malloc(READ_AT_ONCE)))
        return -ENOMEM;
    for (;;) {
        ssize_t n = pread(log->fd, log->text, READ_AT_ONCE, (off_t)log->at);
        if (n < 0)
            return -errno;
        size_t taken = n > 0 ? take_lines(log->text, (size_t)n, spectral, fact, arg) : 0;
        log->at += taken;
        if (!taken)
            return 0;
    }
}
