/*
 * The shadow of a scratch prefix: the walk from a program's path to its place, which makes
 * directories real on the way, and a memory of directories that are real already
 * (namespace/shadow.h).
 */
#include "namespace/shadow.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "namespace/route.h"
#include "namespace/shadow_copy.h"

#define MAX_LINKS 40 /* as the kernel */
#define MADE 255u    /* next to the numbers of prefixes */

struct walk {
    tb_engine *e;
    uint32_t prefix;
    size_t root, length;     /* of "SHADOW/NUMBER", of `real` */
    char real[PATH_MAX];     /* walked: no symlink in it */
    char rest[2 * PATH_MAX]; /* still to walk */
    bool straight;           /* no link, no "..": `real` is what the program said */
    int links;
};

/* `real` is a path of its length, which never leaves the shadow's directory of the prefix. */
static bool walk_is_valid(const struct walk *w)
{
    return w->root > w->e->shadow_length && w->length >= w->root && w->length < sizeof(w->real) && !w->real[w->length];
}

/* The shadow's own directory for the prefix; its length. By hand: it is written for each name. */
static size_t write_root(const tb_engine *e, uint32_t prefix, char out[static TB_PATH_MAX + 8])
{
    size_t n = e->shadow_length;
    assert(prefix < 100);
    memcpy(out, e->shadow, n);
    out[n++] = '/';
    if (prefix >= 10)
        out[n++] = (char)('0' + prefix / 10);
    out[n++] = (char)('0' + prefix % 10);
    out[n] = 0;
    return n;
}

/* The walk starts there. Field by field: there is room for long paths, which need not be cleared. */
static int begin(struct walk *w, tb_engine *e, uint32_t prefix, const char *rest)
{
    w->e = e;
    w->links = 0;
    w->straight = true;
    w->prefix = prefix;
    w->root = w->length = write_root(e, prefix, w->real);
    return (size_t)snprintf(w->rest, sizeof(w->rest), "%s", rest) < sizeof(w->rest) ? 0 : -ENAMETOOLONG;
}

/* What is left names no further entry: slashes and dots. */
static bool is_tail(const char *rest)
{
    for (; *rest; rest++)
        if (*rest != '/' && !(*rest == '.' && (rest[1] == '/' || !rest[1])))
            return false;
    return true;
}

/* ".."; "." is skipped by the walk itself. */
static bool is_dots(const char *part, size_t n)
{
    return n == 2 && part[0] == '.' && part[1] == '.';
}

/* The walk ends, to go on at another absolute name: `to`, in the program's words, and the rest. */
static int leave(struct walk *w, const char *to, struct tb_shadow_name *out)
{
    out->kind = TB_SHADOW_OUTSIDE;
    size_t n = (size_t)snprintf(out->path, sizeof(out->path), "%s%s%s", to, *w->rest && *w->rest != '/' ? "/" : "", w->rest);
    return n < sizeof(out->path) ? 1 : -ENAMETOOLONG;
}

/* ".." at the root of the prefix leads out of the shadow. */
static int leave_above(struct walk *w, struct tb_shadow_name *out)
{
    char above[TB_PATH_MAX];
    snprintf(above, sizeof(above), "%s", w->e->prefixes[w->prefix].prefix);
    *strrchr(above, '/') = 0;
    return leave(w, above, out);
}

/* Another prefix begins below this one. */
static bool is_other_prefix(const struct walk *w, char *shown)
{
    if (w->e->n_prefixes == 1 || tb_config_of(w->e)->by_environment || !tb_shadow_shown(w->e, w->real, shown, PATH_MAX))
        return false;
    const struct tb_route r = tb_route_of(w->e, shown);
    return r.prefix && r.prefix != &w->e->prefixes[w->prefix];
}

/* Appends a part to the walked path. */
static int push(struct walk *w, const char *part, size_t n)
{
    if (n > NAME_MAX || w->length + n + 2 > sizeof(w->real))
        return -ENAMETOOLONG;
    w->real[w->length++] = '/';
    memcpy(w->real + w->length, part, n);
    w->real[w->length += n] = 0;
    assert(walk_is_valid(w));
    return 0;
}

