/*
 * The CSV of --saveRankPerformanceDetails: a row `all` of the first iteration, then a row per rank and iteration. Its
 * columns are mdtest's, with those of a directory read that no program makes.
 */
#include "tb_mdtest.h"

#include <errno.h>
#include <string.h>

/* Before anything is measured: a run must not find at its end that its table has no place. */
FILE *tb_ranks_open(const char *path)
{
    FILE *f = fopen(path, "w");
    if (!f) {
        fprintf(stderr, "%s: --saveRankPerformanceDetails: %s: %s\n", TB_PROGRAM, path, strerror(errno));
        return NULL;
    }
    fprintf(f, "rank,items");
    for (enum tb_operation op = 0; op < TB_OPERATIONS; op++) {
        if (op == TB_DIR_RENAME)
            fprintf(f, ",rate-Directory read,time-Directory read");
        fprintf(f, ",rate-%s,time-%s", tb_operation_name(op), tb_operation_name(op));
    }
    fprintf(f, "\n");
    return f;
}

/* Empty where an operation did not run. */
static void write_cell(FILE *f, double seconds, int64_t items)
{
    if (items && seconds > 0)
        fprintf(f, ",%.10e,%.10e", (double)items / seconds, seconds);
    else
        fprintf(f, ",,");
}

/* The two columns of the directory read, which is never made, are empty. */
static void write_cells(FILE *f, const double *seconds, const int64_t *items, enum tb_operation end)
{
    for (enum tb_operation op = 0; op < end; op++) {
        if (op == TB_DIR_RENAME)
            fprintf(f, ",,");
        write_cell(f, seconds[op], items[op]);
    }
    fprintf(f, "\n");
}

/* Rows of ranks end before the operations on the tree, as mdtest's do. */
void tb_ranks_write(const struct tb_report *report, int64_t items)
{
    FILE *f = report->rank_file;
    fprintf(f, "all,%lld", (long long)items);
    write_cells(f, report->results[0].seconds, report->results[0].items, TB_OPERATIONS);
    for (int i = 0; i < report->options->iterations * report->tasks; i++) {
        fprintf(f, "%d,", i % report->tasks);
        write_cells(f, report->rank_seconds + (size_t)i * TB_OPERATIONS, report->rank_items + (size_t)i * TB_OPERATIONS, TB_TREE_CREATE);
    }
}

/* A full disk may show only now. */
void tb_ranks_close(FILE *f, const char *path)
{
    bool good = !ferror(f);
    if (fclose(f) || !good)
        tb_fail(path, "write", -1, strerror(errno));
}
