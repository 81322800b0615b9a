/*
 * Which file it is, as the file system says: names may change, and inode numbers are used again.
 */
#ifndef TB_IO_IDENTITY_H
#define TB_IO_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

#include <tierbench/io.h>

struct tb_identity {
    uint64_t device, inode;
    int64_t birth_ns; /* 0: unknown */
    uint64_t size;
    int64_t mtime_ns, ctime_ns;
    uint32_t links;
    bool regular, link;
    bool read_only;   /* its owner may not open it for writing */
    uint32_t n_freed; /* of struct tb_files before it was asked, for who makes a record of it */
};

static inline bool tb_identity_is_same(const struct tb_identity *a, const struct tb_identity *b)
{
    return a->inode == b->inode && a->device == b->device && a->birth_ns == b->birth_ns;
}

/*
 * A recovery's: the PFS was mounted again and has another device number `now`, so its files
 * are called by the number that the records have. 0, 0: no more. One thread, before others start.
 */
void tb_identity_call_device(uint64_t now, uint64_t as_recorded);

/* What the file system says of an open descriptor, or of a name. */
int tb_identity_of_fd(int fd, struct tb_identity *out);
int tb_identity_of_path(struct tb_io *io, const char *path, struct tb_identity *out);
/* Of the name itself where it is a symlink's. */
int tb_identity_of_name(struct tb_io *io, const char *path, struct tb_identity *out);

#endif