/* Never at the root: ".." there leaves the shadow, or stays (step). */
static void pop(struct walk *w)
{
    assert(w->length > w->root);
    while (w->real[--w->length] != '/')
        ;
    w->real[w->length] = 0;
}

/*
 * The program's own symlink is followed. ELOOP after as many links as the kernel follows: a
 * circle of links ends there.
 */
static int follow(struct walk *w, const char *text)
{
    char rest[2 * PATH_MAX];
    w->straight = false;
    if (++w->links > MAX_LINKS)
        return -ELOOP;
    if ((size_t)snprintf(rest, sizeof(rest), "%s/%s", text, w->rest) >= sizeof(rest))
        return -ENAMETOOLONG;
    if (!*w->rest)
        rest[strlen(rest) - 1] = 0;
    pop(w);
    strcpy(w->rest, rest);
    return 0;
}

/* A stub leads to something of the PFS. A directory is made real when the walk enters it: -EAGAIN, look again. */
static int at_stub(struct walk *w, const char *text, enum tb_shadow_kind kind, unsigned use, struct tb_shadow_name *out)
{
    bool ends = !*w->rest;
    if (kind == TB_SHADOW_STUB_DIRECTORY && (!ends || (use & TB_NAME_USE) >= TB_NAME_ENTER)) {
        int rc = tb_shadow_make_directory(w->e, w->real, text);
        return rc ? rc : -EAGAIN;
    }
    out->kind = kind;
    tb_stub_lower(text, out->lower, sizeof(out->lower));
    return ends ? 1 : -ENOTDIR;
}

/* What is made, renamed or removed is the name itself, also where a slash comes after it. */
static bool is_name_itself(const struct walk *w, unsigned use)
{
    return (use & TB_NAME_USE) == TB_NAME_MAKE && is_tail(w->rest);
}

/* w->real is a symlink. 1: the walk ends here; 0: it goes on. */
static int at_link(struct walk *w, unsigned use, struct tb_shadow_name *out)
{
    char text[PATH_MAX], shown[PATH_MAX];
    bool ends = !*w->rest;
    ssize_t n = TB_IO(w->e->shadow_io, readlink, w->real, text, sizeof(text) - 1);
    if (n < 0)
        return n == -EINVAL ? -EAGAIN : (int)n; /* another process made it real in between */
    text[n] = 0;
    enum tb_shadow_kind kind = tb_stub_kind(text);
    if (kind != TB_SHADOW_LINK)
        return at_stub(w, text, kind, use, out);
    if ((ends && use & TB_NAME_NOFOLLOW) || is_name_itself(w, use)) {
        out->kind = TB_SHADOW_LINK;
        return 1;
    }
    if (text[0] != '/')
        return follow(w, text);
    return leave(w, tb_shadow_shown(w->e, text, shown, sizeof(shown)) ? shown : text, out);
}

/* Where clients choose what is scratch, their shadow is empty at first, and has directories because the file system has them. */
static int borrow_directory(const struct walk *w)
{
    struct stat st;
    int rc = tb_config_of(w->e)->by_environment ? TB_IO(w->e->pfs, stat, w->real + w->root, &st, 0) : -ENOENT;
    if (!rc)
        rc = S_ISDIR(st.st_mode) ? TB_IO(w->e->shadow_io, mkdir, w->real, 0700) : -ENOENT;
    return rc == -EEXIST ? 0 : rc;
}

/* -ENOENT: nothing has the name. Every other error is the program's: a name that can't be seen is not a new one. */
static int stat_part(const struct walk *w, bool last, struct stat *st)
{
    int rc = TB_IO(w->e->shadow_io, stat, w->real, st, AT_SYMLINK_NOFOLLOW);
    if (rc != -ENOENT || last)
        return rc;
    rc = borrow_directory(w);
    return rc ? rc : TB_IO(w->e->shadow_io, stat, w->real, st, AT_SYMLINK_NOFOLLOW);
}

