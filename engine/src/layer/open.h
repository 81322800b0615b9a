/*
 * Opening a file, in steps: open what the name leads to, know which file that is, bind the descriptor. A late open takes
 * the first step at once and the others when the file is first used.
 */
#ifndef TB_LAYER_OPEN_H
#define TB_LAYER_OPEN_H

#include "io/identity.h"
#include "namespace/resolve.h"

int tb_layer_open(struct tb_io *io, const char *path, int flags, mode_t mode);

/* One call of open, from step to step. */
struct tb_opening {
    tb_engine *e;
    const char *path;      /* the program's */
    struct tb_route route; /* its */
    int flags;             /* the program's */
    mode_t mode;
    bool cut;           /* to be emptied, by us and not by the kernel */
    int place_flags;    /* what the kernel gets besides */
    bool by_link;       /* the name may go through links, and is not the file's own then */
    uint32_t n_changes; /* struct tb_changes, before the file was opened */
    uint32_t n_freed;   /* records that were freed, before that */
    struct tb_place place;
    int fd;
    struct tb_identity id;
    uint32_t file; /* where it is KNOWN: held by n_open until it is bound */
    bool is_bound; /* the engine's close knows it */
    bool is_last;  /* it is made in any case */
};

enum tb_opened {
    TB_OPENED_OUTSIDE,   /* nothing is buffered there */
    TB_OPENED_IRREGULAR, /* a directory, a device, or a descriptor that only names a place */
    TB_OPENED_UNKNOWN,   /* a file of which no record can be had: all calls pass through */
    TB_OPENED_KNOWN,
};

/* What was opened, and its record, with its n_open raised. */
enum tb_opened tb_opening_know(struct tb_opening *o);
/* After it is KNOWN: has no call taken the name from it while it was opened? One that comes later finds the record. */
bool tb_opening_is_named(struct tb_opening *o);
/* Its bytes go to the backing file at once: no flush could open that by its name. Of a file that may not be written, its maker alone can. */
bool tb_opening_passes(const struct tb_opening *o, bool named);
/* The record becomes as this open wants it: of its mode, and with a name that exists. */
void tb_opening_update(struct tb_opening *o);

#endif
