/*
 * The file system under test and the command line, as every report states them. They say what
 * a number was measured on; a file system that gives no figures is reported as zeros.
 */
#include "driver.h"

#include <string.h>
#include <sys/statvfs.h>

static double percent_used(double all, double free)
{
    return all > 0 ? (1 - free / all) * 100 : 0;
}

/* All zeros where it cannot be asked: a report without these figures is better than none. */
struct tb_file_system tb_file_system_of(const char *dir)
{
    struct statvfs fs;
    if (statvfs(dir, &fs))
        return (struct tb_file_system){0};
    return (struct tb_file_system){
        .capacity_gib = (double)fs.f_blocks * (double)fs.f_frsize / (1024 * TB_MIB),
        .used_percent = percent_used((double)fs.f_blocks, (double)fs.f_bfree),
        .inodes_mi = (double)fs.f_files / TB_MIB,
        .used_inodes_percent = percent_used((double)fs.f_files, (double)fs.f_ffree),
    };
}

void tb_print_file_system(FILE *out, const struct tb_file_system *fs)
{
    fprintf(out, "FS                  : %.1f GiB   Used FS: %.1f%%   Inodes: %.1f Mi   Used Inodes: %.1f%%\n", fs->capacity_gib,
            fs->used_percent, fs->inodes_mi, fs->used_inodes_percent);
}

/* Quoted as the report wants it, not as a shell would: it is for people to read. */
char *tb_join(int argc, char **argv, const char *quote)
{
    char *line = NULL;
    size_t size;
    FILE *f = open_memstream(&line, &size);
    if (!f)
        return NULL;
    fprintf(f, "%s", argv[0]);
    for (int i = 1; i < argc; i++)
        fprintf(f, " %s%s%s", quote, argv[i], quote);
    fclose(f);
    return line;
}
