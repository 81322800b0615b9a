/*
 * spectral.log: the one record of what is to be moved and what is.
 *
 * Problem: a mover, and each `tierctl wait`, on whatever node, must know what the others
 * did, also after a crash. Idea: everything is a line, and lines are only ever appended, by
 * one write each time (O_APPEND), so that those of several nodes do not mix. Spectral's own
 * three lines are as Spectral writes them. What it does not say is in lines that begin with
 * "Tierbench", with fields that are separated by tabs (docs/stage.md has their table).
 *
 * Limit: a file system without atomic appends (NFS) may mix lines of two nodes.
 */
#ifndef TB_STAGE_LINES_H
#define TB_STAGE_LINES_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TB_LOG_NAME "spectral.log"
#define TB_LOG_FIELDS 12

struct tb_log {
    int fd;
    pthread_mutex_t appends; /* one at a time: what is torn is ended before the next */
    uint64_t at;             /* what was read so far */
    bool is_torn;            /* its last line has no end, as a full disk or a kill leaves one */
    char *text;              /* for the reading */
};

/* In the folder; made if it is not there. 0 or -errno. */
int tb_log_open(struct tb_log *log, const char *folder);
void tb_log_close(struct tb_log *log);

/* Lines that are to be appended together. */
struct tb_lines {
    char *text;
    size_t n, room;
    int error; /* -ENOMEM: it is told by tb_log_append */
};

/* "Spectral Work WORD File : DESTINATION". */
void tb_lines_spectral(struct tb_lines *lines, const char *word, const char *destination);
/* "Tierbench", the word, and fields; NULL ends them. */
void tb_lines_fact(struct tb_lines *lines, const char *word, ...) __attribute__((sentinel));
void tb_lines_free(struct tb_lines *lines);

/* Append and empty them. 0; or -errno, and the lines that were not written whole are left in them. */
int tb_log_append(struct tb_log *log, struct tb_lines *lines);

/* What a reader is told: word and fields of one line; a Spectral line has the destination as its only field. */
typedef void tb_log_take(void *arg, const char *word, char **field, int n);

/* The lines that were appended since the last call. 0 or -errno. */
int tb_log_read(struct tb_log *log, tb_log_take *spectral, tb_log_take *fact, void *arg);

#endif
