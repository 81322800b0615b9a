/*
 * What a process's environment asks for: TIERBENCH_MODE, and the variables of Hermes'
 * adapters. It is read once, at the attach; a wrong value refuses the attach.
 */
#include "namespace/environment.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "namespace/route.h"
#include "region/directories.h"
#include "text/text.h"

/* What Hermes' adapters leave alone where no prefix is named, and where else Debian keeps libraries. */
static const char *const system_paths[] = {"/bin", "/boot", "/dev",  "/etc", "/lib", "/lib32", "/lib64", "/libx32",
                                           "/opt", "/proc", "/sbin", "/sys", "/usr", "/var",   "/run"};

enum adapter_mode { ADAPTER_DEFAULT, ADAPTER_SCRATCH, ADAPTER_BYPASS, ADAPTER_WORKFLOW };
static const char *const adapter_modes[] = {"DEFAULT", "SCRATCH", "BYPASS", "WORKFLOW", NULL};

/* An empty variable counts as unset. */
static const char *value(const char *name)
{
    const char *v = getenv(name);
    return v && *v ? v : NULL;
}

/* One message: variable, value, what is allowed. */
static int refuse(struct tb_error *err, const char *name, const char *text, const char *allowed)
{
    snprintf(err->text, sizeof(err->text), "%s: %.300s; allowed: %s", name, text, allowed);
    return -EINVAL;
}

/* `*out` stays as it is where nothing is said. */
static int read_switch(const char *name, bool *out, struct tb_error *err)
{
    const char *v = value(name);
    if (!v)
        return 0;
    if ((*v != '0' && *v != '1') || v[1])
        return refuse(err, name, v, "0, 1");
    *out = *v == '1';
    return 0;
}

/* Hermes cut files into pages of this size; buffers are of the sizes of their slabs, whatever is written. */
static int read_page_size(struct tb_error *err)
{
    const char *v = value("HERMES_PAGE_SIZE");
    char *end = NULL;
    if (!v || (isdigit((unsigned char)*v) && strtoull(v, &end, 0) > 0 && !*end))
        return 0;
    return refuse(err, "HERMES_PAGE_SIZE", v, "a number of bytes above 0");
}

/* The words are those of Hermes' adapters. */
static int read_adapter_mode(enum adapter_mode *out, struct tb_error *err)
{
    const char *v = value("ADAPTER_MODE");
    for (int i = 0; v && adapter_modes[i]; i++)
        if (strcmp(v, adapter_modes[i]) == 0)
            return *out = (enum adapter_mode)i, 0;
    *out = ADAPTER_DEFAULT;
    return v ? refuse(err, "ADAPTER_MODE", v, "DEFAULT, SCRATCH, BYPASS, WORKFLOW") : 0;
}

/* Prefixes as they are found; where there are too many, the count says so. */
struct prefixes {
    struct tb_config_prefix *list;
    uint32_t n;
};

/* Prefixes beyond the limit are only counted; the caller refuses them with a message. */
static void add(struct prefixes *p, const char *prefix, enum tb_mode mode)
{
    if (p->n < TB_MAX_ROUTES) {
        snprintf(p->list[p->n].prefix, sizeof(p->list[p->n].prefix), "%.*s", TB_PATH_MAX - 1, prefix);
        p->list[p->n].mode = mode;
    }
    p->n++;
}

static int add_listed(struct prefixes *p, enum tb_mode mode, struct tb_error *err)
{
    char piece[PATH_MAX], path[TB_PATH_MAX], here[PATH_MAX];
    for (const char *at = value("ADAPTER_MODE_INFO"); at && *at; at += strspn(at, ",")) {
        size_t n = strcspn(at, ",");
        snprintf(piece, sizeof(piece), "%.*s", (int)n, at);
        if (n && (n >= sizeof(piece) || !getcwd(here, sizeof(here)) || tb_path_absolute(here, piece, path, sizeof(path))))
            return refuse(err, "ADAPTER_MODE_INFO", piece, "paths of less than 1024 bytes, commas between them");
        if (n)
            add(p, path, mode);
        at += n;
    }
    return p->n <= TB_MAX_PREFIXES ? 0 : refuse(err, "ADAPTER_MODE_INFO", value("ADAPTER_MODE_INFO"), "at most 15 paths");
}

/* The engine's own files are not data of any program. */
static void add_own(const tb_engine *e, struct prefixes *p)
{
    const struct tb_config *c = tb_config_of(e);
    char directory[TB_PATH_MAX + 256];
    add(p, c->file, TB_MODE_OUTSIDE);
    for (uint32_t t = 0; t < c->n_tiers; t++)
        if (c->tiers[t].medium == TB_MEDIUM_DIRECTORY) {
            tb_tier_directory(&c->tiers[t], e->header->host, e->header->name, directory, sizeof(directory));
            add(p, directory, TB_MODE_OUTSIDE);
        }
}

/*
 * The first prefix is the shadow's.  The prefixes that are listed have the mode;
 * the rest is kept (SCRATCH, BYPASS), or left alone: Hermes discarded it there.
 */
