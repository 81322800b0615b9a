// The bytes of a file: one write from its start, one read, each checked where asked.
#include "tb_mdtest.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static int open_file(const struct tb_run *r, const char *path, int flags)
{
	int fd = open(path, flags | (r->options->direct ? O_DIRECT : 0), 0664);
	if (fd < 0)
		tb_fail(path, "open", -1, strerror(errno));
	return fd;
}

static void put(const char *path, int fd, const char *data, int64_t bytes)
{
	if (lseek(fd, 0, SEEK_SET) < 0)
		tb_fail(path, "lseek", -1, strerror(errno));
	for (int64_t done = 0; done < bytes;) {
		ssize_t n = write(fd, data + done, (size_t)(bytes - done));
		if (n < 0 && errno != EINTR)
			tb_fail(path, "write", done, strerror(errno));
		done += n > 0 ? n : 0;
	}
}

static void get(const char *path, int fd, char *data, int64_t bytes)
{
	if (lseek(fd, 0, SEEK_SET) < 0)
		tb_fail(path, "lseek", -1, strerror(errno));
	for (int64_t done = 0; done < bytes;) {
		ssize_t n = read(fd, data + done, (size_t)(bytes - done));
		if (n < 0 && errno != EINTR)
			tb_fail(path, "read", done, strerror(errno));
		if (n == 0)
			tb_fail(path, "read", done, "the file ends here");
		done += n > 0 ? n : 0;
	}
}

static void check(struct tb_run *r, const char *path, int64_t bytes, int writer)
{
	int64_t at = tb_first_difference(r->data, (size_t)bytes, r->signature, writer);
	if (at >= 0 && r->wrong++ == 0)
		fprintf(stderr, "%s: %s: wrong data at offset %lld\n", TB_PROGRAM, path, (long long)at);
}

static void fetch_and_check(struct tb_run *r, const char *path, int fd, int64_t bytes, int writer)
{
	tb_spoil(r->data, (size_t)bytes); // what a read that moves nothing must not find there
	get(path, fd, r->data, bytes);
	check(r, path, bytes, writer);
}

static void fill(struct tb_run *r, const char *path, int fd)
{
	const struct tb_options *o = r->options;
	if (o->write_bytes) {
		put(path, fd, r->data, o->write_bytes);
		if (o->sync_file && fsync(fd))
			tb_fail(path, "fsync", -1, strerror(errno));
		if (o->verify_write)
			fetch_and_check(r, path, fd, o->write_bytes, r->rank);
	}
	if (close(fd))
		tb_fail(path, "close", -1, strerror(errno));
}

void tb_file_create(struct tb_run *r, const char *path)
{
	fill(r, path, open_file(r, path, O_RDWR | O_CREAT));
}

void tb_file_write(struct tb_run *r, const char *path)
{
	fill(r, path, open_file(r, path, r->options->verify_write ? O_RDWR : O_WRONLY));
}

void tb_file_read(struct tb_run *r, const char *path, int writer)
{
	const struct tb_options *o = r->options;
	int fd = open_file(r, path, O_RDWR);
	if (o->read_bytes && o->verify_read)
		fetch_and_check(r, path, fd, o->read_bytes, writer);
	else if (o->read_bytes)
		get(path, fd, r->data, o->read_bytes);
	if (close(fd))
		tb_fail(path, "close", -1, strerror(errno));
}
