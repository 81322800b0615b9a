/* Write and read one file through the tiers of a running instance:  TIERBENCH_INSTANCE=NAME hello /pfs/FILE */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <tierbench/engine.h>

int main(int argc, char **argv)
{
    char name[64], text[32] = "";
    struct tb_stats stats;
    tb_engine *engine;
    int rc = tb_engine_find(name, sizeof(name));
    if (!rc)
        rc = tb_engine_attach(name, tb_io_libc(), &engine);
    if (rc)
        return fprintf(stderr, "%s: no instance: %s\n", argv[0], strerror(-rc)), 1;
    /* The chain of the path's prefix: NULL where the instance does not manage it, and then plain calls are the right ones. */
    struct tb_io *io = argc == 2 ? tb_engine_route(engine, argv[1], NULL) : NULL;
    int fd = io ? TB_IO(io, open, argv[1], O_RDWR | O_CREAT, 0600) : -1;
    if (fd < 0)
        return fprintf(stderr, "usage: %s FILE, under a prefix of instance %s\n", argv[0], name), 2;
    /* By the chain that opened it: bare write and read would go past the tiers. */
    TB_IO(io, pwrite, fd, "hello, tiers", 12, 0);
    TB_IO(io, pread, fd, text, sizeof(text) - 1, 0);
    rc = TB_IO(io, fsync, fd, false); /* keeps what the configuration promises */
    TB_IO(io, close, fd);
    tb_engine_stats(engine, &stats);
    printf("read back \"%s\" from tier %s of instance %s, fsync: %s\n", text, stats.tier[0].name, name, rc ? strerror(-rc) : "done");
    tb_engine_detach(engine);
    return rc != 0;
}
