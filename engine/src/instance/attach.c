/*
 * How a process comes to use an instance: it maps the region, takes the lease, opens
 * the tiers' files, applies its environment and gets a slot among the clients.  The
 * lease comes before anything in the region is used, and is checked after it was
 * taken: an instance that was recovered in between is no more.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/private_files.h"
#include "base/valid.h"
#include "file/name_tree.h"
#include "instance/client.h"
#include "instance/instance.h"
#include "instance/make.h"
#include "io/whole.h"
#include "layer/descriptions.h"
#include "layer/repair.h"
#include "namespace/environment.h"
#include "region/clients.h"
#include "region/handle.h"
#include "region/lease.h"

/* Repair may free slots of dead clients, and needs a slot itself: take one of those kept for tools for a moment. */
static int register_after_repair(tb_engine *e)
{
    int rc = tb_client_register(e, true);
    if (rc)
        return rc;
    uint32_t taken = e->slot;
    tb_repair(e);
    rc = tb_client_register(e, false);
    assert(rc || e->slot != taken);
    tb_names_forget_client(e, taken);
    e->region.clients[taken].pid = 0;
    return rc;
}

/*
 * After exec, the slot of the old program is dead: repair it now, except for descriptors
 * that the new program inherited.
 */
static void repair_former(tb_engine *e)
{
    const struct tb_client *c = e->region.clients;
    for (uint32_t i = 0; i < e->region.n_clients; i++)
        if (c[i].pid == c[e->slot].pid && c[i].image && c[i].image != c[e->slot].image) {
            tb_repair(e);
            return;
        }
}

static _Thread_local struct tb_error refusal;

/*
 * Lock the region file too. If the tier's directory was removed together with the lease,
 * this lock still says which processes use the instance. `region` is closed, or kept as
 * the lock.
 */
static int use_region(tb_engine *e, int region)
{
    e->region_file = tb_client_own_fd(region);
    int rc = tb_lease_share(e->region_file);
    if (rc == -EBUSY)
        tb_lease_holders(e->region_file, refusal.text, sizeof(refusal.text));
    return rc ? rc : tb_file_is_linked(e->region_file) ? 0 : -ENOENT;
}

/* For the process that holds the lease alone. If the region file itself is the lease, it is locked already. */
static int use_region_alone(tb_engine *e, int region)
{
    char path[TB_PATH_MAX + 256];
    const char *file;
    if (tb_lease_place(&e->header->config, e->header->host, e->header->name, path, sizeof(path), &file))
        return use_region(e, region);
    close(region);
    return 0;
}

/*
 * Take the lease before anything in the region is used. `region` is its descriptor: it is
 * closed, or becomes the lease. -ENOENT: the instance ended; its region goes before its
 * lease. -ENODEV: the lease is gone alone, or belongs to another one.
 */
static int use_lease(tb_engine *e, int region)
{
    struct tb_header *h = e->header;
    struct tb_lease lease = {.state = TB_LEASE_LIVING, .id = h->id};
    int fd = tb_lease_open(&h->config, h->host, h->name, region);
    if (fd < 0)
        return fd != -ENOENT ? fd : tb_file_is_linked(e->region_file) ? -ENODEV : -ENOENT;
    e->lease = tb_client_own_fd(fd);
    int rc = tb_lease_share(e->lease);
    if (rc == -EBUSY)
        tb_lease_holders(e->lease, refusal.text, sizeof(refusal.text));
    if (!rc && fd != region)
        rc = tb_lease_read(e->lease, &lease);
    if (!rc && lease.id != h->id)
        rc = -ENODEV;
    return rc ? rc : lease.state == TB_LEASE_VOID || !tb_file_is_linked(e->lease) ? -ENOENT : 0;
}

/*
 * In another PID namespace process numbers and owners of locks mean nothing; in another time
 * namespace processes that live seem to have ended. Without /proc it cannot be seen which live.
 */
static int check_namespace(const struct tb_header *h)
{
    return h->pid_namespace == tb_pid_namespace() ? 0 : -EXDEV;
}

