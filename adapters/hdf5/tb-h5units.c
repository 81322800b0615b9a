/*
 * tb-h5units: the byte ranges of an HDF5 file's data sets, as a table of dispersion
 * units for `placement.units` (docs/hdf5.md).  HDF5 itself says where a data set's
 * bytes are: at one address where it is contiguous, at one a chunk where it is
 * chunked.  What has no bytes of its own in the file (compact, virtual, external or
 * not yet allocated) is named in a comment.
 */
#include <errno.h>
#include <getopt.h>
#include <hdf5.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] = "usage: tb-h5units [--pattern PATTERN] [--unit dataset|chunk] FILE\n"
                            "Prints FILE's data sets as dispersion units.  PATTERN (of paths, * also matches slashes; default: FILE's\n"
                            "absolute path) names the file that they belong to; chunk: each chunk is a unit, not each data set.";

/* In bytes of the file; `set` is an index into the table's names. */
struct range {
    unsigned long long start, length;
    unsigned long long chunk; /* which of its data set, in the order of addresses */
    size_t set;
};

struct table {
    bool by_chunk, out_of_memory;
    size_t n, n_sets;
    struct range *range;
    char **set;
};

/* Room doubles at each power of two. */
static bool grow(void **array, size_t n, size_t each)
{
    if (n & (n - 1)) /* full at each power of two */
        return true;
    void *more = realloc(*array, (n ? 2 * n : 1) * each);
    if (more)
        *array = more;
    return more != NULL;
}

/* The range belongs to the data set that was added last. */
static void add_range(struct table *t, haddr_t start, hsize_t length)
{
    if (!length || start == HADDR_UNDEF)
        return;
    if (!grow((void **)&t->range, t->n, sizeof(*t->range))) {
        t->out_of_memory = true;
        return;
    }
    t->range[t->n++] = (struct range){.start = start, .length = length, .set = t->n_sets - 1};
}

/* A chunk that was never written has no address, and is left out. */
static int add_chunks(struct table *t, hid_t set, hid_t space)
{
    hsize_t n, offset[H5S_MAX_RANK], bytes;
    unsigned filters;
    haddr_t address;
    if (H5Dget_num_chunks(set, space, &n) < 0)
        return -1;
    for (hsize_t i = 0; i < n; i++) {
        if (H5Dget_chunk_info(set, space, i, offset, &filters, &address, &bytes) < 0)
            return -1;
        add_range(t, address, bytes);
    }
    return 0;
}

/*
 * HDF5 shows a contiguous data set without bytes of its own by an undefined address or a size
 * of 0: add_range leaves both out.
 */
static int add_set(struct table *t, hid_t set)
{
    hid_t list = H5Dget_create_plist(set), space = H5Dget_space(set);
    H5D_layout_t layout = H5Pget_layout(list);
    int rc = 0;
    if (layout == H5D_CHUNKED)
        rc = add_chunks(t, set, space);
    else if (layout == H5D_CONTIGUOUS)
        add_range(t, H5Dget_offset(set), H5Dget_storage_size(set));
    H5Sclose(space);
    H5Pclose(list);
    return rc;
}

/*
 * A data set that cannot be opened ends the walk: a table with a part missing would place
 * bytes wrongly.
 */
static herr_t visit(hid_t group, const char *name, const H5O_info_t *info, void *arg)
{
    struct table *t = arg;
    if (info->type != H5O_TYPE_DATASET)
        return 0;
    char *copy = strdup(name);
    if (!copy || !grow((void **)&t->set, t->n_sets, sizeof(*t->set))) {
        t->out_of_memory = true;
        free(copy);
        return -1;
    }
    size_t before = t->n;
    t->set[t->n_sets++] = copy;
    hid_t set = H5Dopen2(group, name, H5P_DEFAULT);
    int rc = set < 0 ? -1 : add_set(t, set);
    /* Printed during the walk: such a line may come before a failure, a range never does. */
    if (rc == 0 && t->n == before)
        printf("# /%s: no bytes of its own in the file\n", name);
    if (set >= 0)
        H5Dclose(set);
    return rc || t->out_of_memory ? -1 : 0;
}

