// Transfers by pread and pwrite. A partial transfer is continued, as IOR does, unless -x forbids it.
#include "tb_ior.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Noreturn void tb_io_failed(const struct tb_file *f, const char *what, int64_t offset, const char *reason)
{
	if (offset < 0)
		fprintf(stderr, "tb-ior: %s: %s: %s\n", f->path, what, reason);
	else
		fprintf(stderr, "tb-ior: %s: %s at offset %lld: %s\n", f->path, what, (long long)offset, reason);
	fflush(stderr);
	MPI_Abort(MPI_COMM_WORLD, TB_EXIT_IO);
	abort();
}

static const char *no_version(void)
{
	return "";
}

static void posix_open(struct tb_file *f, bool create, bool shared)
{
	(void)shared;
	f->fd = open(f->path, create ? O_RDWR | O_CREAT : O_RDONLY, 0664);
	if (f->fd < 0)
		tb_io_failed(f, "open", -1, strerror(errno));
}

// Returns whether another attempt is due.
static bool advance(struct tb_file *f, const char *what, ssize_t n, size_t *done, size_t bytes, int64_t offset)
{
	if (n < 0 && errno == EINTR)
		return true;
	if (n < 0)
		tb_io_failed(f, what, offset + (int64_t)*done, strerror(errno));
	*done += (size_t)n;
	if (n == 0)
		tb_io_failed(f, what, offset + (int64_t)*done, "nothing more was transferred (end of file)");
	if (*done < bytes && f->single_attempt)
		tb_io_failed(f, what, offset, "partial transfer, and -x forbids to continue it");
	return *done < bytes;
}

static void posix_write(struct tb_file *f, const void *data, size_t bytes, int64_t offset)
{
	size_t done = 0;
	ssize_t n;
	do
		n = pwrite(f->fd, (const char *)data + done, bytes - done, offset + (int64_t)done);
	while (advance(f, "write", n, &done, bytes, offset));
}

static void posix_read(struct tb_file *f, void *data, size_t bytes, int64_t offset)
{
	size_t done = 0;
	ssize_t n;
	do
		n = pread(f->fd, (char *)data + done, bytes - done, offset + (int64_t)done);
	while (advance(f, "read", n, &done, bytes, offset));
}

static void posix_sync(struct tb_file *f)
{
	if (fsync(f->fd))
		tb_io_failed(f, "fsync", -1, strerror(errno));
}

static void posix_close(struct tb_file *f)
{
	if (close(f->fd))
		tb_io_failed(f, "close", -1, strerror(errno));
}

const struct tb_backend tb_posix = {"POSIX", no_version, false, posix_open, posix_write, posix_read, posix_sync,
	posix_close};
