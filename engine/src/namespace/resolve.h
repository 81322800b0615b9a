/*
 * Where a name leads: the one translation of names. Every operation on names asks here,
 * and so does every wrapper of a call that is no chain operation.
 */
#ifndef TB_PLACE_H
#define TB_PLACE_H

#include "namespace/route.h"
#include "namespace/shadow.h"

struct tb_place {
    struct tb_io *io; /* the chain to it */
    enum tb_mode mode;
    bool managed;             /* false: a link of a scratch prefix leads where nothing is buffered */
    bool scratch;             /* it is in the shadow */
    bool waits;               /* it is a new file that waits for its first flush */
    bool deferred;            /* a new file would */
    enum tb_shadow_kind kind; /* of scratch mode */
    char path[PATH_MAX];
};

/*
 * `route` is the path's (namespace/route.h), `use` an enum tb_name_use with flags.
 * 0; -ENAMETOOLONG; in scratch mode what a walk gives (namespace/shadow.h).
 */
int tb_place_find(tb_engine *e, const struct tb_route *route, const char *path, unsigned use, struct tb_place *out);
/*
 * The same with TB_NAME_MAKE, of a name that is about to be given to a file, or taken from it: without links below its prefix, as the
 * records have it.
 */
int tb_place_to_name(tb_engine *e, const struct tb_route *route, const char *path, struct tb_place *out);
/*
 * The same for a name that is to be made. In the hidden directory only new files are made: a name that waits is taken (-EEXIST).
 * `of`: the file that gets it as a second name, of which errors come first; NULL: none.
 */
int tb_place_find_new(tb_engine *e, const struct tb_place *of, const struct tb_route *route, const char *path, struct tb_place *out);
/*
 * A file that waits may be given its name at any moment. A call that found it in the hidden directory, and then found nothing at that
 * place, ended with -ENOENT: this says that it has to be made again, from the look-up on. `looks` is 0 at first.
 */
bool tb_place_was_left(const struct tb_place *p, ssize_t rc, int *looks);
/*
 * `out` was found for a second or a new name (TB_NAME_MAKE) of the file `from`. Under a
 * Hermes configuration a new name is taken to be scratch (namespace/route.c). But a file of
 * the file system stays one whatever it is called, and a scratch file may hide a name that
 * the file system has: then `out` is changed to that.
 */
int tb_place_beside(tb_engine *e, const struct tb_place *from, const struct tb_route *route, const char *path, struct tb_place *out);
/* In scratch mode, where the name's directory is known to be real: its place, without a look; it may be a symlink. */
bool tb_place_known(tb_engine *e, const struct tb_route *route, const char *path, struct tb_place *out);

/* Cuts slashes and "/." from the end, which say of a name that it is a directory's. Its new length. */
size_t tb_name_cut_tail(char *name);

#endif
