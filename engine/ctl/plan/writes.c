/*
 * Where a sequence of writes would go: `plan --writes`.
 *
 * One writer writes the sequence into an empty instance and waits for each write, so no tier is busy when the next one begins.
 * Nothing is flushed except what the policy asks for and what the mode says; the organizer rests. Buffers are taken as the
 * engine takes them (tb_tier_take), so a write that ends inside a buffer leaves the rest of it to the next write of its file.
 */
#include "plan/writes.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/ctl.h"
#include "config/placement.h"
#include "flush/flush.h"
#include "placement/placement.h"
#include "text/sizes.h"

#define WRITES_MAX UINT64_C(1000000)
#define BYTES_MAX (UINT64_C(4) << 40) /* what takes seconds to go through chunk by chunk */
#define ALLOWED "allowed: 'N x SIZE [to NAME]' with N up to 1000000, such as '16 x 4MiB', at most 16 of them with commas, 4TiB in all"

/* What is known of a file: where it ends, and the buffer that holds its last byte. */
struct file {
    const char *name;
    uint64_t end;
    struct tb_neighbour last; /* of no tier: the PFS has that byte, or there is none */
    uint32_t memory;
};

struct paper {
    const struct tb_config *config;
    const struct tb_layout *layout;
    const struct tb_placement_ops *policy;
    enum tb_mode mode;
    struct tb_tiers tiers;
    struct tb_policy_state state;
    uint32_t n_free[TB_MAX_TIERS * TB_MAX_SLABS]; /* buffers of each slab: free ones and clean ones */
    uint32_t n_dirty[TB_MAX_TIERS * TB_MAX_SLABS];
    uint32_t n_files;
    struct file file[PLAN_GROUPS_MAX];
    struct plan_group *group; /* of the write, and its column */
    uint64_t *column;
};

/* The whole text is shown, since its parts have no names. The caller's text is still whole: a copy was cut. */
static int wrong(const char *text, const char *why)
{
    return ctl_fail("--writes '%s': %s", text, why);
}

/* In place. */
static char *trim(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    for (size_t n = strlen(text); n && isspace((unsigned char)text[n - 1]); n--)
        text[n - 1] = '\0';
    return text;
}

/* NULL, or what is wrong. */
static const char *parse_group(char *text, struct plan_group *g)
{
    char *to = strstr(text, " to "), *rest;
    if (to) {
        *to = '\0';
        to = trim(to + 4);
    }
    if (to && (!*to || strlen(to) >= sizeof(g->file)))
        return "allowed as NAME: 1 to 31 bytes";
    strcpy(g->file, to ? to : "file");
    text = trim(text);
    errno = 0;
    g->n = strtoull(text, &rest, 10);
    if (!isdigit((unsigned char)*text) || errno || !g->n || g->n > WRITES_MAX)
        return ALLOWED;
    rest = trim(rest);
    if (*rest != 'x')
        return ALLOWED;
    const char *why = tb_parse_size(trim(rest + 1), &g->bytes);
    return why ? why : g->bytes ? NULL : ALLOWED;
}

/* Sums are checked as they grow: no sequence is accepted that would take minutes to go through. */
int tb_plan_writes_parse(const char *text, struct plan_writes *w)
{
    char *copy = strdup(text), *rest = copy, *one;
    const char *why = copy ? NULL : "no memory";
    uint64_t left = BYTES_MAX;
    memset(w, 0, sizeof(*w));
    while (!why && (one = strsep(&rest, ","))) {
        struct plan_group *g = &w->group[w->n_groups];
        if (w->n_groups == PLAN_GROUPS_MAX)
            why = ALLOWED;
        else if (!(why = parse_group(one, g)) && (g->bytes > left / g->n || (w->n += g->n) > WRITES_MAX))
            why = ALLOWED;
        else
            left -= g->n * g->bytes;
        w->n_groups++;
    }
    free(copy);
    w->n_columns = w->n < PLAN_COLUMNS_MAX ? (uint32_t)w->n : PLAN_COLUMNS_MAX;
    return why ? wrong(text, why) : 0;
}

