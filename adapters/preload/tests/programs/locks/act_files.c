/*
 * Actions on the files: their names, lengths, attributes and bytes, also more bytes than the tiers hold. None of them closes a
 * descriptor by which the program could have locked the file, so no lock may go.
 */
#include "locks.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

static void nothing(void) {}

static void link_it(void)
{
    (void)!link(f, second_name);
}

void link_unlink(void)
{
    link_it();
    unlink(second_name);
}

static void rename_it(void)
{
    (void)!rename(f, second_name);
}

static void rename_back(void)
{
    rename_it();
    (void)!rename(second_name, f);
}

static void rename_over(void)
{
    (void)!rename(other_name, f);
}

static void unlink_it(void)
{
    unlink(f);
}

void truncate_name(void)
{
    (void)!truncate(f, BYTES / 2);
}

void truncate_longer(void)
{
    (void)!truncate(f, 2 * BYTES);
}

static void truncate_fd(void)
{
    (void)!ftruncate(fd, 77);
}

static void chmod_name(void)
{
    chmod(f, 0640);
}

static void chmod_fd(void)
{
    fchmod(fd, 0600);
}

static void chown_name(void)
{
    (void)!chown(f, getuid(), getgid());
}

static void chown_fd(void)
{
    (void)!fchown(fd, getuid(), getgid());
}

static void times_name(void)
{
    utimensat(AT_FDCWD, f, (struct timespec[2]){{1000, 0}, {2000, 0}}, 0);
}

static void times_fd(void)
{
    futimens(fd, (struct timespec[2]){{1000, 0}, {2000, 0}});
}

static void set_xattr(void)
{
    setxattr(f, "user.locks", "x", 1, 0);
}

static void get_xattr(void)
{
    char v[8];
    getxattr(f, "user.locks", v, sizeof(v));
}

void sync_fd(void)
{
    put(fd, 5000, 10);
    fsync(fd);
}

static void sync_data(void)
{
    put(fd, 5000, 10);
    fdatasync(fd);
}

static void sync_all(void)
{
    put(fd, 5000, 10);
    sync();
}

static void sync_range(void)
{
    put(fd, 5000, 10);
    sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WAIT_AFTER);
}

void append_sync(void)
{
    (void)!write(appended, block, 3000);
    fsync(appended);
}

static void append_spill(void)
{
    for (int i = 0; i < 24; i++)
        (void)!write(appended, block, sizeof(block));
}

static void write_more(void)
{
    put(fd, 3 * BYTES, 0);
}

static void write_spill(void)
{
    put(fd, SPILL, 0);
}

static void read_spilled(void)
{
    write_spill();
    for (off_t at = 0; at < SPILL; at += sizeof(block))
        (void)!pread(fd, block, sizeof(block), at);
}

static void other_spill(void)
{
    put(other, SPILL, 0);
    fsync(other);
}

static void other_many_syncs(void)
{
    for (int i = 0; i < 300; i++) {
        put(other, 4096, (i % 50) * 4096);
        fsync(other);
    }
}

static void allocate(void)
{
    posix_fallocate(fd, 0, 2 * BYTES);
}

static void punch(void)
{
    fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 8192);
}

static void seek_data(void)
{
    lseek(fd, 0, SEEK_DATA);
    lseek(fd, 0, SEEK_END);
}

static void stat_it(void)
{
    struct stat st;
    stat(f, &st);
    lstat(f, &st);
    fstat(fd, &st);
    access(f, R_OK);
}

static void open_other(void)
{
    int at = open(other_name, O_RDWR);
    put(at, 10, 0);
    close(at);
}

static void make_other(void)
{
    int at = open(second_name, O_RDWR | O_CREAT, 0644);
    put(at, 10, 0);
    close(at);
    unlink(second_name);
}

static void open_fails(void)
{
    (void)!open(f, O_RDWR | O_CREAT | O_EXCL, 0644);
    (void)!open(f, O_RDONLY | O_DIRECTORY);
}

static void open_path(void)
{
    close(open(f, O_PATH));
}

static void copy_out(void)
{
    off_t at = 0;
    sendfile(other, fd, &at, 5000);
}

static void copy_in(void)
{
    off_t from = 0, to = 0;
    (void)!copy_file_range(other, &from, fd, &to, 5000, 0);
}

static void read_it(void)
{
    (void)!pread(fd, block, 5000, 0);
    (void)!pread(fd, block, BYTES, 0);
}

static void advise(void)
{
    posix_fadvise(fd, 0, 0, POSIX_FADV_WILLNEED);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
}

static void read_name(void)
{
    char p[4096];
    free(realpath(f, NULL));
    (void)!readlink(f, p, sizeof(p));
}

void map_it(void)
{
    char *m = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    m[5] = 'm';
    munmap(m, BYTES);
}

static void stream_other(void)
{
    FILE *s = fopen(other_name, "r+");
    fputs("text", s);
    fclose(s);
}

const struct action file_actions[] = {
    ACTION(nothing),     ACTION(link_it),      ACTION(link_unlink),   ACTION(rename_it),        ACTION(rename_back),
    ACTION(rename_over), ACTION(unlink_it),    ACTION(truncate_name), ACTION(truncate_longer),  ACTION(truncate_fd),
    ACTION(chmod_name),  ACTION(chmod_fd),     ACTION(chown_name),    ACTION(chown_fd),         ACTION(times_name),
    ACTION(times_fd),    ACTION(set_xattr),    ACTION(get_xattr),     ACTION(sync_fd),          ACTION(sync_data),
    ACTION(sync_all),    ACTION(sync_range),   ACTION(append_sync),   ACTION(append_spill),     ACTION(write_more),
    ACTION(write_spill), ACTION(read_spilled), ACTION(other_spill),   ACTION(other_many_syncs), ACTION(allocate),
    ACTION(punch),       ACTION(seek_data),    ACTION(stat_it),       ACTION(open_other),       ACTION(make_other),
    ACTION(open_fails),  ACTION(open_path),    ACTION(copy_out),      ACTION(copy_in),          ACTION(read_it),
    ACTION(advise),      ACTION(read_name),    ACTION(stream_other),  ACTION(map_it),           {NULL, NULL},
};
