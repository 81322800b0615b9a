/*
 * The text file of dispersion units by byte ranges: read line by line into a sorted table,
 * checked for overlaps, and searched for the unit of an offset.
 *
 * The table is one array of all files' ranges, so that it can be in the region as it is: a
 * file is `first` and `n` of it. The process that starts an instance and one that attaches to it
 * may read different versions of the text; the digest in the configuration tells.
 */
#include "config/byte_ranges.h"

#include <assert.h>
#include <errno.h>
#include <fnmatch.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "text/lines.h"

/* Names are kept while their file is read, then only numbers: a range is 24 bytes, and there may be a million. */
struct unit {
    const char *name; /* in the text, which is freed when all of it is read */
    uint32_t number;
};

struct reader {
    struct tb_config *config;
    struct tb_error *err;
    uint32_t line, n, room;
    struct tb_unit_range *range;
    uint32_t n_units; /* of the file that is being read */
    void *units;      /* a tree (tsearch) of struct unit by name */
};

/* One message: file, line, value, what is wrong with it. */
static int refuse(const struct reader *r, const char *value, const char *why)
{
    snprintf(r->err->text, sizeof(r->err->text), "%.400s:%u: %.200s: %s", r->config->placement.units, r->line, value, why);
    return -EINVAL;
}

/* Starts are compared and not subtracted: the difference does not fit an int. */
static int by_start(const void *a, const void *b)
{
    const struct tb_unit_range *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct unit *)a)->name, ((const struct unit *)b)->name);
}

static void forget_units(struct reader *r)
{
    tdestroy(r->units, free);
    r->units = NULL;
    r->n_units = 0;
}

/*
 * All ranges of the last file are known: in order, and each byte in one of them. Two ranges
 * that overlap would make the unit of a byte depend on the order of the lines.
 */
static int end_file(struct reader *r)
{
    struct tb_config_placement *p = &r->config->placement;
    if (!p->n_unit_files)
        return 0;
    struct tb_config_unit_file *f = &p->unit_files[p->n_unit_files - 1];
    assert(f->first <= r->n && r->n <= r->room);
    f->n = r->n - f->first;
    if (f->n)
        qsort(r->range + f->first, f->n, sizeof(*r->range), by_start);
    for (uint32_t i = f->first; i + 1 < r->n; i++)
        if (r->range[i].end > r->range[i + 1].start) {
            char bytes[64];
            snprintf(bytes, sizeof(bytes), "byte %llu of %.30s", (unsigned long long)r->range[i + 1].start, f->pattern);
            return refuse(r, bytes, "is in two ranges; allowed: ranges that don't overlap, above this line");
        }
    forget_units(r);
    return 0;
}

/* A `file` line ends the one before, so each file's ranges are together. */
static int begin_file(struct reader *r, const char *pattern)
{
    struct tb_config_placement *p = &r->config->placement;
    int rc = end_file(r);
    if (rc)
        return rc;
    if (!*pattern || strlen(pattern) >= TB_PATTERN_MAX)
        return refuse(r, pattern, "allowed: file PATTERN, of 1 to 255 bytes");
    if (p->n_unit_files == TB_MAX_UNIT_FILES)
        return refuse(r, pattern, "allowed: at most 32 files");
    struct tb_config_unit_file *f = &p->unit_files[p->n_unit_files++];
    snprintf(f->pattern, sizeof(f->pattern), "%s", pattern);
    f->first = r->n;
    return 0;
}

/* Make room for one range more. Twice as much each time, so a million ranges are copied once or twice each, not often. */
static int grow(struct reader *r)
{
    if (r->n < r->room)
        return 0;
    uint32_t more = r->room ? 2 * r->room : 64;
    struct tb_unit_range *larger = realloc(r->range, more * sizeof(*larger));
    if (!larger)
        return -ENOMEM;
    r->range = larger;
    r->room = more;
    return 0;
}

/* Units are numbered in the order in which they first appear; equal names are one unit. */
static int unit_number(struct reader *r, const char *name, uint32_t *out)
{
    struct unit **found = tfind(&(struct unit){.name = name}, &r->units, by_name);
    if (found)
        return *out = (*found)->number, 0;
    struct unit *added = malloc(sizeof(*added));
    if (!added)
        return -ENOMEM;
    *added = (struct unit){name, r->n_units};
    if (!tsearch(added, &r->units, by_name))
        return free(added), -ENOMEM;
    *out = r->n_units++;
    return 0;
}

