// Transfers by MPI-IO at explicit offsets, collective with -c. A shared file is opened by all ranks together.
#include "tb_ior.h"

static void check(const struct tb_file *f, const char *what, int64_t offset, int code)
{
	char reason[MPI_MAX_ERROR_STRING];
	int length;
	if (code == MPI_SUCCESS)
		return;
	MPI_Error_string(code, reason, &length);
	tb_io_failed(f, what, offset, reason);
}

static const char *mpi_version(void)
{
	static char text[32];
	int major, minor;
	MPI_Get_version(&major, &minor);
	snprintf(text, sizeof text, "(%d.%d)", major, minor);
	return text;
}

static void mpiio_open(struct tb_file *f, bool create, bool shared)
{
	int mode = create ? MPI_MODE_RDWR | MPI_MODE_CREATE : MPI_MODE_RDONLY;
	if (!shared)
		mode |= MPI_MODE_UNIQUE_OPEN;
	check(f, "open", -1,
		MPI_File_open(shared ? MPI_COMM_WORLD : MPI_COMM_SELF, f->path, mode, MPI_INFO_NULL, &f->handle));
}

// MPI-IO may report success for less than was asked; a full file system looks like that.
static void check_count(const struct tb_file *f, const char *what, int64_t offset, const MPI_Status *status,
	size_t bytes)
{
	int count;
	MPI_Get_count(status, MPI_BYTE, &count);
	if (count < 0 || (size_t)count != bytes)
		tb_io_failed(f, what, offset, "incomplete transfer (end of file, or no space left)");
}

static void mpiio_write(struct tb_file *f, const void *data, size_t bytes, int64_t offset)
{
	MPI_Status status;
	int code = f->collective ? MPI_File_write_at_all(f->handle, offset, data, (int)bytes, MPI_BYTE, &status)
				 : MPI_File_write_at(f->handle, offset, data, (int)bytes, MPI_BYTE, &status);
	check(f, "write", offset, code);
	check_count(f, "write", offset, &status, bytes);
}

static void mpiio_read(struct tb_file *f, void *data, size_t bytes, int64_t offset)
{
	MPI_Status status;
	int code = f->collective ? MPI_File_read_at_all(f->handle, offset, data, (int)bytes, MPI_BYTE, &status)
				 : MPI_File_read_at(f->handle, offset, data, (int)bytes, MPI_BYTE, &status);
	check(f, "read", offset, code);
	check_count(f, "read", offset, &status, bytes);
}

static void mpiio_sync(struct tb_file *f)
{
	check(f, "sync", -1, MPI_File_sync(f->handle));
}

static void mpiio_close(struct tb_file *f)
{
	check(f, "close", -1, MPI_File_close(&f->handle));
}

const struct tb_backend tb_mpiio = {"MPIIO", mpi_version, true, mpiio_open, mpiio_write, mpiio_read, mpiio_sync,
	mpiio_close};