/* No subtraction: an int would cut the difference of two addresses. */
static int by_start(const void *a, const void *b)
{
    const struct range *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

/* Neighbours of one data set are one range, unless each chunk is a unit. */
static void print(const struct table *t, const char *pattern)
{
    printf("file %s\n", pattern);
    for (size_t i = 0, next; i < t->n; i = next) {
        const struct range *r = &t->range[i];
        unsigned long long end = r->start + r->length;
        for (next = i + 1; !t->by_chunk && next < t->n && t->range[next].set == r->set && t->range[next].start == end; next++)
            end += t->range[next].length;
        printf("%llu %llu /%s", r->start, end - r->start, t->set[r->set]);
        if (t->by_chunk)
            printf(" chunk %llu", r->chunk);
        putchar('\n');
    }
}

/* By address, in which the ranges are sorted by now. */
static int number_chunks(struct table *t)
{
    unsigned long long *n = calloc(t->n_sets ? t->n_sets : 1, sizeof(*n));
    for (size_t i = 0; n && i < t->n; i++)
        t->range[i].chunk = n[t->range[i].set]++;
    free(n);
    return n ? 0 : -1;
}

/* 2 is the exit status for every file that no table can be made of. */
static int fail(const char *file, const char *why)
{
    fprintf(stderr, "tb-h5units: %s: %s\n", file, why);
    return 2;
}

/* Whether a chunk's address counts the user block in front of the file is not the same in all versions of HDF5. */
static bool has_user_block(hid_t file)
{
    hid_t list = H5Fget_create_plist(file);
    hsize_t bytes = 0;
    H5Pget_userblock(list, &bytes);
    H5Pclose(list);
    return bytes > 0;
}

/* Everything is read before the first range is printed, so bad input prints none. */
static int list(struct table *t, const char *path, const char *pattern)
{
    char absolute[4096];
    FILE *f = fopen(path, "r"); /* HDF5's own message would not say why */
    if (!f)
        return fail(path, strerror(errno));
    fclose(f);
    if (!pattern && !realpath(path, absolute))
        return fail(path, strerror(errno));
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (file < 0)
        return fail(path, "is no HDF5 file, or is open for writing");
    bool refused = has_user_block(file);
    herr_t visited = refused ? 0 : H5Ovisit(file, H5_INDEX_NAME, H5_ITER_NATIVE, visit, t);
    H5Fclose(file);
    if (refused)
        return fail(path, "has a user block; allowed: files without one");
    if (t->n)
        qsort(t->range, t->n, sizeof(*t->range), by_start);
    if (t->out_of_memory || number_chunks(t))
        return fail(path, "no memory");
    if (visited < 0)
        return fail(path, "a data set cannot be read");
    print(t, pattern ? pattern : absolute);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"pattern", required_argument, NULL, 'p'},
                                            {"unit", required_argument, NULL, 'u'},
                                            {"version", no_argument, NULL, 'V'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    struct table t = {0};
    const char *pattern = NULL;
    for (int c; (c = getopt_long(argc, argv, "h", options, NULL)) != -1;)
        if (c == 'p') {
            pattern = optarg;
        } else if (c == 'u' && (strcmp(optarg, "chunk") == 0 || strcmp(optarg, "dataset") == 0)) {
            t.by_chunk = strcmp(optarg, "chunk") == 0;
        } else if (c == 'u') {
            fprintf(stderr, "tb-h5units: --unit: %s; allowed: dataset, chunk\n", optarg);
            return 2;
        } else if (c == 'V') {
            return puts("tb-h5units " TB_VERSION), 0;
        } else {
            return fprintf(c == 'h' ? stdout : stderr, "%s\n", usage), c == 'h' ? 0 : 2;
        }
    if (optind + 1 != argc)
        return fprintf(stderr, "%s\n", usage), 2;
    /* HDF5 would print a stack of its own functions. */
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    int rc = list(&t, argv[optind], pattern);
    for (size_t i = 0; i < t.n_sets; i++)
        free(t.set[i]);
    free(t.set);
    free(t.range);
    return rc;
}