/* There are no more names than groups, so a new one always has room. */
static struct file *file_named(struct paper *p, const char *name)
{
    char path[TB_PATH_MAX + TB_NAME_MAX];
    for (uint32_t i = 0; i < p->n_files; i++)
        if (strcmp(p->file[i].name, name) == 0)
            return &p->file[i];
    struct file *f = &p->file[p->n_files++];
    *f = (struct file){.name = name, .last.tier = TB_NONE};
    snprintf(path, sizeof(path), "%s/%s", p->config->pfs.path, name);
    if (p->policy->note_name)
        f->memory = p->policy->note_name(&p->config->placement, path);
    return f;
}

/* Heat does not cool: the sequence takes no time. */
static struct tb_placed_file seen(const struct paper *p, const struct file *f)
{
    return (struct tb_placed_file){
        .number = (uint32_t)(f - p->file), .memory = f->memory, .size = f->end, .hottest_memory = p->file[p->state.hottest].memory};
}

/*
 * What the engine tells a policy: room and dirty bytes of each tier. All figures are known,
 * and no queue is ever busy.
 */
static void describe(const struct paper *p, struct tb_hierarchy *h)
{
    *h = (struct tb_hierarchy){.tiers = &p->tiers, .known = ~0u};
    for (uint32_t s = 0; s < p->layout->n_slabs; s++) {
        const struct tb_layout_slab *slab = &p->layout->slab[s];
        h->tier[slab->tier].room += p->n_free[s] * slab->buffer_size;
        h->tier[slab->tier].dirty += p->n_dirty[s] * slab->buffer_size;
    }
}

/*
 * The slab of `tier` that the engine would take a buffer of: the largest that the bytes fill, else the smallest that holds
 * them; TB_NONE where all are full.
 */
static uint32_t best_slab(const struct paper *p, uint32_t tier, uint64_t bytes)
{
    uint32_t best = TB_NONE;
    uint64_t best_size = 0;
    for (uint32_t s = p->layout->tier_first_slab[tier]; tb_is_slab_of(p->layout, s, tier); s++) {
        uint64_t size = p->layout->slab[s].buffer_size;
        bool fills = size <= bytes, best_fills = best != TB_NONE && best_size <= bytes;
        if (p->n_free[s] && (best == TB_NONE || (fills ? !best_fills || size > best_size : !best_fills && size < best_size))) {
            best = s;
            best_size = size;
        }
    }
    return best;
}

/* To the group's sum and to the column of the drawing. The file ends there now: a sequence only appends. */
static void note(struct paper *p, struct file *f, uint32_t place, uint64_t bytes)
{
    p->group->to[place] += bytes;
    p->column[place] += bytes;
    f->end += bytes;
}

/*
 * As much as buffers of `tier` take of the next `bytes` of the file. A buffer covers an aligned range, so one that begins
 * inside of it takes less than its size.
 */
static uint64_t fill(struct paper *p, struct file *f, uint32_t tier, uint64_t bytes)
{
    uint64_t left = bytes;
    for (uint32_t s; left && (s = best_slab(p, tier, left)) != TB_NONE;) {
        uint64_t size = p->layout->slab[s].buffer_size, start = f->end / size * size, part = start + size - f->end;
        part = part < left ? part : left;
        p->n_free[s]--;
        p->n_dirty[s]++;
        f->last = (struct tb_neighbour){tier, start, start + size};
        note(p, f, tier, part);
        left -= part;
    }
    return bytes - left;
}

/* What no tier took. The next write finds no buffer of the file to go on in. */
static void spill(struct paper *p, struct file *f, uint64_t bytes)
{
    f->last.tier = TB_NONE;
    if (p->mode != TB_MODE_SCRATCH)
        note(p, f, p->tiers.n, bytes);
    else
        p->group->refused += bytes;
}

