/*
 * The file of the secret (secret.h). It comes to its name whole, and is checked by descriptor: no link is followed, and what was
 * looked at is what is read, also where the name leads to another file by then.
 */
#include "net/proof/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/private_files.h"

#define NAME "secret"

static int refuse(const char *folder, const char *why, int rc, struct tb_error *err)
{
    snprintf(err->text, sizeof(err->text), "%.700s/" NAME ": %s", folder, why);
    return rc;
}

/* A user that can change names in the folder could put another secret there, with the right owner and mode in its file. */
static int open_folder(const char *folder, struct tb_error *err)
{
    int fd = tb_private_directory(folder);
    if (fd == -EPERM)
        return refuse(folder, "other users can change names in its folder: it must be this user's alone", fd, err);
    return fd < 0 ? refuse(folder, strerror(-fd), fd, err) : fd;
}

/* On the disk before it has its name: after a crash there is the old secret, the new one, or none, never a part of one. */
static int write_whole(int folder, const char *name, const uint8_t *secret)
{
    unlinkat(folder, name, 0);
    int fd = tb_private_file(folder, name, O_WRONLY | O_CREAT | O_EXCL);
    if (fd < 0)
        return fd;
    ssize_t n = write(fd, secret, TB_NET_SECRET_BYTES);
    int rc = n == TB_NET_SECRET_BYTES ? 0 : n < 0 ? -errno : -EIO;
    if (!rc && (fchmod(fd, 0600) || fsync(fd)))
        rc = -errno;
    close(fd);
    return rc;
}

/* If killed before the rename, a file .secret.PID stays in the folder, of mode 0600, which is never read. */
int tb_net_secret_make(const char *folder, struct tb_error *err)
{
    uint8_t secret[TB_NET_SECRET_BYTES];
    char name[32];
    int fd = open_folder(folder, err);
    if (fd < 0)
        return fd;
    if (sodium_init() < 0)
        return close(fd), refuse(folder, "the system gives no random bytes", -EIO, err);
    snprintf(name, sizeof(name), "." NAME ".%d", (int)getpid());
    randombytes_buf(secret, sizeof(secret));
    int rc = write_whole(fd, name, secret);
    if (!rc && renameat(fd, name, fd, NAME))
        rc = -errno;
    sodium_memzero(secret, sizeof(secret));
    close(fd);
    return rc ? refuse(folder, strerror(-rc), rc, err) : 0;
}

/* Why the open file is no secret; NULL: it is one. Exactly 0600: with a wider mode others may have read it already. */
static const char *fault_of(int fd)
{
    struct stat st;
    if (fstat(fd, &st))
        return strerror(errno);
    if ((st.st_mode & 07777) != 0600)
        return "its mode must be 0600";
    return st.st_size == TB_NET_SECRET_BYTES ? NULL : "it must be 32 bytes long";
}

/* Two errors mean something else here than their text says. */
static const char *why_not_open(int rc)
{
    return rc == -ELOOP ? "a symbolic link is not followed" : rc == -EPERM ? "it must be a regular file of this user" : strerror(-rc);
}

/*
 * Owner and kind were checked when the file was opened (base/private_files), mode and size are checked here, on the same
 * descriptor.
 */
int tb_net_secret_read(const char *folder, uint8_t secret[TB_NET_SECRET_BYTES], struct tb_error *err)
{
    int directory = open_folder(folder, err);
    if (directory < 0)
        return directory;
    int fd = tb_private_file(directory, NAME, O_RDONLY);
    close(directory);
    if (fd < 0)
        return refuse(folder, why_not_open(fd), fd, err);
    const char *fault = fault_of(fd);
    ssize_t n = fault ? 0 : read(fd, secret, TB_NET_SECRET_BYTES);
    close(fd);
    if (fault)
        return refuse(folder, fault, -EPERM, err);
    return n == TB_NET_SECRET_BYTES ? 0 : refuse(folder, "it cannot be read whole", -EIO, err);
}
