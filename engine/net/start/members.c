/*
 * Records of nodes, and the folder that holds them (members.h): one file a node. A record comes to its name whole, by a rename
 * or a link, so a reader never sees a part of one. What it says is a hint; the node there must still prove the secret.
 */
#include "net/start/members.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/private_files.h"

#define FOLDER "peers"

/* For messages only; nothing is decided by it, so a system without it is served as well. */
static void read_boot(char *out, size_t size)
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, out, size - 1) : 0;
    out[n > 0 ? n : 0] = 0;
    out[strcspn(out, "\n")] = 0;
    if (!out[0])
        snprintf(out, size, "unknown");
    if (fd >= 0)
        close(fd);
}

void tb_record_begin(const char *node, struct tb_record *r)
{
    *r = (struct tb_record){.boot = ""};
    snprintf(r->node, sizeof(r->node), "%s", node);
    read_boot(r->boot, sizeof(r->boot));
    randombytes_buf(r->start, sizeof(r->start));
}

/* As text, one field a line, so that a user can read what is in the folder. The proof is over all lines before it. */
void tb_record_put(const struct tb_proof_key *key, const struct tb_record *r, char text[TB_RECORD_MAX])
{
    char start[2 * TB_NET_START_BYTES + 1], hex[2 * TB_NET_PROOF_BYTES + 1];
    uint8_t proof[TB_NET_PROOF_BYTES];
    sodium_bin2hex(start, sizeof(start), r->start, sizeof(r->start));
    int n = snprintf(text, TB_RECORD_MAX, "instance %.255s\nnode %s\nboot %s\nstart %s\naddress %s %s\n", key->instance, r->node, r->boot,
                     start, r->address.host, r->address.port);
    tb_proof_of_text(key, "record", text, proof);
    sodium_bin2hex(hex, sizeof(hex), proof, sizeof(proof));
    snprintf(text + n, TB_RECORD_MAX - (size_t)n, "proof %s\n", hex);
}

/* What the fields give must be the text itself, with its proof: so nothing is believed that was not put. */
int tb_record_get(const struct tb_proof_key *key, const char *text, struct tb_record *r)
{
    char start[2 * TB_NET_START_BYTES + 1] = "", again[TB_RECORD_MAX];
    size_t n;
    *r = (struct tb_record){.boot = ""};
    const char *fields = strchr(text, '\n'); /* a name of an instance may have spaces */
    if (!fields ||
        sscanf(fields, " node %64s boot %39s start %32s address %63s %7s", r->node, r->boot, start, r->address.host, r->address.port) != 5)
        return -EPROTO;
    if (sodium_hex2bin(r->start, sizeof(r->start), start, strlen(start), NULL, &n, NULL) || n != sizeof(r->start))
        return -EPROTO;
    tb_record_put(key, r, again);
    return strcmp(again, text) == 0 && tb_net_name_is_valid(r->node) ? 0 : -EPROTO;
}

/*
 * Every node makes the folder, and the first one wins. No link is followed: the folder has been checked, but not what
 * another process of this user put into it.
 */
int tb_members_open(const char *folder, struct tb_error *err)
{
    int fd = tb_private_directory(folder), rc = fd < 0 ? fd : 0, peers = -1;
    if (!rc && mkdirat(fd, FOLDER, 0700) && errno != EEXIST)
        rc = -errno;
    if (!rc && (peers = openat(fd, FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0)
        rc = -errno;
    if (fd >= 0)
        close(fd);
    if (rc)
        snprintf(err->text, sizeof(err->text), "%.700s/" FOLDER ": %s", folder, strerror(-rc));
    return rc ? rc : peers;
}

/* The name in the record must be that of its file: a copy under another name would send callers to the wrong node. */
int tb_members_read(int peers, const struct tb_proof_key *key, const char *node, struct tb_record *r)
{
    char text[TB_RECORD_MAX];
    int fd = tb_private_file(peers, node, O_RDONLY);
    if (fd < 0)
        return fd;
    ssize_t n = read(fd, text, sizeof(text) - 1);
    int rc = n < 0 ? -errno : 0;
    close(fd);
    if (rc)
        return rc;
    text[n] = 0;
    rc = tb_record_get(key, text, r);
    return rc ? rc : strcmp(r->node, node) == 0 ? 0 : -EPROTO;
}

/*
 * A name that starts with a dot is no node's (frame.c), so no node reads the record before it is whole. If killed here, the
 * file stays, and no node reads it.
 */
static int write_text(int peers, const char *name, const char *text)
{
    unlinkat(peers, name, 0);
    int fd = tb_private_file(peers, name, O_WRONLY | O_CREAT | O_EXCL);
    if (fd < 0)
        return fd;
    ssize_t n = write(fd, text, strlen(text));
    int rc = n == (ssize_t)strlen(text) ? 0 : n < 0 ? -errno : -EIO;
    if (!rc && fsync(fd))
        rc = -errno;
    close(fd);
    return rc;
}

/* A link fails where the name is taken, on every file system; a rename does not. */
int tb_members_write(int peers, const struct tb_proof_key *key, const struct tb_record *own, bool replace)
{
    char text[TB_RECORD_MAX], start[2 * TB_NET_START_BYTES + 1], name[64];
    sodium_bin2hex(start, sizeof(start), own->start, sizeof(own->start));
    snprintf(name, sizeof(name), ".%s", start);
    tb_record_put(key, own, text);
    int rc = write_text(peers, name, text);
    if (!rc && (replace ? renameat(peers, name, peers, own->node) : linkat(peers, name, peers, own->node, 0)))
        rc = -errno;
    unlinkat(peers, name, 0);
    return rc;
}

/* Another process may have taken the name since then: its record stays. */
void tb_members_remove(int peers, const struct tb_proof_key *key, const struct tb_record *own)
{
    struct tb_record now;
    if (tb_members_read(peers, key, own->node, &now) == 0 && memcmp(now.start, own->start, sizeof(now.start)) == 0)
        unlinkat(peers, own->node, 0);
}

/* Opened again for each look: on NFS an open asks the server, and an old descriptor may not. */
int tb_members_list(int peers, const struct tb_proof_key *key, tb_members_seen *seen, void *arg)
{
    struct tb_record r;
    int fd = openat(peers, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *all = fd >= 0 ? fdopendir(fd) : NULL;
    if (!all) {
        int rc = -errno;
        if (fd >= 0)
            close(fd);
        return rc;
    }
    for (struct dirent *e; (e = readdir(all));)
        if (tb_net_name_is_valid(e->d_name)) {
            int rc = tb_members_read(peers, key, e->d_name, &r);
            if (rc != -ENOENT)
                seen(arg, e->d_name, rc ? NULL : &r);
        }
    closedir(all);
    return 0;
}
