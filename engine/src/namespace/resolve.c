/*
 * The one translation of names: by the route of a path to the PFS, to the shadow of a
 * scratch prefix, or to the hidden directory of deferred names (namespace/resolve.h).
 */
#include "namespace/resolve.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/kill_point.h"
#include "io/real_name.h"
#include "namespace/deferred.h"
#include "namespace/shadow_copy.h"

#define MAX_LINKS 40 /* as the kernel */
#define MAX_LOOKS 20

size_t tb_name_cut_tail(char *name)
{
    size_t n = strlen(name);
    for (; n > 1 && (name[n - 1] == '/' || (name[n - 1] == '.' && name[n - 2] == '/')); n--)
        name[n - 1] = 0;
    return n;
}

/* Clients that choose their own prefixes share one shadow, in which the whole name is used. */
static uint32_t number_of(const tb_engine *e, const struct tb_route *r)
{
    return tb_config_of(e)->by_environment ? 0 : (uint32_t)(r->prefix - e->prefixes);
}

/* The part of the path that names something inside the shadow. */
static const char *rest_of(const tb_engine *e, const struct tb_route *r, const char *path)
{
    return tb_config_of(e)->by_environment ? path : path + r->length;
}

/* A stub that is only looked at stays on the PFS; anything else is in the shadow. */
static void in_shadow(tb_engine *e, const struct tb_shadow_name *n, unsigned use, struct tb_place *out)
{
    out->managed = true;
    out->waits = out->deferred = false;
    out->mode = TB_MODE_SCRATCH;
    out->kind = n->kind;
    out->scratch = use & TB_NAME_STUB || (n->kind != TB_SHADOW_STUB_FILE && n->kind != TB_SHADOW_STUB_DIRECTORY);
    out->io = out->scratch ? e->shadow_io : e->pfs;
    assert(out->scratch || n->lower[0] == '/');
    strcpy(out->path, out->scratch ? n->path : n->lower);
}

/* At "/.."; NULL: there is none, as in most names. */
static const char *first_parent(const char *path)
{
    do
        path = strstr(path, "/..");
    while (path && path[3] && path[3] != '/' && path++);
    return path;
}

/* As tb_waiting_find. A slash at the end and what begins with ".." stay there: the file system refuses them where a file waits. */
static int find_waiting(tb_engine *e, const char *path, bool follow, char *out)
{
    char name[TB_PATH_MAX];
    size_t n = strlen(path);
    const char *parent = first_parent(path);
    assert(n && n < sizeof(name));
    if (!parent && path[n - 1] != '/' && path[n - 1] != '.')
        return tb_waiting_find(e, path, follow, out);
    strcpy(name, path);
    name[parent ? (size_t)(parent - path) : n] = 0;
    n = tb_name_cut_tail(name);
    int rc = tb_waiting_find(e, name, follow || parent, out);
    if (rc > 0 && path[n])
        strncat(out, path + n, TB_PATH_MAX - 1 - strlen(out));
    return rc;
}

/* Not in scratch mode: the name is its own place. */
static int as_named(tb_engine *e, const struct tb_route *r, const char *path, unsigned use, struct tb_place *out)
{
    out->managed = r->prefix != NULL;
    out->mode = r->prefix ? r->prefix->mode : TB_MODE_BYPASS;
    out->scratch = false;
    out->io = e->pfs;
    if (strlen(path) >= TB_PATH_MAX)
        return -ENAMETOOLONG;
    out->deferred = tb_waiting_applies(e, r);
    bool follow = (use & TB_NAME_USE) != TB_NAME_MAKE && !(use & TB_NAME_NOFOLLOW);
    int waits = out->deferred ? find_waiting(e, path, follow, out->path) : 0;
    out->waits = waits > 0;
    assert(!out->waits || out->deferred);
    if (!waits)
        strcpy(out->path, path); /* a copy of so few bytes at most would be a string move, which begins slowly */
    else
        TB_MEETING("place waits");
    return waits < 0 ? waits : 0;
}

/*
 * A link in the shadow may lead to another prefix or to the PFS: then the walk starts
 * again there, at most MAX_LINKS times.
 */
int tb_place_find(tb_engine *e, const struct tb_route *route, const char *path, unsigned use, struct tb_place *out)
{
    struct tb_shadow_name found;
    struct tb_route r = *route;
    char name[PATH_MAX];
    out->kind = TB_SHADOW_UNKNOWN;
    out->waits = false; /* also where nothing is found */
    for (int links = 0; links <= MAX_LINKS; links++) {
        if (!r.prefix || r.prefix->mode != TB_MODE_SCRATCH)
            return as_named(e, &r, path, use, out);
        int rc = tb_shadow_find(e, number_of(e, &r), rest_of(e, &r, path), use, &found);
        if (rc)
            return rc;
        if (found.kind != TB_SHADOW_OUTSIDE) {
            in_shadow(e, &found, use, out);
            return 0;
        }
        path = strcpy(name, found.path);
        r = tb_route_of(e, path);
    }
    return -ELOOP;
}