/* The caller holds the lease alone, so all other clients are dead, even if other processes have their numbers now. */
static void bury_all(tb_engine *e)
{
    assert(e->lease >= 0 && e->slot == TB_NONE);
    for (uint32_t i = 0; i < e->region.n_clients; i++) {
        e->region.clients[i].awaited_ns = 0;
        e->region.clients[i].start_time = TB_CLIENT_BURIED;
    }
}

/* A file that is missing was removed by another program (one that clears old files), or by the end of the instance, which takes the region first. */
static int open_places(tb_engine *e)
{
    int rc = tb_client_open_places(e);
    return rc == -ENOENT && e->region_file >= 0 && tb_file_is_linked(e->region_file) ? -ENODEV : rc;
}

/* LOOKS takes no slot, so it never has to wait for one. */
enum role { PROGRAM, TOOL, LOOKS };

/* A full table is tried once more after repair. */
static int take_part(tb_engine *e, enum role role)
{
    int rc = role == LOOKS ? 0 : tb_client_register(e, role == TOOL);
    return rc == -EUSERS ? register_after_repair(e) : rc;
}

/* `lease`: held alone, or -1. Registers a client. -EUSERS: no slot is free, not even after repair. */
static int attach(tb_engine *e, const char *name, int lease, enum role role)
{
    int region, rc = tb_region_attach(name, &e->region, &region);
    if (rc)
        return rc;
    e->header = e->region.header;
    e->copy = tb_copy_by(&e->header->copy);
    e->lease = lease;
    tb_io_ask_limit();
    e->knows_children = access("/proc/self/ns/pid_for_children", F_OK) == 0;
    if (lease >= 0)
        bury_all(e);
    else
        rc = check_namespace(e->header);
    if (rc)
        close(region);
    else
        rc = lease >= 0 ? use_region_alone(e, region) : use_region(e, region);
    if (!rc && lease < 0)
        rc = use_lease(e, dup(e->region_file));
    if (!rc)
        rc = open_places(e);
    if (!rc && role == PROGRAM)
        rc = tb_environment_apply(e, &refusal);
    if (lease >= 0)
        e->shared_device = 0; /* no daemon speaks with the others: what is here goes to the PFS as it is */
    rc = rc ? rc : take_part(e, role);
    assert(rc || (tb_client_is_valid(e) && (role == LOOKS) == (e->slot == TB_NONE)));
    TB_ASSERT_WHOLE(rc || tb_client_is_whole(e));
    return rc;
}

#define NAMED "tierbench."

/* What comes after "tierbench.NUMBER."; NULL: it is called otherwise. */
static const char *after_number(const char *entry)
{
    if (strncmp(entry, NAMED, strlen(NAMED)) != 0)
        return NULL;
    const char *number = entry + strlen(NAMED);
    size_t n = strspn(number, "0123456789");
    return n && number[n] == '.' ? number + n + 1 : NULL;
}

/* "NAME", and what is set apart: "NAME~DIGITS" (region/region_file.c). One with this user's number has just been looked for. */
static bool is_region(const char *entry, const char *name)
{
    const char *rest = after_number(entry);
    size_t n = strlen(name);
    bool named = rest && strncmp(rest, name, n) == 0 && (!rest[n] || rest[n] == '~');
    return named && strtoul(entry + strlen(NAMED), NULL, 10) != getuid();
}

/* "HOST.NAME". Both may have dots: after this host's name comes the whole name. */
static bool is_directory(const char *entry, const char *name)
{
    char host[64] = "";
    gethostname(host, sizeof(host) - 1);
    const char *rest = after_number(entry);
    size_t length = rest ? strlen(rest) : 0, n = strlen(name), h = strlen(host);
    if (length > h && strncmp(rest, host, h) == 0 && rest[h] == '.')
        return strcmp(rest + h + 1, name) == 0;
    return length > n && rest[length - n - 1] == '.' && strcmp(rest + length - n, name) == 0;
}

