/*
 * Hints by MPI_Info: tierbench_mode, tierbench_fsync and tierbench_access of one
 * file.  Each rank asks for its node; ranks that share a node share the file's
 * record, so what one asks for holds for all.  MPI lets hints be ignored: what
 * cannot be had is said in one line by rank 0, and the file stays as it was.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "../preload/core/control.h"
#include "layer.h"

#define PREFIX "tierbench_"

struct word {
    const char *name;
    int value;
};

static const struct word modes[] = {
    {"persistent-async", TB_MODE_PERSISTENT_ASYNC},
    {"persistent-sync", TB_MODE_PERSISTENT_SYNC},
    {"bypass", TB_MODE_BYPASS},
    {"scratch", TB_MODE_SCRATCH},
    {NULL, 0},
};
static const struct word promises[] = {{"tier", TB_FSYNC_TIER}, {"pfs", TB_FSYNC_PFS}, {"none", TB_FSYNC_NONE}, {NULL, 0}};
/* read_once and write_once are also words of MPI's own hint access_style. */
static const struct word uses[] = {
    {"normal", TB_HINT_NORMAL}, {"sequential", TB_HINT_SEQUENTIAL}, {"random", TB_HINT_RANDOM},
    {"once", TB_HINT_ONCE},     {"read_once", TB_HINT_ONCE},        {"write_once", TB_HINT_ONCE},
    {"keep", TB_HINT_KEEP},     {"will_need", TB_HINT_WILL_NEED},   {NULL, 0},
};

/*
 * These three are looked up at each call: without the preload adapter there is no such
 * function, and -ENODEV makes the hint one that is ignored without a message.
 */
static int set_mode(const char *path, int value)
{
    tb_adapter_set_mode_function *f = (tb_adapter_set_mode_function *)dlsym(RTLD_DEFAULT, "tb_adapter_set_mode");
    return f ? f(path, (enum tb_mode)value) : -ENODEV;
}

static int set_fsync(const char *path, int value)
{
    tb_adapter_set_fsync_function *f = (tb_adapter_set_fsync_function *)dlsym(RTLD_DEFAULT, "tb_adapter_set_fsync");
    return f ? f(path, (enum tb_fsync)value) : -ENODEV;
}

static int advise(const char *path, int value)
{
    tb_adapter_advise_function *f = (tb_adapter_advise_function *)dlsym(RTLD_DEFAULT, "tb_adapter_advise");
    return f ? f(path, (enum tb_hint)value) : -ENODEV;
}

enum { MODE, FSYNC, ACCESS, N_KEYS };
static const struct key {
    const char *name;
    const struct word *words;
    int (*ask)(const char *path, int value);
} keys[N_KEYS] = {
    [MODE] = {PREFIX "mode", modes, set_mode},
    [FSYNC] = {PREFIX "fsync", promises, set_fsync},
    [ACCESS] = {PREFIX "access", uses, advise},
};

/* What the adapter's error numbers mean for a hint, in words for the user. */
static const char *reason(int rc)
{
    switch (rc) {
    case -ENOENT: return "it is under no managed prefix";
    case -EOPNOTSUPP: return "scratch is of prefixes, not of single files";
    case -EPERM: return "it is weaker than what the file has";
    case -EBUSY: return "it passes through until its last close";
    default: return strerror(-rc);
    }
}

static void say(const struct tb_mpi_file *f, const char *key, const char *value, const char *why)
{
    if (f->rank == 0)
        fprintf(stderr, "tierbench: %s: hint %s=%s is ignored: %s\n", f->path, key, value, why);
}

static void say_allowed(const struct tb_mpi_file *f, const char *key, const char *value, const struct word *words)
{
    char text[256] = "allowed:";
    for (size_t n = strlen(text); words->name; words++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, " %s%s", words->name, words[1].name ? "," : "");
    say(f, key, value, text);
}