/* Whole buffers, `bytes` of the tier at least, become clean; so many bytes. */
static uint64_t flush(struct paper *p, uint32_t tier, uint64_t bytes)
{
    uint64_t flushed = 0;
    for (uint32_t s = p->layout->tier_first_slab[tier]; tb_is_slab_of(p->layout, s, tier); s++)
        while (p->n_dirty[s] && flushed < bytes) {
            p->n_dirty[s]--;
            p->n_free[s]++;
            flushed += p->layout->slab[s].buffer_size;
        }
    return flushed;
}

/* As layer/data.c asks: neighbours count inside one chunk only. */
static void ask(struct paper *p, const struct file *f, uint64_t bytes, bool may_flush, struct tb_placement *out)
{
    struct tb_hierarchy h;
    struct tb_placed_write w = {
        .file = seen(p, f), .offset = f->end, .bytes = bytes, .may_flush = may_flush, .before = f->last, .after.tier = TB_NONE};
    if (f->end % p->tiers.chunk.bytes == 0)
        w.before.tier = TB_NONE;
    describe(p, &h);
    tb_placement_clear(out);
    p->policy->place(&h, &w, &p->state, out);
}

/* One flush at most, as in the engine: then the policy is asked again and must place what it has. */
static void choose(struct paper *p, struct file *f, uint64_t bytes, bool may_flush, struct tb_placement *to)
{
    ask(p, f, bytes, may_flush && p->mode != TB_MODE_SCRATCH, to);
    if (!to->flush_first)
        return;
    p->group->flushed += flush(p, to->flush_tier, to->flush_first > TB_FLUSH_SOME ? to->flush_first : TB_FLUSH_SOME);
    ask(p, f, bytes, false, to);
}

/* A part ended inside a buffer, which takes what comes next before the policy is asked again. */
static bool has_room_left(const struct file *f, uint64_t begin)
{
    return f->last.tier != TB_NONE && f->end > begin && f->end < f->last.end;
}

/* The parts that find no buffer go to any tier that has one, else to the PFS. */
static uint64_t place(struct paper *p, struct file *f, uint64_t bytes, bool may_flush)
{
    struct tb_placement to;
    bool short_of = p->mode == TB_MODE_SCRATCH;
    uint64_t begin = f->end, full = 0;
    choose(p, f, bytes, may_flush, &to);
    bytes = to.bytes ? to.bytes : bytes;
    for (uint32_t i = 0; i < to.n && !full && !has_room_left(f, begin); i++)
        full = to.part[i].bytes - fill(p, f, to.part[i].tier, to.part[i].bytes);
    if (has_room_left(f, begin))
        return f->end - begin;
    for (uint32_t t = 0; (short_of || full) && t < p->tiers.n && f->end < begin + bytes; t++)
        fill(p, f, t, begin + bytes - f->end);
    if (f->end < begin + bytes)
        spill(p, f, begin + bytes - f->end);
    return bytes;
}

/* Chunk by chunk: first what the last buffer still owns, then what is placed. */
static void write_once(struct paper *p, struct file *f, uint64_t bytes)
{
    struct tb_placed_file file = seen(p, f);
    if (p->policy->note_access)
        f->memory = p->policy->note_access(&p->state, &file);
    if (p->mode == TB_MODE_BYPASS)
        spill(p, f, bytes);
    for (uint64_t done = p->mode == TB_MODE_BYPASS ? bytes : 0, chunk = p->tiers.chunk.bytes; done < bytes;) {
        uint64_t left = bytes - done, rest = chunk - f->end % chunk, piece = left < rest ? left : rest;
        uint64_t owned = f->last.tier != TB_NONE && f->end < f->last.end ? f->last.end - f->end : 0;
        if (owned) {
            owned = owned < piece ? owned : piece;
            note(p, f, f->last.tier, owned);
        }
        done += owned + (owned < piece ? place(p, f, piece - owned, !owned) : 0);
    }
    for (uint32_t t = 0; p->mode == TB_MODE_PERSISTENT_SYNC && t < p->tiers.n; t++)
        flush(p, t, UINT64_MAX);
}

