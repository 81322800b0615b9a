/*
 * Bytes of a file of HACC-IO by one of its two interfaces: POSIX seek and write, the original's default, or MPI-IO,
 * each rank for itself, as Hermes' evaluation ran it. The file's first rank makes it and gives it its length.
 */
#include "tb_hacc.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* MPI's own text says more than its number, which differs between libraries. */
static void check_mpi(const struct tb_hacc_file *f, const char *what, int64_t offset, int error)
{
    char text[MPI_MAX_ERROR_STRING];
    int length;
    if (error == MPI_SUCCESS)
        return;
    MPI_Error_string(error, text, &length);
    tb_fail(f->path, what, offset, text);
}

/* By MPI-IO each rank opens the file for itself (MPI_COMM_SELF), so no call of one rank waits for another. */
static void open_as(struct tb_hacc_file *f, int posix, int mpi)
{
    if (f->mpiio) {
        check_mpi(f, "open", -1, MPI_File_open(MPI_COMM_SELF, f->path, mpi, MPI_INFO_NULL, &f->file));
        return;
    }
    f->fd = open(f->path, posix, 0664);
    if (f->fd < 0)
        tb_fail(f->path, "open", -1, strerror(errno));
}

static void set_length(struct tb_hacc_file *f, int64_t bytes)
{
    if (f->mpiio)
        check_mpi(f, "set length", bytes, MPI_File_set_size(f->file, bytes));
    else if (ftruncate(f->fd, bytes))
        tb_fail(f->path, "set length", bytes, strerror(errno));
}

/* The others open what is there already, so they wait for the first. */
void tb_hacc_create(struct tb_hacc_file *f, const struct tb_hacc_part *p)
{
    if (p->rank == 0) {
        open_as(f, O_CREAT | O_WRONLY, MPI_MODE_CREATE | MPI_MODE_WRONLY);
        set_length(f, p->bytes);
        tb_hacc_close(f);
    }
    tb_step_wait(p->comm);
    open_as(f, O_WRONLY, MPI_MODE_WRONLY);
}

void tb_hacc_open(struct tb_hacc_file *f)
{
    open_as(f, O_RDONLY, MPI_MODE_RDONLY);
}

/* A count of MPI is an int; a variable of more bytes goes in pieces, as a write of POSIX does at 2 GiB. */
static int piece(int64_t left)
{
    return left < 1 << 30 ? (int)left : 1 << 30;
}

/* MPI-IO may move less than asked at the end of a device. */
static void all_moved(const struct tb_hacc_file *f, const char *what, int64_t offset, MPI_Status *status, int asked)
{
    int moved;
    MPI_Get_count(status, MPI_BYTE, &moved);
    if (moved != asked)
        tb_fail(f->path, what, offset, "moved less than asked");
}

/*
 * Short writes of POSIX are gone on with in tb_posix_write. MPI-IO has no rest to go on with: what moved less is an error.
 */
void tb_hacc_write(struct tb_hacc_file *f, const void *data, int64_t bytes, int64_t offset)
{
    MPI_Status status;
    if (!f->mpiio) {
        tb_posix_write(&(struct tb_posix_file){.path = f->path, .fd = f->fd}, data, (size_t)bytes, offset);
        return;
    }
    for (int64_t at = 0; at < bytes; at += piece(bytes - at)) {
        const char *from = (const char *)data + at;
        check_mpi(f, "write", offset + at, MPI_File_write_at(f->file, offset + at, from, piece(bytes - at), MPI_BYTE, &status));
        all_moved(f, "write", offset + at, &status, piece(bytes - at));
    }
}

void tb_hacc_read(struct tb_hacc_file *f, void *data, int64_t bytes, int64_t offset)
{
    MPI_Status status;
    if (!f->mpiio) {
        tb_posix_read(&(struct tb_posix_file){.path = f->path, .fd = f->fd}, data, (size_t)bytes, offset);
        return;
    }
    for (int64_t at = 0; at < bytes; at += piece(bytes - at)) {
        char *to = (char *)data + at;
        check_mpi(f, "read", offset + at, MPI_File_read_at(f->file, offset + at, to, piece(bytes - at), MPI_BYTE, &status));
        all_moved(f, "read", offset + at, &status, piece(bytes - at));
    }
}

void tb_hacc_close(struct tb_hacc_file *f)
{
    if (f->mpiio)
        check_mpi(f, "close", -1, MPI_File_close(&f->file));
    else if (close(f->fd))
        tb_fail(f->path, "close", -1, strerror(errno));
}
