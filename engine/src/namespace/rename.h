/*
 * Names of claimed files that change: journal, PFS and records, in this order. So a process that is killed in
 * between leaves a change that a repair can finish (namespace/intent.h).
 */
#ifndef TB_NAMESPACE_RENAME_H
#define TB_NAMESPACE_RENAME_H

#include "io/identity.h"
#include "namespace/resolve.h"

/* One of the two places of a rename, or of an exchange. */
struct tb_renamed {
    const struct tb_place *place;
    struct tb_identity id;
    uint32_t file; /* claimed, or TB_NONE */
};

/*
 * The slashes at the end of a directory's name, and of the name that it gets, are in no record: they are cut. -ENOTDIR: they are at
 * a name of what is no directory. What is not there the file system refuses.
 */
int tb_rename_cut_tails(struct tb_place *from, struct tb_place *to);
/* RENAME records, durable; both ways for RENAME_EXCHANGE. */
int tb_rename_tell_journal(tb_engine *e, const char *from, const char *to, unsigned flags);
/* Both are claimed, where they have a record.  0 or -errno, as of rename. */
int tb_rename_claimed(tb_engine *e, const struct tb_renamed *from, const struct tb_renamed *over, unsigned flags);
/* A file that waits takes its place, which its bytes have reached; claimed.  -EEXIST: another file has the name. */
int tb_rename_publish(tb_engine *e, uint32_t file);
/*
 * The record of a file that waits has a place which the file may have left: it was made by an open that found the file there just before
 * another flush gave it its name.  0: the record has that name now.  -ENOENT, -ESTALE: it has not; where the file left its place and is not
 * at its name, another program has it or it is removed, and the record does not wait any more.  Claimed.
 */
int tb_rename_follow(tb_engine *e, uint32_t file);

#endif