/* A number of bytes, and a blank after it. */
static bool take_bytes(const char **text, uint64_t *out)
{
    const char *end;
    if (!tb_digits_read(*text, out, &end) || (*end != ' ' && *end != '\t'))
        return false;
    *text = end + strspn(end, " \t");
    return true;
}

/* Padding is cleared too: the digest of the table is made of its bytes. */
static int add_range(struct reader *r, char *line)
{
    uint64_t offset, length;
    const char *rest = line;
    if (!r->config->placement.n_unit_files)
        return refuse(r, line, "allowed: file PATTERN first");
    if (!take_bytes(&rest, &offset) || !take_bytes(&rest, &length) || !length || length > INT64_MAX - offset || !*rest)
        return refuse(r, line, "allowed: OFFSET LENGTH UNIT, whole bytes, a length of at least 1; or file PATTERN");
    if (r->n == TB_UNIT_RANGES_MAX)
        return refuse(r, line, "allowed: at most 1048576 ranges");
    int rc = grow(r);
    if (rc)
        return rc;
    struct tb_unit_range *range = &r->range[r->n++];
    memset(range, 0, sizeof(*range)); /* no byte of it differs between two readings */
    range->start = offset;
    range->end = offset + length;
    return unit_number(r, rest, &range->unit);
}

static int read_line(void *arg, uint32_t number, char *line)
{
    struct reader *r = arg;
    r->line = number;
    if (strncmp(line, "file", 4) == 0 && (line[4] == ' ' || line[4] == '\t' || !line[4]))
        return begin_file(r, line + 4 + strspn(line + 4, " \t"));
    return add_range(r, line);
}

/* On failure nothing is left allocated, and the counts are 0. */
int tb_units_read(struct tb_config *c, struct tb_unit_range **out, struct tb_error *err)
{
    struct reader r = {.config = c, .err = err};
    struct tb_config_placement *p = &c->placement;
    *out = NULL;
    p->n_unit_files = p->n_unit_ranges = 0;
    if (!p->units[0])
        return 0;
    int rc = tb_lines_read(p->units, read_line, &r, err);
    r.line++; /* what is found at the end is told of the line after the last entry */
    if (!rc)
        rc = end_file(&r);
    if (rc == -ENOMEM)
        snprintf(err->text, sizeof(err->text), "%.400s: no memory for its ranges", p->units);
    forget_units(&r);
    if (rc) {
        free(r.range);
        return rc;
    }
    p->n_unit_ranges = r.n;
    p->units_digest = XXH3_64bits(r.range, r.n * sizeof(*r.range));
    *out = r.range;
    return 0;
}

/* The first pattern that matches counts, as with rules. 0 is "none", so a file record can keep the answer as it is. */
uint32_t tb_units_of_path(const struct tb_config_placement *p, const char *path)
{
    for (uint32_t i = 0; i < p->n_unit_files; i++)
        if (fnmatch(p->unit_files[i].pattern, path, 0) == 0)
            return i + 1;
    return 0;
}

/*
 * A binary search, as it is asked for every placed write. Without a range, the gap around the
 * offset is returned, so that the caller need not ask again for each byte of it.
 */
const struct tb_unit_range *tb_units_find(const struct tb_config_placement *p, const struct tb_unit_range *ranges, uint32_t of_path,
                                          uint64_t offset, uint64_t *gap_start, uint64_t *gap_end)
{
    *gap_start = 0;
    *gap_end = UINT64_MAX;
    if (!of_path)
        return NULL;
    const struct tb_config_unit_file *f = &p->unit_files[of_path - 1];
    assert(of_path <= p->n_unit_files);
    const struct tb_unit_range *range = ranges + f->first;
    uint32_t lo = 0, hi = f->n; /* those before `lo` begin at or before `offset` */
    while (lo < hi) {
        uint32_t middle = lo + (hi - lo) / 2;
        if (range[middle].start <= offset)
            lo = middle + 1;
        else
            hi = middle;
    }
    assert(lo == 0 || range[lo - 1].start <= offset);
    if (lo && offset < range[lo - 1].end)
        return &range[lo - 1];
    if (lo)
        *gap_start = range[lo - 1].end;
    if (lo < f->n)
        *gap_end = range[lo].start;
    return NULL;
}
