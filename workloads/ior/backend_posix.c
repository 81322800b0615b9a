// Transfers by lseek and read or write, the calls that IOR makes. A partial transfer is continued unless -x forbids it.
#include "tb_ior.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

int64_t tb_file_bytes(const struct tb_options *o, const struct tb_world *w)
{
	return o->file_per_process ? o->block * o->segments : tb_aggregate(o, w);
}

static const char *no_version(void)
{
	return "";
}

static void posix_open(struct tb_file *f, bool create, bool shared)
{
	(void)shared;
	int flags = (create ? O_RDWR | O_CREAT : O_RDONLY) | (f->options->direct ? O_DIRECT : 0);
	f->fd = open(f->path, flags, 0664);
	if (f->fd < 0)
		tb_fail(f->path, "open", -1, strerror(errno));
}

// Returns whether another attempt is due.
static bool advance(struct tb_file *f, const char *what, ssize_t n, size_t *done, size_t bytes, int64_t offset)
{
	if (n < 0 && errno == EINTR)
		return true;
	if (n < 0)
		tb_fail(f->path, what, offset + (int64_t)*done, strerror(errno));
	*done += (size_t)n;
	if (n == 0)
		tb_fail(f->path, what, offset + (int64_t)*done, "nothing more was transferred (end of file)");
	if (*done < bytes && f->options->single_attempt)
		tb_fail(f->path, what, offset, "partial transfer, and -x forbids to continue it");
	return *done < bytes;
}

static void go_to(struct tb_file *f, int64_t offset)
{
	if (lseek(f->fd, offset, SEEK_SET) < 0)
		tb_fail(f->path, "lseek", offset, strerror(errno));
}

static void posix_write(struct tb_file *f, const void *data, size_t bytes, int64_t offset)
{
	size_t done = 0;
	ssize_t n;
	go_to(f, offset);
	do
		n = write(f->fd, (const char *)data + done, bytes - done);
	while (advance(f, "write", n, &done, bytes, offset));
}

static void posix_read(struct tb_file *f, void *data, size_t bytes, int64_t offset)
{
	size_t done = 0;
	ssize_t n;
	go_to(f, offset);
	do
		n = read(f->fd, (char *)data + done, bytes - done);
	while (advance(f, "read", n, &done, bytes, offset));
}

static void posix_sync(struct tb_file *f)
{
	if (fsync(f->fd))
		tb_fail(f->path, "fsync", -1, strerror(errno));
}

// IOR 4.0.0 syncs twice after each write; a stand-in that did it once would be twice as fast where a sync costs.
static void posix_sync_transfer(struct tb_file *f)
{
	posix_sync(f);
	posix_sync(f);
}

static void posix_close(struct tb_file *f)
{
	if (close(f->fd))
		tb_fail(f->path, "close", -1, strerror(errno));
}

const struct tb_backend tb_posix = {"POSIX", no_version, false, posix_open, posix_write, posix_read, posix_sync,
	posix_sync_transfer, posix_close};
