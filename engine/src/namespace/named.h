/*
 * The file that a name leads to, claimed while the name is changed. During that time no
 * flush uses the old name, no journal record is made of the file, and no other client
 * changes the name.
 */
#ifndef TB_NAMED_H
#define TB_NAMED_H

#include "file/file.h"
#include "io/identity.h"
#include "namespace/resolve.h"
#include "region/handle.h"

/* *file: the record of the name itself, which may be a symlink's: not what it leads to.  TB_NONE: there is none. */
int tb_named_record(tb_engine *e, const struct tb_place *p, struct tb_identity *id, uint32_t *file);
/* Claim a record if it is still that file's. */
bool tb_named_claim_record(tb_engine *e, uint32_t file, const struct tb_identity *id);
/*
 * As above, if the name still leads to it: while it was looked up or the claim waited for, it may have become
 * another file's.  -EAGAIN: look again.  From then on its name, and how many it has, are as in `id`.
 */
int tb_named_claim(tb_engine *e, uint32_t file, const struct tb_place *p, struct tb_identity *id);
void tb_named_unclaim(tb_engine *e, uint32_t file);

/* The last part of a path, as a number above 0: renames of directories, and links to them, do not change it. */
uint32_t tb_name_number(const char *path);

/*
 * Lock one path, or two, against calls by which it leads to another file: unlink, rename, link. Locked before ends and claims of
 * files. Limit: two paths to one name, by links to directories, are not told to be the same.
 */
struct tb_name_locks {
    uint32_t first, second;
    bool has_first, has_second;
};
void tb_named_lock(tb_engine *e, const char *path, const char *other, struct tb_name_locks *out);
void tb_named_unlock(tb_engine *e, const struct tb_name_locks *locks);

#endif
