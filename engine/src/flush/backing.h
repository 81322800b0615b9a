/*
 * The backing file of a target: reading what buffers lack, writing what they
 * can't keep.  Uses the caller's descriptor where it is good for that, else
 * opens the file by name and makes sure it is still the same file.
 */
#ifndef TB_TARGET_H
#define TB_TARGET_H

#include "region/handle.h"

/* A file and the way to its backing file. */
struct tb_target {
    tb_engine *engine;
    struct tb_io *io; /* chain to the backing file's place */
    uint32_t file;
    int fd;                   /* of the backing file, or -1: opened by name when needed */
    bool can_read, can_write; /* what `fd` is good for */
    enum tb_hint hint;        /* of how the bytes will be used */
    bool continues;           /* a read that begins where the one before ended */
    bool missed;              /* set where the backing file was read */
    bool at_end;              /* the write is to begin where the file ends (layer/end.h), */
    bool end_moved;           /* set where that is elsewhere by now: nothing was written */
    bool passes;              /* set where the file became coherent: the rest of the write passes through */
};

/* Open the backing file by name and compare identities; a descriptor, or -ESTALE where another file has the name. */
int tb_target_open(tb_engine *e, uint32_t file, int flags);
/* The chain to the place of the file's backing file. */
struct tb_io *tb_file_io(tb_engine *e, uint32_t file);

/* Does its name lead to the file? If not, only a process with a descriptor can flush it. */
bool tb_target_is_named(tb_engine *e, uint32_t file);
/* All `n` bytes, with zeros after the end of the backing file. */
int tb_target_read_pfs(struct tb_target *t, void *to, size_t n, uint64_t offset);
/* The same, but where other nodes have newer bytes of a shared file: those. -EREMOTE: they must be fetched first (flush/remote.h). */
int tb_target_read(struct tb_target *t, void *to, size_t n, uint64_t offset);
/* It is not -EREMOTE. */
bool tb_target_is_here(const struct tb_target *t, uint64_t n, uint64_t offset);
/* The same to the program's own memory, of bytes that stay nowhere else. */
int tb_target_read_out(struct tb_target *t, void *to, size_t n, uint64_t offset);
/* Bytes between buffered ones, by the caller's descriptor if it has one: the device is not asked for what is past the end. */
int tb_target_read_gap(struct tb_target *t, void *to, size_t n, uint64_t offset);
int tb_target_write(struct tb_target *t, const void *from, size_t n, uint64_t offset);
/* With a writable descriptor of the file: the target's own, or another of the same file where that is not good for it. */
int tb_target_with_writable(struct tb_target *t, int (*act)(struct tb_target *, int fd, void *arg), void *arg);

/* Bytes that were just written by the target's descriptor will be synced: the device may begin. */
void tb_target_will_sync(struct tb_target *t, uint64_t offset, uint64_t n);
/* What was written to the backing file is synced. */
int tb_target_sync(struct tb_target *t);
/* Called before each sync of this thread: while the device works, another thread can copy. */
void tb_target_before_sync(void (*tell)(void *arg), void *arg);

#endif
