/*
 * MPI-IO on one shared file, each way checked by reading it back: independent,
 * collective, through file views, by shared file pointers, after MPI_File_sync, and
 * in atomic mode; mpiio_ways.c has the others.  Ends with 0 where all bytes are right.
 *
 *   mpiio FOLDER
 */
#define BLOCK 3001 /* ints of a rank at a time: no multiple of anything */
#define BLOCKS 40
#include "blocks.h"

#define RECORD 100 /* ints of a record by the shared pointer */
#define RECORDS 50

/* Each rank writes its blocks, and reads its neighbour's. */
static void at_offsets(const char *name, int collective)
{
    MPI_File file = open_file(name, 0);
    int block[BLOCK], other = (rank + 1) % size;
    for (int b = 0; b < BLOCKS; b++) {
        fill(block, rank, b);
        check((collective ? MPI_File_write_at_all : MPI_File_write_at)(file, place(rank, b), block, BLOCK, MPI_INT, MPI_STATUS_IGNORE),
              name);
    }
    sync_barrier_sync(file);
    for (int b = 0; b < BLOCKS; b++) {
        check((collective ? MPI_File_read_at_all : MPI_File_read_at)(file, place(other, b), block, BLOCK, MPI_INT, MPI_STATUS_IGNORE),
              name);
        compare(name, block, other, b);
    }
    MPI_Offset bytes;
    check(MPI_File_get_size(file, &bytes), "size");
    if (bytes != place(0, BLOCKS))
        fail("size", 0, (int)bytes, (int)place(0, BLOCKS));
    close_file(&file);
}

/* The ranks' ints are interleaved one by one: a view each, written and read at once. */
static void through_views(const char *name)
{
    MPI_File file = open_file(name, 0);
    MPI_Datatype every;
    int block[BLOCK];
    MPI_Type_vector(BLOCK, 1, size, MPI_INT, &every);
    MPI_Type_create_resized(every, 0, (MPI_Aint)sizeof(int) * BLOCK * size, &every);
    MPI_Type_commit(&every);
    check(MPI_File_set_view(file, rank * (MPI_Offset)sizeof(int), MPI_INT, every, "native", MPI_INFO_NULL), "view");
    for (int b = 0; b < BLOCKS; b++) {
        fill(block, rank, b);
        check(MPI_File_write_all(file, block, BLOCK, MPI_INT, MPI_STATUS_IGNORE), name);
    }
    sync_barrier_sync(file);
    int other = (rank + 1) % size;
    check(MPI_File_set_view(file, other * (MPI_Offset)sizeof(int), MPI_INT, every, "native", MPI_INFO_NULL), "view");
    for (int b = 0; b < BLOCKS; b++) {
        check(MPI_File_read(file, block, BLOCK, MPI_INT, MPI_STATUS_IGNORE), name);
        compare(name, block, other, b);
    }
    close_file(&file);
    MPI_Type_free(&every);
}

/* Records land anywhere, but whole, and all of them; ordered ones by rank. */
static void by_shared_pointer(const char *name)
{
    MPI_File file = open_file(name, 0);
    int record[RECORD], seen[RECORDS * 64] = {0};
    for (int k = 0; k < RECORDS; k++) {
        for (int i = 0; i < RECORD; i++)
            record[i] = rank * RECORDS + k;
        check(k % 2 ? MPI_File_write_shared(file, record, RECORD, MPI_INT, MPI_STATUS_IGNORE)
                    : MPI_File_write_ordered(file, record, RECORD, MPI_INT, MPI_STATUS_IGNORE),
              name);
    }
    sync_barrier_sync(file);
    for (int k = 0; k < RECORDS * size; k++) {
        check(MPI_File_read_at(file, (MPI_Offset)k * RECORD * (MPI_Offset)sizeof(int), record, RECORD, MPI_INT, MPI_STATUS_IGNORE), name);
        for (int i = 1; i < RECORD; i++)
            if (record[i] != record[0])
                fail("a record in pieces", k, record[i], record[0]);
        if (record[0] < 0 || record[0] >= RECORDS * size || seen[record[0]]++)
            fail("a record twice", k, record[0], -1);
    }
    close_file(&file);
}

/* In atomic mode a reader sees a write of another rank whole, without sync. */
static void atomically(const char *name)
{
    MPI_File file = open_file(name, 0);
    int block[BLOCK];
    int rc = MPI_File_set_atomicity(file, 1);
    if (rc == MPI_SUCCESS) {
        for (int b = 0; b < BLOCKS; b++) {
            if (rank == b % size) {
                fill(block, rank, b);
                check(MPI_File_write_at(file, 0, block, BLOCK, MPI_INT, MPI_STATUS_IGNORE), name);
            }
            MPI_Barrier(MPI_COMM_WORLD);
            check(MPI_File_read_at(file, 0, block, BLOCK, MPI_INT, MPI_STATUS_IGNORE), name);
            compare(name, block, b % size, b);
            MPI_Barrier(MPI_COMM_WORLD);
        }
    } else if (rank == 0) {
        printf("atomic mode: refused by this MPI library\n");
    }
    close_file(&file);
}

/* Appended to, cut, and removed when closed. */
static void ends(const char *name)
{
    MPI_File file = open_file(name, MPI_MODE_DELETE_ON_CLOSE);
    MPI_Offset bytes;
    check(MPI_File_preallocate(file, 100000), "preallocate");
    check(MPI_File_set_size(file, 1234567), "set_size");
    check(MPI_File_get_size(file, &bytes), "get_size");
    if (bytes != 1234567)
        fail("set_size", 0, (int)bytes, 1234567);
    close_file(&file);
}

int main(int argc, char **argv)
{
    start(argc, argv);
    at_offsets("independent", 0);
    at_offsets("collective", 1);
    through_views("views");
    by_shared_pointer("shared");
    atomically("atomic");
    ends("gone");
    finish();
    return 0;
}
