/*
 * The file of stoneWallingStatusFile, which tells a later read how many transfers there are. IOR's holds one count, that
 * of all ranks. Where ranks differ (without wear-out) the least comes first, which IOR takes, and then each rank's.
 */
#include "tb_ior.h"

#include <errno.h>
#include <string.h>

/* One number without a new line where all ranks did the same, as IOR writes it. */
static void write_counts(FILE *f, const int64_t *counts, int ranks)
{
    int64_t least = counts[0], most = counts[0];
    for (int i = 1; i < ranks; i++) {
        least = counts[i] < least ? counts[i] : least;
        most = counts[i] > most ? counts[i] : most;
    }
    fprintf(f, "%lld", (long long)least);
    for (int i = 0; i < ranks && least < most; i++)
        fprintf(f, "\n%lld", (long long)counts[i]);
}

/* Opened to append: what an earlier run left stays until there are new counts. */
void tb_status_prepare(const char *path)
{
    FILE *f = fopen(path, "a");
    if (!f || fclose(f))
        tb_fail(path, "open", -1, strerror(errno));
}

/*
 * Written in place: a kill leaves a cut file, refused later or read as smaller counts.
 */
void tb_status_save(const char *path, const int64_t *counts, int ranks)
{
    FILE *f = fopen(path, "w");
    if (!f)
        tb_fail(path, "open", -1, strerror(errno));
    write_counts(f, counts, ranks);
    bool written = !ferror(f);
    if (fclose(f) || !written)
        tb_fail(path, "write", -1, strerror(errno));
}

/* More transfers than a rank has in this test mean that the file is of another test. */
static bool read_count(FILE *f, int64_t most, int64_t *count)
{
    long long number;
    if (fscanf(f, "%lld", &number) != 1 || number < 0 || number > most)
        return false;
    *count = number;
    return true;
}

/* One number is for all ranks; more must be one for each rank, and nothing after them. */
static bool read_counts(FILE *f, int64_t most, int64_t *counts, int ranks)
{
    int64_t least;
    char more;
    if (!read_count(f, most, &least))
        return false;
    bool one = fscanf(f, " %c", &more) == EOF;
    if (!one)
        ungetc(more, f);
    for (int i = 0; i < ranks; i++) {
        counts[i] = least;
        if (!one && !read_count(f, most, &counts[i]))
            return false;
    }
    return fscanf(f, " %c", &more) == EOF;
}

/* A file of another number of ranks is refused: a read would look for bytes that no rank wrote. */
void tb_status_load(const char *path, int64_t most, int64_t *counts, int ranks)
{
    FILE *f = fopen(path, "r");
    if (!f)
        tb_fail(path, "open", -1, strerror(errno));
    if (!read_counts(f, most, counts, ranks))
        tb_fail(path, "read", -1, "not the transfers of the ranks of this run");
    fclose(f);
}
