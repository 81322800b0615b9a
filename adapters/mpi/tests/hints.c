/*
 * Hints by MPI_Info: which of them hold, what MPI_File_get_info says of them, and
 * when the PFS has what was written.
 *
 *   hints FILE ALIAS WAY [KEY=VALUE...]
 *
 * Gives FILE the hints (WAY: `open`, `info` by MPI_File_set_info, `view` by
 * MPI_File_set_view), prints the tierbench_ values that hold, and then when the PFS
 * has what each rank wrote.  ALIAS leads to the same file past the adapter.  WAY `read`:
 * gives the hints when opening, and only reads the file twice.
 */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

static void check(int rc, const char *what)
{
    if (rc == MPI_SUCCESS)
        return;
    fprintf(stderr, "rank %d: %s failed\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/*
 * Read past the adapter: true where the file is as long as there are ranks and holds this
 * letter of each.
 */
static int has(const char *path, char letter)
{
    char bytes[64];
    int fd = open(path, O_RDONLY);
    ssize_t n = read(fd, bytes, sizeof(bytes));
    int right = n == size;
    close(fd);
    for (int i = 0; i < size && right; i++)
        right = bytes[i] == letter;
    return right;
}

static void say(const char *what, const char *path, char letter)
{
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("pfs after %s: %s\n", what, has(path, letter) ? "yes" : "no");
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Collective, although rank 0 alone prints. */
static void print_hints(MPI_File file)
{
    MPI_Info info;
    char key[MPI_MAX_INFO_KEY + 1], value[MPI_MAX_INFO_VAL + 1];
    int n, is_there;
    check(MPI_File_get_info(file, &info), "get_info");
    MPI_Info_get_nkeys(info, &n);
    for (int i = 0; i < n; i++) {
        MPI_Info_get_nthkey(info, i, key);
        MPI_Info_get(info, key, MPI_MAX_INFO_VAL, value, &is_there);
        if (rank == 0 && strncmp(key, "tierbench_", 10) == 0)
            printf("%s=%s\n", key, value);
    }
    MPI_Info_free(&info);
}

/* Twice, so that a hint about reuse can make a difference. */
static void read_twice(MPI_File file)
{
    char bytes[65536];
    MPI_Offset end;
    check(MPI_File_get_size(file, &end), "get_size");
    for (int pass = 0; pass < 2; pass++)
        for (MPI_Offset at = 0; at < end; at += (MPI_Offset)sizeof(bytes))
            check(MPI_File_read_at(file, at, bytes, sizeof(bytes), MPI_BYTE, MPI_STATUS_IGNORE), "read");
}

/* Order: after the write, after the sync, after the close; two letters tell the writes apart. */
static void write_and_look(MPI_File *file, const char *alias)
{
    check(MPI_File_write_at(*file, rank, "w", 1, MPI_BYTE, MPI_STATUS_IGNORE), "write");
    say("write", alias, 'w');
    check(MPI_File_write_at(*file, rank, "s", 1, MPI_BYTE, MPI_STATUS_IGNORE), "write");
    check(MPI_File_sync(*file), "sync");
    say("sync", alias, 's');
    check(MPI_File_close(file), "close");
    say("close", alias, 's');
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char *path = argv[1], *alias = argv[2], *way = argv[3];
    MPI_Info info;
    MPI_File file;
    MPI_Info_create(&info);
    /* Each word is cut at its = in argv itself. */
    for (int i = 4; i < argc; i++) {
        char *value = strchr(argv[i], '=');
        *value = 0;
        MPI_Info_set(info, argv[i], value + 1);
    }
    MPI_Info none = MPI_INFO_NULL, at_open = strcmp(way, "info") == 0 || strcmp(way, "view") == 0 ? none : info;
    check(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, at_open, &file), "open");
    if (strcmp(way, "info") == 0)
        check(MPI_File_set_info(file, info), "set_info");
    if (strcmp(way, "view") == 0)
        check(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", info), "set_view");
    print_hints(file);
    if (strcmp(way, "read") == 0) {
        read_twice(file);
        check(MPI_File_close(&file), "close");
    } else {
        write_and_look(&file, alias);
    }
    MPI_Info_free(&info);
    MPI_Finalize();
    return 0;
}
