/*
 * The other ways of MPI-IO: nonblocking and split collective calls, individual
 * pointers, nested strided types, reading and seeking by the shared pointer, writes
 * that overlap in atomic mode, sizes, files of one rank that another reads.  Each is
 * checked by reading it back.  Ends with 0 where all bytes are right.
 *
 *   mpiio_ways FOLDER
 */
#include <string.h>

#define BLOCK 2003 /* ints */
#define BLOCKS 24
#include "blocks.h"

/*
 * What Open MPI 4 lacks, without tiers too: ROMIO the nonblocking collective calls,
 * which crash; OMPIO atomic mode where ranks overlap, which it grants and doesn't keep.
 */
static int is_romio(void)
{
    const char *library = getenv("OMPI_MCA_io");
    return library && strstr(library, "romio");
}

/* All blocks are under way at once. */
static void nonblocking(const char *name, int collective)
{
    static int blocks[BLOCKS][BLOCK];
    MPI_Request under_way[BLOCKS];
    MPI_File file = open_file(name, 0);
    int other = (rank + 1) % size;
    for (int b = 0; b < BLOCKS; b++) {
        fill(blocks[b], rank, b);
        check((collective ? MPI_File_iwrite_at_all : MPI_File_iwrite_at)(file, place(rank, b), blocks[b], BLOCK, MPI_INT, &under_way[b]),
              name);
    }
    check(MPI_Waitall(BLOCKS, under_way, MPI_STATUSES_IGNORE), "wait");
    sync_barrier_sync(file);
    memset(blocks, 0, sizeof(blocks));
    for (int b = 0; b < BLOCKS; b++)
        check((collective ? MPI_File_iread_at_all : MPI_File_iread_at)(file, place(other, b), blocks[b], BLOCK, MPI_INT, &under_way[b]),
              name);
    check(MPI_Waitall(BLOCKS, under_way, MPI_STATUSES_IGNORE), "wait");
    for (int b = 0; b < BLOCKS; b++)
        compare(name, blocks[b], other, b);
    close_file(&file);
}

