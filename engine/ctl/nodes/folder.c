/* The folder of a run's nodes (folder.h): made, removed, and cleared after runs that were killed. */
#include "nodes/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/private_files.h"
#include "base/remove_tree.h"
#include "common/ctl.h"
#include "net/proof/secret.h"
#include "region/lease.h"

#define MARK ".tierbench."
#define SECRET "secret"

/* The configuration may name a folder of its own; else the PFS, which all nodes see. */
static const char *place_of(const struct tb_config *c)
{
    return c->network.folder[0] ? c->network.folder : c->pfs.path;
}

/* -1 where the file system has no locks: then no other run can tell that this one lives, and the folder is kept. */
static int make_lease(const char *path, const struct tb_config *c, int *lease)
{
    struct tb_lease record;
    int fd = tb_private_directory(path);
    if (fd < 0)
        return fd;
    tb_lease_begin(&record);
    snprintf(record.config, sizeof(record.config), "%s", c->file);
    *lease = tb_lease_make(fd, TB_LEASE_FILE, &record);
    close(fd);
    return *lease >= 0 || *lease == -ENOLCK ? 0 : *lease;
}

/* A name that is there already is refused: it may be another run's that goes on. 0700, since the secret is in it. */
int ctl_nodes_folder_make(struct ctl_nodes_folder *folder, const struct tb_config *c, const char *instance)
{
    struct tb_error err = {""};
    char path[PATH_MAX];
    if ((size_t)snprintf(path, sizeof(path), "%s/" MARK "%s", place_of(c), instance) >= sizeof(path))
        return ctl_fail("%s: a name that is too long", place_of(c));
    if (mkdir(path, 0700))
        return ctl_fail("%s: cannot make the nodes' folder: %s", path, strerror(errno));
    memcpy(folder->path, path, sizeof(path));
    folder->lease = -1;
    int rc = make_lease(path, c, &folder->lease);
    if (rc)
        snprintf(err.text, sizeof(err.text), "%.900s: cannot make its lease: %s", path, strerror(-rc));
    else
        rc = tb_net_secret_make(path, &err);
    if (!rc)
        return 0;
    ctl_nodes_folder_remove(folder);
    return ctl_fail("%s", err.text);
}

/* The lease is closed last: until then no other command takes the folder for one that was left. */
void ctl_nodes_folder_remove(struct ctl_nodes_folder *folder)
{
    if (!folder->path[0])
        return;
    tb_remove_tree(folder->path, TB_LEASE_FILE);
    if (folder->lease >= 0)
        close(folder->lease);
    *folder = (struct ctl_nodes_folder){.lease = -1};
}

/* What a run and its daemons make there. */
static bool is_made_by_a_run(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, TB_LEASE_FILE) == 0 || strcmp(name, SECRET) == 0 ||
           strncmp(name, "." SECRET ".", sizeof("." SECRET)) == 0 || strcmp(name, "peers") == 0;
}

/* The first name that no run makes, or "". Takes the descriptor. What cannot be listed may hold one. */
static void find_foreign(int fd, char *out, size_t size)
{
    DIR *d = fdopendir(fd);
    snprintf(out, size, "%s", d ? "" : "a file that cannot be listed");
    for (struct dirent *e; d && !out[0] && (e = readdir(d));)
        if (!is_made_by_a_run(e->d_name))
            snprintf(out, size, "%s", e->d_name);
    if (d)
        closedir(d);
    else if (fd >= 0)
        close(fd);
}

/* It is this process's alone now. Another one may have removed it between the look and the lock: then there is nothing to say. */
static void remove_left(const char *path, int fd, int lease)
{
    char foreign[NAME_MAX + 1];
    if (!tb_file_is_linked(lease))
        return;
    find_foreign(dup(fd), foreign, sizeof(foreign));
    if (foreign[0])
        printf("%s: kept: no run made %s in it\n", path, foreign);
    else if (tb_remove_tree(path, TB_LEASE_FILE))
        ctl_fail("%s: of a run that was killed: cannot be removed", path);
    else
        printf("%s: of a run that was killed: removed\n", path);
}

/* A lease that cannot be taken is held by a living process: the folder is kept, and the holders are named. */
static void clear_with_lease(const char *path, int fd, int lease)
{
    char holders[256];
    int rc = tb_lease_take(lease);
    if (!rc)
        return remove_left(path, fd, lease);
    tb_lease_holders(lease, holders, sizeof(holders));
    printf("%s: kept: %s\n", path, rc == -EBUSY ? holders : strerror(-rc));
}

/* Other folders have such names, too: those of names that wait (region/directories.h) have neither of the two files. */
static void clear_one(const char *path)
{
    int fd = tb_private_directory(path);
    if (fd < 0) /* another user's, or no folder */
        return;
    int lease = tb_private_file(fd, TB_LEASE_FILE, O_RDWR);
    if (lease >= 0)
        clear_with_lease(path, fd, lease);
    else if (faccessat(fd, SECRET, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        printf("%s: kept: it has no lease that tells whether its run lives (%s); remove it when no run uses it\n", path, strerror(-lease));
    if (lease >= 0)
        close(lease);
    close(fd);
}

/* Only names that begin with the mark of such folders; all others are the user's. */
void ctl_nodes_folders_clear(const struct tb_config *c)
{
    char path[PATH_MAX + NAME_MAX + 2];
    DIR *d = c->several_nodes == TB_NODES_SHARED ? opendir(place_of(c)) : NULL;
    for (struct dirent *e; d && (e = readdir(d));) {
        if (strncmp(e->d_name, MARK, strlen(MARK)))
            continue;
        snprintf(path, sizeof(path), "%s/%s", place_of(c), e->d_name);
        clear_one(path);
    }
    if (d)
        closedir(d);
}