/* The part at w->real: 1 where the walk ends. */
static int look(struct walk *w, unsigned use, struct tb_shadow_name *out)
{
    struct stat st;
    bool last = is_tail(w->rest);
    int rc;
    do {
        rc = stat_part(w, last, &st);
        if (rc) {
            out->kind = TB_SHADOW_NONE;
            return rc == -ENOENT && last ? 1 : rc;
        }
        if (S_ISLNK(st.st_mode))
            rc = at_link(w, use, out);
    } while (rc == -EAGAIN);
    if (rc || S_ISLNK(st.st_mode))
        return rc;
    out->kind = S_ISDIR(st.st_mode) ? TB_SHADOW_DIRECTORY : TB_SHADOW_OTHER;
    return S_ISDIR(st.st_mode) ? last : is_name_itself(w, use) || (last && !*w->rest) ? 1 : -ENOTDIR;
}

/* One part of the rest: 1 where the walk ends. */
static int step(struct walk *w, unsigned use, struct tb_shadow_name *out)
{
    char shown[PATH_MAX], *part = w->rest + strspn(w->rest, "/");
    size_t n = strcspn(part, "/");
    char name[NAME_MAX + 1];
    snprintf(name, sizeof(name), "%.*s", n > NAME_MAX ? NAME_MAX : (int)n, part);
    memmove(w->rest, part + n, strlen(part + n) + 1);
    if (n > NAME_MAX)
        return -ENAMETOOLONG;
    if (n == 1 && name[0] == '.')
        return 0;
    if (is_dots(name, n)) {
        w->straight = false;
        if (w->length > w->root)
            pop(w);
        else if (!tb_config_of(w->e)->by_environment)
            return leave_above(w, out);
        return 0;
    }
    int rc = push(w, name, n);
    if (rc)
        return rc;
    if (is_other_prefix(w, shown))
        return leave(w, shown, out);
    out->kind = TB_SHADOW_UNKNOWN;
    if ((use & TB_NAME_USE) == TB_NAME_MAKE && !*w->rest)
        return 1;
    return look(w, use, out);
}

/* A real directory's mark among those known: of its name below the prefix, void as soon as links change. */
static uint64_t mark_of(const tb_engine *e, uint32_t prefix, const char *name, size_t n)
{
    return XXH3_64bits_withSeed(name, n, (uint64_t)e->header->shadows.shadow_links << 8 | prefix) | 1;
}

static _Atomic uint64_t *place_of(tb_engine *e, uint64_t mark)
{
    return &e->known[(mark >> 1) % TB_KNOWN_DIRECTORIES];
}

/* Nothing in it that only a walk understands. */
static bool is_plain(const char *rest)
{
    if (rest[0] != '/')
        return false;
    for (const char *p = rest; (p = strchr(p, '/')); p++) {
        size_t dots = p[1] != '.' ? 0 : p[2] != '.' ? 1 : 2;
        if (p[1 + dots] == '/' || p[1 + dots] == 0)
            return false;
    }
    return true;
}

/* Marks are hashes of 63 bits and hold no names: two names are taken for one with a chance of 2^-63. */
static bool is_known(tb_engine *e, uint32_t prefix, const char *rest)
{
    if (!is_plain(rest))
        return false;
    uint64_t mark = mark_of(e, prefix, rest, (size_t)(strrchr(rest, '/') - rest));
    return atomic_load_explicit(place_of(e, mark), memory_order_relaxed) == mark;
}

/* Not if links changed during the walk: the answer could be old already. */
static void remember_parent(const struct walk *w, uint64_t links)
{
    assert(w->straight);
    size_t n = (size_t)(strrchr(w->real, '/') - w->real);
    if (n < w->root || links != w->e->header->shadows.shadow_links)
        return;
    uint64_t mark = mark_of(w->e, w->prefix, w->real + w->root, n - w->root);
    atomic_store_explicit(place_of(w->e, mark), mark, memory_order_relaxed);
}

/* The tail of slashes and dots is kept: the kernel must see that a directory was meant. */
static int finish(struct walk *w, struct tb_shadow_name *out)
{
    assert(walk_is_valid(w));
    const char *tail = !*w->rest ? "" : strchr(w->rest, '.') ? "/." : "/";
    return (size_t)snprintf(out->path, sizeof(out->path), "%s%s", w->real, tail) < sizeof(out->path) ? 0 : -ENAMETOOLONG;
}