/* A part of the file for each rank, by its own pointer; every other write doesn't wait. */
static void own_pointers(const char *name)
{
    MPI_File file = open_file(name, 0);
    int block[BLOCK], other = (rank + 1) % size;
    MPI_Offset part = (MPI_Offset)BLOCKS * BLOCK * (MPI_Offset)sizeof(int), at;
    check(MPI_File_seek(file, rank * part, MPI_SEEK_SET), "seek");
    for (int b = 0; b < BLOCKS; b++) {
        MPI_Request request = MPI_REQUEST_NULL;
        fill(block, rank, b);
        check(b % 2 ? MPI_File_write(file, block, BLOCK, MPI_INT, MPI_STATUS_IGNORE)
                    : MPI_File_iwrite(file, block, BLOCK, MPI_INT, &request),
              name);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    check(MPI_File_get_position(file, &at), "position");
    if (at != (rank + 1) * part)
        fail("own pointer", rank, at, (rank + 1) * part);
    sync_barrier_sync(file);
    check(MPI_File_seek(file, -(size - other) * part, MPI_SEEK_END), "seek");
    for (int b = 0; b < BLOCKS; b++) {
        check(MPI_File_read(file, block, BLOCK, MPI_INT, MPI_STATUS_IGNORE), name);
        compare(name, block, other, b);
    }
    close_file(&file);
}

/* Written at explicit places and read by the individual pointer: both have calls of their own. */
static void split_collective(const char *name)
{
    MPI_File file = open_file(name, 0);
    int block[BLOCK], other = (rank + 1) % size;
    for (int b = 0; b < BLOCKS; b++) {
        fill(block, rank, b);
        check(MPI_File_write_at_all_begin(file, place(rank, b), block, BLOCK, MPI_INT), name);
        check(MPI_File_write_at_all_end(file, block, MPI_STATUS_IGNORE), name);
    }
    sync_barrier_sync(file);
    for (int b = 0; b < BLOCKS; b++) {
        check(MPI_File_seek(file, place(other, b), MPI_SEEK_SET), "seek");
        check(MPI_File_read_all_begin(file, block, BLOCK, MPI_INT), name);
        check(MPI_File_read_all_end(file, block, MPI_STATUS_IGNORE), name);
        compare(name, block, other, b);
    }
    close_file(&file);
}

#define ROWS 64
#define COLUMNS 37 /* of a rank */

/*
 * A matrix of which each rank has some columns, in a larger one in its memory: both
 * sides are strided, so that independent writes interleave within every block.
 */
static void strided(const char *name, int collective)
{
    MPI_File file = open_file(name, 0);
    MPI_Datatype in_file, in_memory;
    static int mine[ROWS + 2][COLUMNS + 6];
    int whole[2] = {ROWS, COLUMNS * size}, part[2] = {ROWS, COLUMNS}, at[2] = {0, COLUMNS * rank};
    int around[2] = {ROWS + 2, COLUMNS + 6}, inner[2] = {1, 3}, *all = malloc(sizeof(int) * ROWS * COLUMNS * (size_t)size);
    MPI_Type_create_subarray(2, whole, part, at, MPI_ORDER_C, MPI_INT, &in_file);
    MPI_Type_create_subarray(2, around, part, inner, MPI_ORDER_C, MPI_INT, &in_memory);
    MPI_Type_commit(&in_file);
    MPI_Type_commit(&in_memory);
    check(MPI_File_set_view(file, 100, MPI_INT, in_file, "native", MPI_INFO_NULL), "view");
    for (int step = 0; step < 10; step++) { /* one matrix after the other */
        for (int i = 0; i < ROWS; i++)
            for (int k = 0; k < COLUMNS; k++)
                mine[i + 1][k + 3] = (step * ROWS + i) * 10000 + rank * COLUMNS + k;
        check((collective ? MPI_File_write_all : MPI_File_write)(file, mine, 1, in_memory, MPI_STATUS_IGNORE), name);
    }
    sync_barrier_sync(file);
    check(MPI_File_set_view(file, 100, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), "view");
    for (int step = 0; step < 10; step++) {
        check(MPI_File_read_at(file, (MPI_Offset)step * ROWS * COLUMNS * size, all, ROWS * COLUMNS * size, MPI_INT, MPI_STATUS_IGNORE),
              name);
        for (int i = 0; i < ROWS * COLUMNS * size; i++)
            if (all[i] != (step * ROWS + i / (COLUMNS * size)) * 10000 + i % (COLUMNS * size))
                fail(name, i, all[i], (step * ROWS + i / (COLUMNS * size)) * 10000 + i % (COLUMNS * size));
    }
    close_file(&file);
    MPI_Type_free(&in_file);
    MPI_Type_free(&in_memory);
    free(all);
}

#define RECORD 50
#define RECORDS 40

/* Written in the order of ranks, read in any order: each record is read once, by one of the ranks. */
static void shared_pointer(const char *name)
{
    MPI_File file = open_file(name, 0);
    int record[RECORD], seen[RECORDS * 64] = {0}, skip = 2 * size;
    MPI_Offset at;
    for (int k = 0; k < RECORDS; k++) {
        for (int i = 0; i < RECORD; i++)
            record[i] = k * size + rank;
        check(MPI_File_write_ordered_begin(file, record, RECORD, MPI_INT), name);
        check(MPI_File_write_ordered_end(file, record, MPI_STATUS_IGNORE), name);
    }
    sync_barrier_sync(file);
    check(MPI_File_seek_shared(file, (MPI_Offset)skip * (MPI_Offset)sizeof(record), MPI_SEEK_SET), "seek_shared");
    check(MPI_File_get_position_shared(file, &at), "position");
    if (at != (MPI_Offset)skip * (MPI_Offset)sizeof(record))
        fail("shared pointer", 0, at, skip * (long)sizeof(record));
    MPI_Barrier(MPI_COMM_WORLD);
    check(MPI_File_read_ordered(file, record, RECORD, MPI_INT, MPI_STATUS_IGNORE), name);
    if (record[0] != skip + rank || record[RECORD - 1] != record[0])
        fail("read in order", rank, record[0], skip + rank);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int k = 3; k < RECORDS; k++) {
        check(MPI_File_read_shared(file, record, RECORD, MPI_INT, MPI_STATUS_IGNORE), name);
        if (record[0] < 3 * size || record[0] >= RECORDS * size || record[RECORD - 1] != record[0])
            fail("a record by the shared pointer", k, record[0], -1);
        seen[record[0]]++;
    }
    MPI_Allreduce(MPI_IN_PLACE, seen, RECORDS * size, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 3 * size; i < RECORDS * size; i++)
        if (seen[i] != 1)
            fail("how often a record was read", i, seen[i], 1);
    close_file(&file);
}

