/*
 * Bytes of a file through its buffers.
 *
 * A write goes chunk by chunk under the chunk's lock: into the buffers that own
 * its bytes, and for the gaps between them into new buffers where placement
 * says, filled before they are published.  What no tier takes goes straight to
 * the backing file.  A read copies what is valid and takes the rest from the
 * backing file, zeros behind its end.
 */
#ifndef TB_DATA_H
#define TB_DATA_H

#include "region/handle.h"

/* A file and the way to its backing file. */
struct tb_target {
    tb_engine *engine;
    struct tb_io *io; /* chain to the backing file's place */
    uint32_t file;
    int fd;           /* of the backing file, or -1: opened by name when needed */
    bool can_read, can_write; /* what `fd` is good for */
    enum tb_hint hint;        /* of how the bytes will be used */
    bool continues;           /* a read that begins where the one before ended */
    bool missed;              /* set where the backing file was read */
    bool at_end;              /* the write is to begin where the file ends (file/end.h), */
    bool end_moved;           /* set where that is elsewhere by now: nothing was written */
};

/* Bytes transferred, or negative errno where there were none. */
ssize_t tb_data_write(struct tb_target *t, const void *from, size_t n, uint64_t offset);
ssize_t tb_data_read(struct tb_target *t, void *to, size_t n, uint64_t offset);

/* Open the backing file by name and compare identities; a descriptor, or -ESTALE where another file has the name. */
int tb_target_open(tb_engine *e, uint32_t file, int flags);
/* The chain to the place of the file's backing file. */
struct tb_io *tb_file_io(tb_engine *e, uint32_t file);

#endif