/* Words are compared with their case; NULL: the table has no such word. */
static const struct word *word_of(const struct word *words, const char *name)
{
    while (words->name && strcmp(words->name, name) != 0)
        words++;
    return words->name ? words : NULL;
}

/* A process without an instance has no tiers to speak of; one that lets other ranks do its I/O has not opened the file. */
static void ask(struct tb_mpi_file *f, const struct key *key, const char *value)
{
    const struct word *word = word_of(key->words, value);
    int rc = word ? key->ask(f->path, word->value) : 0;
    if (!word)
        say_allowed(f, key->name, value, key->words);
    else if (rc && rc != -ENODEV && rc != -EBADF)
        say(f, key->name, value, reason(rc));
    else if (key == &keys[ACCESS])
        f->access = word->name;
}

static const struct key *key_of(const char *name)
{
    for (int k = 0; k < N_KEYS; k++)
        if (strcmp(keys[k].name, name) == 0)
            return &keys[k];
    return NULL;
}

/* Keys without the prefix are for the MPI library, which gets them all. */
static void ask_nth(struct tb_mpi_file *f, MPI_Info info, int n)
{
    char name[MPI_MAX_INFO_KEY + 1], value[MPI_MAX_INFO_VAL + 1] = "";
    int is_there;
    NEXT(PMPI_Info_get_nthkey)(info, n, name);
    if (strncmp(name, PREFIX, strlen(PREFIX)) != 0)
        return;
    NEXT(PMPI_Info_get)(info, name, MPI_MAX_INFO_VAL, value, &is_there);
    const struct key *key = key_of(name);
    if (key)
        ask(f, key, value);
    else
        say(f, name, value, "allowed: " PREFIX "mode, " PREFIX "fsync, " PREFIX "access");
}

bool tb_mpi_has_hints(MPI_Info info)
{
    int n = 0;
    if (!tb_mpi_is_info(info) || NEXT(PMPI_Info_get_nkeys)(info, &n))
        return false;
    return n > 0;
}

void tb_mpi_hints_apply(struct tb_mpi_file *f, MPI_Info info)
{
    int n = 0;
    if (!tb_mpi_has_hints(info) || NEXT(PMPI_Info_get_nkeys)(info, &n))
        return;
    for (int i = 0; i < n; i++)
        ask_nth(f, info, i);
}

/* Only for values that the table holds: it doesn't look for the table's end. */
static const char *name_of(const struct word *words, int value)
{
    while (words->value != value)
        words++;
    return words->name;
}

/* What the program gave and the MPI library kept. */
static void remove_given(MPI_Info info)
{
    char name[MPI_MAX_INFO_KEY + 1];
    int n = 0;
    NEXT(PMPI_Info_get_nkeys)(info, &n);
    while (n-- > 0)
        if (NEXT(PMPI_Info_get_nthkey)(info, n, name) == MPI_SUCCESS && strncmp(name, PREFIX, strlen(PREFIX)) == 0)
            NEXT(PMPI_Info_delete)(info, name);
}

/*
 * Shows what the file has by now, which may be more than this rank asked for. Without the
 * adapter, or outside the tiers, no key of ours is shown.
 */
void tb_mpi_hints_show(const struct tb_mpi_file *f, MPI_Info info)
{
    tb_adapter_promise_function *promise = (tb_adapter_promise_function *)dlsym(RTLD_DEFAULT, "tb_adapter_promise");
    enum tb_mode mode;
    enum tb_fsync fsync;
    bool known = promise && promise(f->path, &mode, &fsync) == 0;
    remove_given(info);
    if (!known)
        return;
    NEXT(PMPI_Info_set)(info, keys[MODE].name, name_of(modes, mode));
    NEXT(PMPI_Info_set)(info, keys[FSYNC].name, name_of(promises, fsync));
    NEXT(PMPI_Info_set)(info, keys[ACCESS].name, f->access ? f->access : "normal");
}