/* All ranks write the same bytes at once. Afterwards all bytes are of one rank, any of them. */
static void overlapping(const char *name, int is_strided)
{
    MPI_File file = open_file(name, 0);
    MPI_Datatype every_other;
    int block[BLOCK];
    MPI_Type_vector(BLOCK, 1, 2, MPI_INT, &every_other);
    MPI_Type_commit(&every_other);
    if (is_strided)
        check(MPI_File_set_view(file, 0, MPI_INT, every_other, "native", MPI_INFO_NULL), "view");
    check(MPI_File_set_atomicity(file, 1), "atomic mode");
    for (int b = 0; b < BLOCKS; b++) {
        for (int i = 0; i < BLOCK; i++)
            block[i] = b * size + rank;
        check(MPI_File_write_at(file, 0, block, BLOCK, MPI_INT, MPI_STATUS_IGNORE), name);
        check(MPI_File_read_at(file, 0, block, BLOCK, MPI_INT, MPI_STATUS_IGNORE), name);
        for (int i = 1; i < BLOCK; i++)
            if (block[i] != block[0] || block[i] / size != b)
                fail(name, i, block[i], block[0]);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    fill(block, 0, 0); /* the file's last bytes are the same in every run */
    if (rank == 0)
        check(MPI_File_write_at(file, 0, block, BLOCK, MPI_INT, MPI_STATUS_IGNORE), name);
    close_file(&file);
    MPI_Type_free(&every_other);
}

/* One rank after the other writes the same bytes, without atomic mode; after sync, barrier, sync all see them. */
static void hand_over(const char *name)
{
    MPI_File file = open_file(name, 0);
    int block[BLOCK];
    for (int b = 0; b < BLOCKS; b++) {
        if (rank == b % size) {
            fill(block, rank, b);
            check(MPI_File_write_at(file, 11, block, BLOCK, MPI_INT, MPI_STATUS_IGNORE), name);
        }
        sync_barrier_sync(file);
        check(MPI_File_read_at(file, 11, block, BLOCK, MPI_INT, MPI_STATUS_IGNORE), name);
        compare(name, block, b % size, b);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    close_file(&file);
}

/* Barriers on both sides: no rank may change the size while another still asks for it. */
static void expect_size(MPI_File file, MPI_Offset expected, const char *what)
{
    MPI_Offset bytes;
    MPI_Barrier(MPI_COMM_WORLD);
    check(MPI_File_get_size(file, &bytes), "get_size");
    if (bytes != expected)
        fail(what, 0, bytes, expected);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Shorter, longer; what is past an end that came back is zeros. */
static void sizes(const char *name)
{
    MPI_File file = open_file(name, 0);
    int block[BLOCK], got;
    MPI_Status status;
    fill(block, rank, 0);
    check(MPI_File_write_at_all(file, place(rank, 0), block, BLOCK, MPI_INT, MPI_STATUS_IGNORE), name);
    expect_size(file, place(0, 1), "written");
    check(MPI_File_set_size(file, place(0, 1) - 4), "set_size");
    expect_size(file, place(0, 1) - 4, "cut");
    check(MPI_File_set_size(file, place(0, 2)), "set_size");
    expect_size(file, place(0, 2), "grown");
    check(MPI_File_read_at(file, place(size - 1, 0), block, BLOCK, MPI_INT, &status), name);
    for (int i = 0; i < BLOCK; i++)
        if (block[i] != (i == BLOCK - 1 ? 0 : value(size - 1, 0, i)))
            fail("past the cut", i, block[i], value(size - 1, 0, i));
    check(MPI_File_read_at(file, place(0, 2) - 40, block, BLOCK, MPI_INT, &status), name);
    MPI_Get_count(&status, MPI_INT, &got);
    if (got != 10)
        fail("read over the end", 0, got, 10);
    close_file(&file);
    file = open_file(name, MPI_MODE_APPEND);
    MPI_Offset at;
    check(MPI_File_get_position(file, &at), "position");
    if (at != place(0, 2))
        fail("opened to append", 0, at, place(0, 2));
    close_file(&file);
}

/* Each rank's own file, by itself alone; then its neighbour reads it, and removes a copy of its own when it closes it. */
static void one_each(void)
{
    char name[64];
    int block[BLOCK], other = (rank + 1) % size;
    snprintf(name, sizeof(name), "own.%d", rank);
    MPI_File file = open_by(MPI_COMM_SELF, name, MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_WRONLY);
    for (int b = 0; b < BLOCKS; b++) {
        fill(block, rank, b);
        check(MPI_File_write(file, block, BLOCK, MPI_INT, MPI_STATUS_IGNORE), name);
    }
    close_file(&file);
    MPI_Barrier(MPI_COMM_WORLD);
    snprintf(name, sizeof(name), "own.%d", other);
    file = open_by(MPI_COMM_SELF, name, MPI_MODE_RDONLY);
    for (int b = BLOCKS - 1; b >= 0; b--) {
        check(MPI_File_read_at(file, (MPI_Offset)b * (MPI_Offset)sizeof(block), block, BLOCK, MPI_INT, MPI_STATUS_IGNORE), name);
        compare(name, block, other, b);
    }
    close_file(&file);
    snprintf(name, sizeof(name), "gone.%d", rank);
    file = open_by(MPI_COMM_SELF, name, MPI_MODE_CREATE | MPI_MODE_WRONLY | MPI_MODE_DELETE_ON_CLOSE);
    check(MPI_File_write(file, block, BLOCK, MPI_INT, MPI_STATUS_IGNORE), name);
    close_file(&file);
}

int main(int argc, char **argv)
{
    start(argc, argv);
    nonblocking("nonblocking", 0);
    if (!is_romio())
        nonblocking("nonblocking-collective", 1);
    own_pointers("own-pointers");
    split_collective("split");
    strided("strided", 0);
    strided("strided-collective", 1);
    shared_pointer("shared-pointer");
    if (is_romio()) {
        overlapping("overlapping", 0);
        overlapping("overlapping-strided", 1);
    }
    hand_over("hand-over");
    sizes("sizes");
    one_each();
    finish();
    return 0;
}