/* Columns of the drawing share the writes evenly. */
static void write_all(struct paper *p, struct plan_writes *w)
{
    uint64_t number = 0;
    for (uint32_t g = 0; g < w->n_groups; g++) {
        p->group = &w->group[g];
        struct file *f = file_named(p, p->group->file);
        for (uint64_t i = 0; i < p->group->n; i++, number++) {
            p->column = w->column[number * w->n_columns / w->n];
            write_once(p, f, p->group->bytes);
        }
    }
}

/* The configuration is copied, because reading its ranges changes it. */
int tb_plan_writes(const struct tb_config *c, const struct tb_layout *l, struct plan_writes *w)
{
    struct tb_config *named = malloc(sizeof(*named)); /* reading the ranges notes them in it once more */
    struct tb_unit_range *units = NULL;
    struct tb_error err = {""};
    if (!named)
        return ctl_fail("no memory");
    *named = *c;
    if (tb_units_read(named, &units, &err))
        return free(named), ctl_fail("%s", err.text);
    struct paper p = {.config = named, .layout = l, .policy = tb_placement_ops_of(c->placement.policy), .mode = c->prefixes[0].mode};
    tb_tiers_of(named, l, units, &p.tiers);
    for (uint32_t s = 0; s < l->n_slabs; s++)
        p.n_free[s] = l->slab[s].n_buffers;
    write_all(&p, w);
    free(units);
    free(named);
    return 0;
}

/* In MiB; the last column is the PFS. */
static void print_row(const char *what, const struct tb_config *c, const struct plan_group *g)
{
    printf("%-32s", what);
    for (uint32_t t = 0; t <= c->n_tiers; t++)
        printf(" %12.2f", (double)g->to[t] / TB_MIB);
    if (g->flushed)
        printf("  %.2f MiB are flushed first", (double)g->flushed / TB_MIB);
    if (g->refused)
        printf("  %.2f MiB find no room", (double)g->refused / TB_MIB);
    puts("");
}

/* The row `all` adds up the groups, in the order of the command line. */
void tb_plan_writes_print(const struct tb_config *c, const struct plan_writes *w)
{
    char what[128], size[32];
    struct plan_group all = {0};
    printf("\nwhere these writes would go, MiB: one writer, %s, an empty instance\n%-32s", tb_policy_name(c->placement.policy), "writes");
    for (uint32_t t = 0; t < c->n_tiers; t++)
        printf(" %12s", c->tiers[t].name);
    printf(" %12s\n", "PFS");
    for (uint32_t g = 0; g < w->n_groups; g++) {
        const struct plan_group *group = &w->group[g];
        snprintf(what, sizeof(what), "%" PRIu64 " x %s to %s", group->n, tb_format_size(group->bytes, size, sizeof(size)), group->file);
        print_row(what, c, group);
        for (uint32_t t = 0; t <= c->n_tiers; t++)
            all.to[t] += group->to[t];
        all.flushed += group->flushed;
        all.refused += group->refused;
    }
    print_row("all", c, &all);
}

/* All in bytes; `n` is how many writes a group has, `bytes` the size of one. */
json_t *tb_plan_writes_json(const struct tb_config *c, const struct plan_writes *w)
{
    json_t *groups = json_array();
    for (uint32_t g = 0; g < w->n_groups; g++) {
        const struct plan_group *group = &w->group[g];
        json_t *tiers = json_object();
        for (uint32_t t = 0; t < c->n_tiers; t++)
            json_object_set_new(tiers, c->tiers[t].name, json_integer((json_int_t)group->to[t]));
        json_array_append_new(groups,
                              json_pack("{s:I s:I s:s s:o s:I s:I s:I}", "n", (json_int_t)group->n, "bytes", (json_int_t)group->bytes,
                                        "file", group->file, "tier_bytes", tiers, "pfs_bytes", (json_int_t)group->to[c->n_tiers],
                                        "flushed_first_bytes", (json_int_t)group->flushed, "refused_bytes", (json_int_t)group->refused));
    }
    return groups;
}
