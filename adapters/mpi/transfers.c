/*
 * Reads and writes, told to a trace; the calls go on as they are.  MPI has them
 * in three ways of saying where (an explicit offset, this rank's pointer, the
 * shared one) and four of saying when (independent, collective, split,
 * nonblocking), which the tables at the end name.
 */
#include "wrap.h"

enum where { EXPLICIT, OWN, SHARED };

/* One call that has begun; `file` is NULL if no consumer is told. */
struct call {
    const struct tb_mpi_file *file;
    struct tb_mpi_event event;
};

/* The byte of the file at which it begins. Where the shared pointer will be is not known before the call. */
static int64_t first_byte(MPI_File handle, enum where where, MPI_Offset at)
{
    MPI_Offset byte = TB_MPI_NO_OFFSET;
    if (where == SHARED || (where == OWN && NEXT(PMPI_File_get_position)(handle, &at)))
        return TB_MPI_NO_OFFSET;
    return NEXT(PMPI_File_get_byte_offset)(handle, at, &byte) ? TB_MPI_NO_OFFSET : byte;
}

/*
 * Without a consumer nothing is looked up, so a program that is not traced pays one load.
 * Where a pointer is used, its place must be asked for before the call moves it.
 */
static struct call begin(MPI_File handle, enum tb_mpi_operation operation, enum tb_mpi_way way, enum where where, MPI_Offset at, int count,
                         MPI_Datatype type)
{
    struct call c = {.event = {.operation = operation, .way = way}};
    int size = 0;
    if (!tb_mpi_traces() || !tb_mpi_enter())
        return c;
    c.file = tb_mpi_file_of(handle);
    if (!c.file) {
        tb_mpi_leave();
        return c;
    }
    NEXT(PMPI_Type_size)(type, &size);
    c.event.bytes = count > 0 && size > 0 ? (uint64_t)count * (uint64_t)size : 0;
    c.event.offset = first_byte(handle, where, at);
    c.event.start = tb_mpi_now();
    return c;
}

/*
 * The end of a nonblocking call is that of its start: when its bytes are moved MPI tells the
 * program alone.
 */
static int end(struct call *c, int rc)
{
    if (!c->file)
        return rc;
    c->event.end = tb_mpi_now();
    c->event.error = rc;
    tb_mpi_tell(c->file, &c->event);
    tb_mpi_leave();
    return rc;
}

#define NAMED(name, operation, way, where, at, declared, given)                \
    static int own_##name(__typeof__(&MPI_##name) next, TB_LIST declared)      \
    {                                                                          \
        struct call c = begin(handle, operation, way, where, at, count, type); \
        return end(&c, next given);                                            \
    }                                                                          \
    TB_WRAP(name, own_##name, declared, given)

/* The last word is the type of the buffer: MPI reads into `void *` and writes from `const void *`. */
#define AT(name, operation, way, bytes)                                                                     \
    NAMED(name, operation, way, EXPLICIT, at,                                                               \
          (MPI_File handle, MPI_Offset at, bytes buffer, int count, MPI_Datatype type, MPI_Status *status), \
          (handle, at, buffer, count, type, status))
#define HERE(name, operation, way, where, bytes)                                                                             \
    NAMED(name, operation, way, where, 0, (MPI_File handle, bytes buffer, int count, MPI_Datatype type, MPI_Status *status), \
          (handle, buffer, count, type, status))
#define START_AT(name, operation, bytes)                                                                      \
    NAMED(name, operation, TB_MPI_NONBLOCKING, EXPLICIT, at,                                                  \
          (MPI_File handle, MPI_Offset at, bytes buffer, int count, MPI_Datatype type, MPI_Request *request), \
          (handle, at, buffer, count, type, request))
#define START(name, operation, where, bytes)             \
    NAMED(name, operation, TB_MPI_NONBLOCKING, where, 0, \
          (MPI_File handle, bytes buffer, int count, MPI_Datatype type, MPI_Request *request), (handle, buffer, count, type, request))
/* Of a pair only the first call is told: it has the place and the bytes. */
#define SPLIT_AT(name, operation, bytes)                                                                                             \
    NAMED(name, operation, TB_MPI_SPLIT, EXPLICIT, at, (MPI_File handle, MPI_Offset at, bytes buffer, int count, MPI_Datatype type), \
          (handle, at, buffer, count, type))
#define SPLIT(name, operation, where, bytes)                                                                      \
    NAMED(name, operation, TB_MPI_SPLIT, where, 0, (MPI_File handle, bytes buffer, int count, MPI_Datatype type), \
          (handle, buffer, count, type))

AT(File_read_at, TB_MPI_READ, TB_MPI_INDEPENDENT, void *)
AT(File_read_at_all, TB_MPI_READ, TB_MPI_COLLECTIVE, void *)
HERE(File_read, TB_MPI_READ, TB_MPI_INDEPENDENT, OWN, void *)
HERE(File_read_all, TB_MPI_READ, TB_MPI_COLLECTIVE, OWN, void *)
HERE(File_read_shared, TB_MPI_READ, TB_MPI_INDEPENDENT, SHARED, void *)
HERE(File_read_ordered, TB_MPI_READ, TB_MPI_COLLECTIVE, SHARED, void *)
START_AT(File_iread_at, TB_MPI_READ, void *)
START_AT(File_iread_at_all, TB_MPI_READ, void *)
START(File_iread, TB_MPI_READ, OWN, void *)
START(File_iread_all, TB_MPI_READ, OWN, void *)
START(File_iread_shared, TB_MPI_READ, SHARED, void *)
SPLIT_AT(File_read_at_all_begin, TB_MPI_READ, void *)
SPLIT(File_read_all_begin, TB_MPI_READ, OWN, void *)
SPLIT(File_read_ordered_begin, TB_MPI_READ, SHARED, void *)

AT(File_write_at, TB_MPI_WRITE, TB_MPI_INDEPENDENT, const void *)
AT(File_write_at_all, TB_MPI_WRITE, TB_MPI_COLLECTIVE, const void *)
HERE(File_write, TB_MPI_WRITE, TB_MPI_INDEPENDENT, OWN, const void *)
HERE(File_write_all, TB_MPI_WRITE, TB_MPI_COLLECTIVE, OWN, const void *)
HERE(File_write_shared, TB_MPI_WRITE, TB_MPI_INDEPENDENT, SHARED, const void *)
HERE(File_write_ordered, TB_MPI_WRITE, TB_MPI_COLLECTIVE, SHARED, const void *)
START_AT(File_iwrite_at, TB_MPI_WRITE, const void *)
START_AT(File_iwrite_at_all, TB_MPI_WRITE, const void *)
START(File_iwrite, TB_MPI_WRITE, OWN, const void *)
START(File_iwrite_all, TB_MPI_WRITE, OWN, const void *)
START(File_iwrite_shared, TB_MPI_WRITE, SHARED, const void *)
SPLIT_AT(File_write_at_all_begin, TB_MPI_WRITE, const void *)
SPLIT(File_write_all_begin, TB_MPI_WRITE, OWN, const void *)
SPLIT(File_write_ordered_begin, TB_MPI_WRITE, SHARED, const void *)
