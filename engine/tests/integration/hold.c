/*
 * A client that takes a lock of an instance, says so, and stops itself:
 *
 *   hold INSTANCE clients|names|queue|chunk|bytes|daemon
 *
 * bytes: the chunk with the first bytes of the first file. After SIGCONT it drops the lock and ends.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <tierbench/io.h>

#include "buffer/chunk.h"
#include "region/handle.h"

static struct tb_lock *of_first_file(tb_engine *e)
{
    uint32_t file = 0;
    while (file < e->region.n_file_buckets && e->region.files[file].magic != TB_FILE_MAGIC)
        file++;
    return file < e->region.n_file_buckets ? &e->region.locks->chunk[tb_chunk_of(e, file, 0).stripe].lock : NULL;
}

static struct tb_lock *find(tb_engine *e, const char *which)
{
    struct tb_header *h = e->header;
    return strcmp(which, "clients") == 0 ? &h->registry.lock
         : strcmp(which, "names") == 0   ? &h->names.lock
         : strcmp(which, "queue") == 0   ? &h->queue.lock
         : strcmp(which, "chunk") == 0   ? &e->region.locks->chunk[0].lock
         : strcmp(which, "bytes") == 0   ? of_first_file(e)
         : strcmp(which, "daemon") == 0  ? &h->daemon.lock
                                         : NULL;
}

int main(int argc, char **argv)
{
    tb_engine *e;
    if (argc != 3 || tb_engine_attach(argv[1], tb_io_libc(), &e))
        return 2;
    struct tb_lock *lock = find(e, argv[2]);
    if (!lock || tb_lock_take(lock) < 0)
        return 2;
    puts("held");
    fflush(stdout);
    raise(SIGSTOP);
    tb_lock_drop(lock);
    tb_engine_detach(e);
    return 0;
}
