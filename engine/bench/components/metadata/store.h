/*
 * A store of file records: what each system gives to the one loop of metadata.c.
 */
#ifndef TB_COMPONENTS_STORE_H
#define TB_COMPONENTS_STORE_H

#include "common/job.h"

/* The key is the identity of the file, the rest is its value; all systems keep the same 128 bytes. */
struct tb_key {
    uint64_t device, inode;
    int64_t birth_ns;
};
struct tb_record {
    struct tb_key key;
    uint64_t size;
    int64_t mtime_ns, ctime_ns;
    char path[80]; /* NUL to the end */
};
_Static_assert(sizeof(struct tb_record) == 128, "no bytes between the fields: records are compared as bytes");
#define TB_VALUE(record) ((char *)&(record)->size)
#define TB_VALUE_BYTES (sizeof(struct tb_record) - sizeof(struct tb_key))

/*
 * All of them get `n` records at once and return after the last answer, so n is how many requests are under way.  They end the
 * process with tb_job_fail where the system fails; a record that is not there is the answer of `get` alone.
 */
struct tb_store {
    int (*start)(struct tb_job *job); /* 0, or an exit status */
    void (*stop)(struct tb_job *job);
    void (*join)(struct tb_job *job); /* in each process that asks */
    void (*put)(struct tb_job *job, const struct tb_record *records, long n);
    void (*update)(struct tb_job *job, const struct tb_record *records, long n);
    void (*remove)(struct tb_job *job, const struct tb_record *records, long n);
    /* Keys are given, values are filled in; returns how many of them are there. */
    long (*get)(struct tb_job *job, struct tb_record *records, long n);
    uint64_t (*bytes)(struct tb_job *job); /* of memory that the system uses now */
};

extern const struct tb_store tb_store_engine, tb_store_redis, tb_store_memcached;

#endif