static bool is_ours(DIR *place, const char *entry)
{
    struct stat st;
    return fstatat(dirfd(place), entry, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_uid == getuid();
}

static bool has_region_elsewhere(const char *name)
{
    DIR *shm = opendir("/dev/shm");
    bool found = false;
    for (struct dirent *d; shm && !found && (d = readdir(shm));)
        found = is_region(d->d_name, name) && is_ours(shm, d->d_name);
    if (shm)
        closedir(shm);
    return found;
}

/* Of a tier that nodes share, other nodes' are no business of this one. */
static bool lives_on_this_node(const char *directory, const char *file)
{
    struct tb_lease here, lease;
    int place = tb_private_directory(directory);
    int fd = place < 0 ? -1 : tb_private_file(place, file, O_RDONLY);
    tb_lease_begin(&here);
    bool lives = fd >= 0 && tb_lease_read(fd, &lease) == 0 && lease.state == TB_LEASE_LIVING && strcmp(lease.boot, here.boot) == 0;
    if (fd >= 0)
        close(fd);
    if (place >= 0)
        close(place);
    return lives;
}

/*
 * Beside the directory that would have the lease of an instance of ours. Not with several nodes: a program on one that has no
 * instance sees the PFS, and a node is a host name.
 */
static bool has_lease_elsewhere(const struct tb_config *c, const char *name)
{
    char path[TB_PATH_MAX + 256], beside[TB_PATH_MAX + 512];
    const char *file;
    if (c->several_nodes || !tb_lease_place(c, "", name, path, sizeof(path), &file))
        return false;
    char *last = strrchr(path, '/');
    size_t dot = last[1] == '.';
    *last = 0;
    DIR *place = opendir(path);
    bool found = false;
    for (struct dirent *d; place && !found && (d = readdir(place));)
        if ((!dot || d->d_name[0] == '.') && is_directory(d->d_name + dot, name)) {
            snprintf(beside, sizeof(beside), "%s/%s", path, d->d_name);
            found = lives_on_this_node(beside, file);
        }
    if (place)
        closedir(place);
    return found;
}

/* One that has ended is on the PFS, also while it is removed, and while processes that outlived it hold its lease. */
static int ask_lease(const struct tb_config *c, const char *name)
{
    int rc = tb_instance_is_used(c, name);
    if (rc == 1)
        return tb_instance_is_over(c, name) ? -ENOENT : -EREMOTE;
    return rc == 0 ? -EOWNERDEAD : has_lease_elsewhere(c, name) ? -EREMCHG : -ENOENT;
}

/*
 * No region has that name here. If the environment names the configuration, the lease says
 * more: the instance is in another mount namespace, or a crash left it. User number and host
 * name are parts of names, and another user or UTS namespace has others: so what is called so
 * but for them, and is this user's in the kernel's eyes, is looked for too. In all these
 * cases the PFS has old bytes, and the program must not start.
 */
static int look_elsewhere(const char *name)
{
    const char *file = getenv("TIERBENCH_CONFIG");
    struct tb_config *c = file && *file ? malloc(sizeof(*c)) : NULL;
    struct tb_error err;
    int rc = c && tb_config_read(file, c, &err) == 0 ? ask_lease(c, name) : -ENOENT;
    free(c);
    return rc == -ENOENT && has_region_elsewhere(name) ? -EREMCHG : rc;
}

/* Every error becomes one sentence for the user; tb_engine_refusal returns it. */
static void explain(int rc)
{
    char by[300];
    const char *why = NULL;
    switch (rc) {
    case -EINVAL: return; /* namespace/environment.c said why */
    case -ENOENT: why = "no such instance runs"; break;
    case -EPROTO: why = "another version made it"; break;
    case -EPERM: why = "it is another user's"; break;
    case -EUSERS: why = "as many clients are attached as max_clients allows"; break;
    case -ESTALE: why = "it is half made or damaged (tierctl gc removes what a killed start left)"; break;
    case -ENODEV: why = "its tiers' directories are gone or another instance's, or lack files"; break;
    case -EXDEV: why = "it runs in another PID namespace or time namespace, or there is no /proc here"; break;
    case -EREMCHG: why = "it runs in another user or UTS namespace: its user number or host name is another one here"; break;
    case -EREMOTE: why = "its region is in another mount namespace, or its name in /dev/shm was removed"; break;
    case -EINPROGRESS: why = "it is being drained, to be ended"; break;
    case -EOWNERDEAD: why = "it was not recovered after a crash: tierctl recover"; break;
    }
    snprintf(by, sizeof(by), "%.280s", refusal.text);
    if (rc == -EBUSY)
        snprintf(refusal.text, sizeof(refusal.text), "it is being recovered by %s", by);
    else
        snprintf(refusal.text, sizeof(refusal.text), "%s", why ? why : strerror(-rc));
}

static int attach_new(const char *name, int lease, struct tb_io *base, enum role role, tb_engine **out)
{
    tb_engine *e = tb_client_new(base);
    int rc = e ? attach(e, name, lease, role) : -ENOMEM;
    if (rc == -ENOENT && role == PROGRAM)
        rc = look_elsewhere(name);
    if (rc)
        explain(rc);
    if (rc && e)
        tb_client_free(e);
    else if (!rc)
        *out = e;
    return rc;
}

static void (*hears_waits)(const char *whom, double seconds);

void tb_engine_hear_waits(void (*listener)(const char *whom, double seconds))
{
    hears_waits = listener;
}

#define BUSY_SECONDS 8.0 /* shorter waits are usual when many programs start at once */

/* Short waits are not told, unless the awaited process is stopped. */
static void tell_wait(void *arg, int pid, double seconds, bool in_vain)
{
    char who[256];
    (void)arg;
    (void)in_vain;
    if (!pid || (seconds < BUSY_SECONDS && !tb_wait_is_for_stopped(pid)))
        return;
    tb_wait_describe(pid, who, sizeof(who));
    hears_waits(who, seconds);
}

/* After the attach: repair what this process left before exec, flush if the environment goes past the tiers. */
int tb_engine_attach(const char *name, struct tb_io *base, tb_engine **out)
{
    if (hears_waits)
        tb_wait_listen_here(tell_wait, NULL);
    int rc = attach_new(name, -1, base, PROGRAM, out);
    if (hears_waits)
        tb_wait_listen_here(NULL, NULL);
    if (rc)
        return rc;
    repair_former(*out);
    if (tb_environment_goes_past(*out))
        tb_engine_flush(*out, -1);
    if (tb_environment_stops_daemon())
        (*out)->header->daemon.is_to_end = true;
    return 0;
}

/* For tools: they do not apply the environment, and may use the slots kept for them. */
int tb_instance_attach(const char *name, struct tb_io *base, tb_engine **out)
{
    return attach_new(name, -1, base, TOOL, out);
}

/* For `status`: it must work when all slots are taken. */
int tb_instance_look(const char *name, struct tb_io *base, tb_engine **out)
{
    return attach_new(name, -1, base, LOOKS, out);
}

/* For recovery: the lease is held alone, so no other process is attached or can attach. */
int tb_client_attach_alone(const char *name, int lease, struct tb_io *base, tb_engine **out)
{
    return attach_new(name, tb_client_own_fd(lease), base, TOOL, out);
}

const char *tb_engine_refusal(void)
{
    return refusal.text;
}

bool tb_engine_config_changed(tb_engine *e)
{
    return tb_region_config_changed(e->header);
}

/* Threads that still wait for another process keep the handle alive: the process ends with it. */
void tb_engine_detach(tb_engine *e)
{
    if (e->n_stuck || e->background)
        return;
    if (e->slot != TB_NONE) {
        tb_wait_forget(&e->region.clients[e->slot].waits);
        tb_opens_forget_client(e, e->slot, false);
        tb_names_forget_client(e, e->slot);
        e->region.clients[e->slot].pid = 0;
    }
    tb_client_free(e);
}