/* Part by part. `links` is read first: if links change during the walk, its result is not remembered. */
static int walk(tb_engine *e, uint32_t prefix, const char *rest, unsigned use, struct tb_shadow_name *out)
{
    struct walk w;
    uint32_t links = e->header->shadows.shadow_links;
    int rc = begin(&w, e, prefix, rest);
    out->kind = TB_SHADOW_DIRECTORY;
    while (!rc && !is_tail(w.rest))
        rc = step(&w, use, out);
    if (rc < 0 || out->kind == TB_SHADOW_OUTSIDE)
        return rc < 0 ? rc : 0;
    if (w.straight && w.length > w.root)
        remember_parent(&w, links);
    return finish(&w, out);
}

/* A copy of a stub for a use that changes it. The name is looked up again, because another process may have made the copy. */
/*
 * If killed in the copy, only the unfinished copy is left. Two processes that copy the same stub
 * meet in take_place: the second one finds it real and throws its own away.
 */
static int make_real(tb_engine *e, uint32_t prefix, const char *rest, unsigned use, struct tb_shadow_name *out)
{
    int rc = 0;
    while (!rc && out->kind == TB_SHADOW_STUB_FILE && (use & TB_NAME_USE) >= TB_NAME_CHANGE) {
        rc = tb_shadow_copy_file(e, out->path, out->lower, use);
        if (!rc)
            rc = walk(e, prefix, rest, use, out);
    }
    return rc;
}

/* Believed without a look: a mark is void from the moment that links change, by its seed. */
bool tb_shadow_known(tb_engine *e, uint32_t prefix, const char *rest, struct tb_shadow_name *out)
{
    size_t n = strlen(rest) + 1;
    out->kind = TB_SHADOW_UNKNOWN;
    if (!is_known(e, prefix, rest) || e->shadow_length + n + 12 > sizeof(out->path))
        return false;
    memcpy(out->path + write_root(e, prefix, out->path), rest, n);
    return true;
}

/* Marks of made directories end with a part of the count that makes them void. */
#define GENERATION 0xffull

/* The mark of what is at `path` in the shadow, or of the directory above it: made by this process. */
static uint64_t mark_of_made(const tb_engine *e, const char *path, bool above)
{
    const char *rest = path + e->shadow_length;
    size_t n = above ? (size_t)(strrchr(rest, '/') - rest) : strlen(rest);
    while (n > 1 && rest[n - 1] == '/') /* of mkdir "name/" */
        n--;
    uint64_t mark = mark_of(e, MADE, rest, n);
    return (mark & ~GENERATION) | (e->header->shadows.shadow_links & GENERATION);
}

static _Atomic uint64_t *place_of_made(tb_engine *e, uint64_t mark)
{
    return &e->made[(mark / (GENERATION + 1)) % TB_KNOWN_DIRECTORIES];
}

/*
 * Such a directory, and all below it, has no links: this process made it empty, after the
 * shadow was made. What is known and not void stays: of a tree, directories near its root
 * are made first, and used most.
 */
void tb_shadow_note_made(tb_engine *e, const char *path)
{
    uint64_t mark = mark_of_made(e, path, false);
    _Atomic uint64_t *place = place_of_made(e, mark);
    uint64_t there = atomic_load_explicit(place, memory_order_relaxed);
    if (!there || (there & GENERATION) != (mark & GENERATION))
        atomic_store_explicit(place, mark, memory_order_relaxed);
}

bool tb_shadow_has_no_stubs(tb_engine *e, const char *path)
{
    uint64_t mark = mark_of_made(e, path, true);
    return atomic_load_explicit(place_of_made(e, mark), memory_order_relaxed) == mark;
}

/* A new name in a known directory needs no walk. */
int tb_shadow_find(tb_engine *e, uint32_t prefix, const char *rest, unsigned use, struct tb_shadow_name *out)
{
    if ((use & TB_NAME_USE) == TB_NAME_MAKE && tb_shadow_known(e, prefix, rest, out))
        return 0;
    int rc = walk(e, prefix, rest, use, out);
    return rc ? rc : make_real(e, prefix, rest, use, out);
}

/* Every process forgets its known directories, because their marks contain this count. */
void tb_shadow_forget(tb_engine *e)
{
    atomic_fetch_add(&e->header->shadows.shadow_links, 1);
}