int tb_place_to_name(tb_engine *e, const struct tb_route *route, const char *path, struct tb_place *out)
{
    int rc = tb_place_find(e, route, path, TB_NAME_MAKE, out);
    if (!rc && route->prefix && out->mode != TB_MODE_SCRATCH && !out->waits && e->header->files.n)
        tb_real_name_of_place(out->io, route->prefix->prefix, out->path);
    return rc;
}

int tb_place_beside(tb_engine *e, const struct tb_place *from, const struct tb_route *route, const char *path, struct tb_place *out)
{
    struct tb_shadow_name found;
    bool scratch = route->is_outside || (route->prefix && route->prefix->mode == TB_MODE_SCRATCH);
    if (!tb_config_of(e)->by_environment || from->scratch == out->scratch || !scratch)
        return 0;
    if (!from->scratch)
        return as_named(e, &(struct tb_route){.prefix = NULL}, path, TB_NAME_MAKE, out);
    int rc = tb_shadow_find(e, 0, path, TB_NAME_MAKE, &found);
    if (!rc)
        in_shadow(e, &found, TB_NAME_MAKE, out);
    return rc;
}

/*
 * Most often the second look finds the file at its name. Where it finds one that waits once more, that is another file: so for a moment
 * none had the name, and -ENOENT is a true answer at any time. Open with O_CREAT must not give it, and asks more often.
 */
bool tb_place_was_left(const struct tb_place *p, ssize_t rc, int *looks)
{
    return rc == -ENOENT && p->waits && ++*looks < MAX_LOOKS;
}

/* A slash may come after the name of a file that waits: the name is taken all the same. */
static int taken_by(const struct tb_place *p)
{
    struct stat st;
    char name[PATH_MAX];
    size_t n = strlen(p->path);
    while (n > 1 && p->path[n - 1] == '/')
        n--;
    memcpy(name, p->path, n);
    name[n] = 0;
    int rc = TB_IO(p->io, stat, name, &st, AT_SYMLINK_NOFOLLOW);
    return rc ? rc : -EEXIST;
}

int tb_place_find_new(tb_engine *e, const struct tb_place *of, const struct tb_route *route, const char *path, struct tb_place *out)
{
    struct stat st;
    int rc, looks = 0;
    do {
        rc = tb_place_find(e, route, path, TB_NAME_MAKE, out);
        if (!rc && out->waits)
            rc = taken_by(out);
    } while (tb_place_was_left(out, rc, &looks));
    int missing = rc && of ? TB_IO(of->io, stat, of->path, &st, AT_SYMLINK_NOFOLLOW) : 0;
    return missing ? missing : rc;
}

/* For the common case of a name in a directory that is real already: no system call. */
bool tb_place_known(tb_engine *e, const struct tb_route *r, const char *path, struct tb_place *out)
{
    struct tb_shadow_name found;
    if (!r->prefix || r->prefix->mode != TB_MODE_SCRATCH || !tb_shadow_known(e, number_of(e, r), rest_of(e, r, path), &found))
        return false;
    in_shadow(e, &found, TB_NAME_STUB, out);
    return true;
}

/* ---- the adapter's side: engine.h ---- */

ssize_t tb_engine_translate(struct tb_io *chain, const char *path, unsigned use, char *out, size_t size)
{
    struct tb_place p;
    const struct tb_route r = tb_route_given(chain, path);
    int rc = tb_place_find(((struct tb_engine_io *)chain)->engine, &r, path, use, &p);
    size_t n = rc ? 0 : strlen(p.path);
    if (rc || n >= size)
        return rc ? rc : -ENAMETOOLONG;
    memcpy(out, p.path, n + 1);
    return (ssize_t)n;
}

bool tb_engine_shown(tb_engine *e, const char *path, char *out, size_t size)
{
    return e->shadow_length && tb_shadow_shown(e, path, out, size);
}

const char *tb_engine_shadow(const tb_engine *e)
{
    return e->shadow;
}

int tb_engine_entry_type(tb_engine *e, const char *text)
{
    (void)e;
    enum tb_shadow_kind kind = tb_stub_kind(text);
    return kind == TB_SHADOW_STUB_FILE ? DT_REG : kind == TB_SHADOW_STUB_DIRECTORY ? DT_DIR : DT_LNK;
}

uint32_t tb_engine_moves(tb_engine *e)
{
    return e->header->names.n_renames;
}

char *tb_engine_waiting(tb_engine *e, const char *directory)
{
    char *names = NULL;
    errno = tb_config_of(e)->deferred ? -tb_waiting_list(e, directory, &names) : 0;
    return names;
}

bool tb_engine_hides(tb_engine *e, const char *name)
{
    return tb_config_of(e)->deferred && strcmp(name, strrchr(e->waiting, '/') + 1) == 0;
}
