/*
 * Counts of a file and of one of its chunks. If one of them has moved since bytes were asked of other nodes, some may be missing both in the
 * buffers and in what came, or what came may be old. With the file's identity, as its record may be another file's by then.
 */
#ifndef TB_FLUSH_STAMP_H
#define TB_FLUSH_STAMP_H

#include "buffer/map.h"

struct tb_stamp {
    uint64_t known, inode;
    int64_t birth_ns;
    uint32_t n_let_go, n_cleaned, n_cuts, n_spilled;
};

/* Before the bytes are asked for. */
static inline struct tb_stamp tb_stamp_of(const tb_engine *e, uint32_t file, uint64_t offset)
{
    const struct tb_file *f = &e->region.files[file];
    const struct tb_file_nodes *n = &e->region.file_nodes[file];
    const struct tb_chunk_lock *chunk = &e->region.locks->chunk[tb_chunk_of(e, file, offset).stripe];
    return (struct tb_stamp){
        n->known, f->inode, f->birth_ns, n->n_let_go, n->n_cleaned, f->n_cuts, *(const volatile uint32_t *)&chunk->n_spilled};
}

static inline bool tb_stamp_is(const struct tb_stamp *a, const struct tb_stamp *b)
{
    return a->known == b->known && a->inode == b->inode && a->birth_ns == b->birth_ns && a->n_let_go == b->n_let_go &&
           a->n_cleaned == b->n_cleaned && a->n_cuts == b->n_cuts && a->n_spilled == b->n_spilled;
}

#endif