static int hermes_prefixes(const tb_engine *e, enum adapter_mode adapter, struct prefixes *p, struct tb_error *err)
{
    static const enum tb_mode modes[] = {TB_MODE_PERSISTENT_ASYNC, TB_MODE_SCRATCH, TB_MODE_OUTSIDE, TB_MODE_PERSISTENT_ASYNC};
    bool listed = value("ADAPTER_MODE_INFO"), keeps_rest = adapter == ADAPTER_SCRATCH || adapter == ADAPTER_BYPASS;
    add(p, e->shadow, TB_MODE_SCRATCH);
    int rc = add_listed(p, modes[adapter], err);
    if (!listed)
        add(p, "/", modes[adapter]);
    else if (keeps_rest)
        add(p, "/", TB_MODE_PERSISTENT_ASYNC);
    for (size_t i = 0; i < sizeof(system_paths) / sizeof(system_paths[0]); i++)
        add(p, system_paths[i], TB_MODE_OUTSIDE);
    add_own(e, p);
    assert(rc || p->n <= TB_MAX_ROUTES);
    return rc;
}

/* Every variable is checked, also when its value changes nothing. */
static int read_hermes(tb_engine *e, struct prefixes *p, struct tb_error *err)
{
    enum adapter_mode adapter;
    bool write_only = false, stop = true, client = true;
    int rc = read_adapter_mode(&adapter, err);
    rc = rc ? rc : hermes_prefixes(e, adapter, p, err);
    rc = rc ? rc : read_switch("HERMES_ASYNC_FLUSH", &e->flush.background, err);
    rc = rc ? rc : read_switch("HERMES_WRITE_ONLY", &write_only, err);
    rc = rc ? rc : read_switch("HERMES_STOP_DAEMON", &stop, err);
    rc = rc ? rc : read_switch("HERMES_CLIENT", &client, err);
    if (!rc && adapter == ADAPTER_WORKFLOW)
        e->flush.policy = TB_FLUSH_MANUAL;
    return rc ? rc : read_page_size(err);
}

/* TIERBENCH_MODE instead of the modes of all managed prefixes; the shadow of a .conf's instance, the first, stays one. */
static int override_mode(const tb_engine *e, struct prefixes *p, struct tb_error *err)
{
    const char *v = value("TIERBENCH_MODE");
    enum tb_mode mode;
    if (v && tb_mode_parse(v, &mode))
        return refuse(err, "TIERBENCH_MODE", v, "persistent-async, persistent-sync, scratch, bypass");
    for (uint32_t i = tb_config_of(e)->by_environment; v && i < p->n; i++)
        if (p->list[i].mode != TB_MODE_OUTSIDE)
            p->list[i].mode = mode;
    return 0;
}

/*
 * Of prefixes that only this client has in scratch mode. Another client may make the same ones
 * at the same time: what is there already is no error.
 */
static int make_shadows(const tb_engine *e)
{
    char path[TB_PATH_MAX + 16];
    for (uint32_t i = 0; i < e->n_prefixes && !tb_config_of(e)->by_environment; i++) {
        snprintf(path, sizeof(path), "%s/%u", e->shadow, i);
        if (e->prefixes[i].mode != TB_MODE_SCRATCH)
            continue;
        int rc = TB_IO(e->shadow_io, mkdir, e->shadow, 0700);
        if (!rc || rc == -EEXIST)
            rc = TB_IO(e->shadow_io, mkdir, path, 0700);
        if (rc && rc != -EEXIST)
            return rc;
    }
    return 0;
}

int tb_environment_ignore(tb_engine *e)
{
    const struct tb_config *c = tb_config_of(e);
    e->flush = (struct tb_flush_choice){c->flush.policy, c->flush.background};
    return tb_route_prepare(e, c->prefixes, c->n_prefixes);
}

/* own_prefixes belongs to the handle from the first moment, so it is freed whatever fails. */
int tb_environment_apply(tb_engine *e, struct tb_error *err)
{
    const struct tb_config *c = tb_config_of(e);
    int rc = tb_environment_ignore(e);
    if (rc || (!c->by_environment && !value("TIERBENCH_MODE")))
        return rc;
    struct prefixes p = {calloc(TB_MAX_ROUTES, sizeof(*p.list)), 0};
    if (!p.list)
        return -ENOMEM;
    e->own_prefixes = p.list;
    for (uint32_t i = 0; !c->by_environment && i < c->n_prefixes; i++)
        add(&p, c->prefixes[i].prefix, c->prefixes[i].mode);
    if (c->by_environment)
        rc = read_hermes(e, &p, err);
    rc = rc ? rc : override_mode(e, &p, err);
    rc = rc ? rc : tb_route_prepare(e, p.list, p.n);
    return rc ? rc : make_shadows(e);
}

/* Asked at the attach: a program that reads the PFS directly needs what others wrote there. */
bool tb_environment_goes_past(const tb_engine *e)
{
    const char *adapter = value("ADAPTER_MODE"), *mode = value("TIERBENCH_MODE");
    return (mode && strcmp(mode, "bypass") == 0) || (tb_config_of(e)->by_environment && adapter && strcmp(adapter, "BYPASS") == 0);
}

bool tb_environment_stops_daemon(void)
{
    const char *v = value("HERMES_STOP_DAEMON");
    return !v || *v != '0';
}
