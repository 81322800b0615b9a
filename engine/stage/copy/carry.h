/*
 * One file, from where it is to where it belongs, with no moment at which the final name
 * shows less than the whole file.
 *
 * In order: the bytes go into a file beside the destination, are read back and compared; it
 * gets its attributes and is fsynced; the source is looked at again; the file takes its name;
 * its directory is fsynced (folders.h). Each step is a function, so that a batch of small files can do
 * each step for all of its files, which lets the file system write them together.
 */
#ifndef TB_STAGE_CARRY_H
#define TB_STAGE_CARRY_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "config/stage.h"
#include "stage/copy/brought.h"
#include "stage/copy/bytes.h"
#include "stage/copy/folders.h"
#include "stage/copy/links.h"
#include "stage/log/ledger.h"
#include "stage/copy/rate.h"
#include "stage/copy/roots.h"

/* What all moves of a mover share. */
struct tb_carries {
    const struct tb_config_stage *settings;
    struct tb_ledger *ledger;
    const char *host;
    struct tb_roots roots; /* without them the PFS is not mounted */
    uid_t uid;             /* of this process: asked once, not for each file */
    gid_t gid;
    struct tb_rate rate;
    const atomic_bool *stop;
    pthread_mutex_t links_mutex; /* held while a file with several links is moved */
    struct tb_links links;       /* where such files went */
    struct tb_brought brought;
};

enum tb_carry_end {
    TB_CARRY_GOES_ON,
    TB_CARRY_DONE,
    TB_CARRY_GONE,    /* the source is not there any more, or the program removed the folder it goes to */
    TB_CARRY_CHANGED, /* while it was moved: it has to be moved again */
    TB_CARRY_CLASH,   /* the destination has a file that does not come from this source */
    TB_CARRY_STOPPED, /* the mover was told to */
    TB_CARRY_FAILED,  /* rc says why, `step` at what */
};

struct tb_carry {
    const char *source, *destination;
    enum tb_carry_end end;
    const char *step;
    int rc;
    struct stat before;
    struct tb_bytes bytes;
    uint64_t sum;
    uint64_t start_ns, took_ns;
    int in, out;
    struct tb_folder *from, *folder;
    const char *source_name, *name; /* in these folders */
    bool is_retry;                  /* a move of it failed before */
    bool is_there;                  /* the same file is at the destination already */
    bool has_links;                 /* and so holds links_mutex until it is published */
    bool has_extended;              /* attributes */
    bool lies_beside;               /* a file that has to be removed again */
    char beside[40];
};

/* `beside_program`: a program runs, and a folder that it removes is not made again. Roots are added after it. */
void tb_carries_begin(struct tb_carries *carries, const struct tb_config_stage *settings, struct tb_ledger *ledger, const char *host,
                      bool beside_program, const atomic_bool *stop);
void tb_carries_end(struct tb_carries *carries);

/* Open both; after it `bytes` may be worked on by several threads, if `has_bytes`. */
void tb_carry_open(struct tb_carries *carries, struct tb_folders *folders, struct tb_carry *carry);
bool tb_carry_has_bytes(const struct tb_carry *carry);
/* Attributes. */
void tb_carry_dress(struct tb_carries *carries, struct tb_carry *carry);
/* The storage begins to write, and is not waited for; then it is. Each by any thread. */
void tb_carry_begin_to_sync(const struct tb_carry *carry);
void tb_carry_sync(struct tb_carry *carry);
/* The last looks, and the name. After a failure nothing is left beside it. */
void tb_carry_publish(struct tb_carries *carries, struct tb_carry *carry);
/* After the fsync of its folder: all is closed. */
void tb_carry_finish(struct tb_carry *carry);

/*
 * The folders above a destination, with the modes of those above its source. They are on the storage after tb_folders_sync. 0,
 * -EIDRM: one was there and was removed, or -errno.
 */
int tb_carry_make_folders(struct tb_carries *carries, struct tb_folders *folders, const char *source, const char *destination);
/* A folder and those above it. */
int tb_carry_make_folder(struct tb_carries *carries, struct tb_folders *folders, const char *source, const char *destination);
/* Has the program removed a folder above this destination? Not where the root is missing, too. */
bool tb_carry_is_removed(struct tb_carries *carries, const char *destination);

/* Has any process the file open to write? On file systems without leases none has. */
bool tb_file_has_writer(const char *path);

#endif
