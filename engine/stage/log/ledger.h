/*
 * What spectral.log says, by destination: which file was to go there, from where, and what
 * became of it; and which movers work on it. It is filled by the log's lines alone, also by
 * those that this process has written, so that all readers know the same.
 */
#ifndef TB_STAGE_LEDGER_H
#define TB_STAGE_LEDGER_H

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>

#include "stage/log/lines.h"
#include "stage/log/table.h"

enum tb_entry_state { TB_ENTRY_QUEUED, TB_ENTRY_MOVED, TB_ENTRY_GONE, TB_ENTRY_FAILED };

/* What tells one content of a file from another; nanoseconds since 1970. */
struct tb_content {
    uint64_t size;
    int64_t mtime, ctime;
};
struct tb_content tb_content_of(const struct stat *st);

struct tb_entry {
    const char *host;  /* one of the ledger's */
    char *source;      /* as it was enqueued last */
    const char *owner; /* host and source of what is at the destination; NULL: it was not moved yet */
    char *origin;      /* may be the text of `source` */
    char *reason;      /* of a failure */
    enum tb_entry_state state;
    struct tb_content content;
    uint64_t part; /* bytes that were moved of one that is being moved */
    char destination[];
};

struct tb_known_mover {
    char host[65], id[80], from[PATH_MAX], answered[80];
    int64_t since; /* files with older content were there before it */
    bool ended;
    bool lives;           /* as the waiting process saw it last */
    unsigned long n_open; /* files that it left to their writers, when it answered */
    char open[PATH_MAX];  /* the first of them */
    struct tb_known_mover *next;
};

struct tb_known_host {
    struct tb_known_host *next;
    char name[];
};

struct tb_ledger {
    pthread_mutex_t mutex;
    struct tb_log log;
    struct tb_table table; /* of tb_entry, by destination */
    struct tb_known_mover *movers;
    struct tb_known_host *hosts;
    bool only_counts;                  /* the table has large files alone */
    uint64_t enqueued, dequeued, done; /* lines */
    uint64_t n_queued;                 /* entries in this state */
    uint64_t bytes_queued, bytes_moved;
    char asked[80];                    /* the last question */
    _Atomic uint64_t failing_since_ns; /* tb_now_ns: since when nothing can be appended; 0: it can */
    _Atomic int failing;               /* -errno, then */
};

/* The log of a folder, read from its beginning. 0 or -errno. */
int tb_ledger_open(struct tb_ledger *ledger, const char *folder);
/* For a process that shows progress: of files only how many, and their bytes; until it reads all of it, from the beginning. */
int tb_ledger_open_counts(struct tb_ledger *ledger, const char *folder);
int tb_ledger_read_all(struct tb_ledger *ledger);
void tb_ledger_close(struct tb_ledger *ledger);

/* Read what is new. 0 or -errno. */
int tb_ledger_refresh(struct tb_ledger *ledger);
/* Append and read it. 0; or -errno, and the lines that the log did not take stay. */
int tb_ledger_append(struct tb_ledger *ledger, struct tb_lines *lines);

/* Is this content of this source at its destination already? */
bool tb_ledger_has_moved(struct tb_ledger *ledger, const char *host, const char *source, const char *destination, const struct stat *st);
/* Was what is at the destination put there from this source? */
bool tb_ledger_owns(struct tb_ledger *ledger, const char *host, const char *source, const char *destination);
/* Was it enqueued, by a mover that did not get to it? */
bool tb_ledger_waits(struct tb_ledger *ledger, const char *destination);
/* Was the file put there from elsewhere, and is unchanged? A stage-out does not carry it back. */
bool tb_ledger_brought(struct tb_ledger *ledger, const char *path, const struct stat *st);

/* When the first mover of this host and folder began; INT64_MIN: there was none. */
int64_t tb_ledger_since(struct tb_ledger *ledger, const char *host, const char *from);

/* Each entry that is not moved, by destination, under the mutex. */
void tb_ledger_each_left(struct tb_ledger *ledger, void (*act)(void *arg, const struct tb_entry *entry), void *arg);

#endif
