/*
 * Start and end: the command line, the time, the report, and one exit status for all. tb-find
 * takes the words of find that IO500 uses, and no others; a result is printed only if every
 * directory could be read.
 */
#include "tb_find.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char usage[] = "usage: tb-find DIR [-newer FILE] [-size BYTESc] [-name PATTERN]";

/* find counts blocks unless the size ends in c; here only bytes are meant, so c is required. */
static bool take_size(const char *text, int64_t *size)
{
    char *end;
    errno = 0;
    *size = strtoll(text, &end, 10);
    return end != text && !strcmp(end, "c") && !errno && *size >= 0;
}

/* -name and -newer take any word: only -size has a form to keep. */
static bool take_test(struct tb_wanted *wanted, const char *test, const char *value, struct tb_complaint *c)
{
    if (!strcmp(test, "-newer")) {
        wanted->newer_than = value;
        return true;
    }
    if (!strcmp(test, "-name")) {
        wanted->name = value;
        return true;
    }
    if (!strcmp(test, "-size"))
        return take_size(value, &wanted->size) || tb_wrong(c, test, value, "bytes and c, such as 3901c");
    return tb_wrong(c, "argument", test, "-newer, -size or -name");
}

/* Words come in pairs, and a later one replaces an earlier one. */
static bool take_line(struct tb_wanted *wanted, int argc, char **argv, struct tb_complaint *c)
{
    *wanted = (struct tb_wanted){.size = -1};
    if (argc < 2 || argv[1][0] == '-')
        return tb_complain(c, usage);
    wanted->start = argv[1];
    for (int i = 2; i < argc; i += 2) {
        if (i + 1 == argc) {
            snprintf(c->text, sizeof(c->text), "a value is missing after %s; %s", argv[i], usage);
            return false;
        }
        if (!take_test(wanted, argv[i], argv[i + 1], c))
            return false;
    }
    return true;
}

/* Rank 0 looks, so that all ranks compare with the same time. */
static bool find_reference(struct tb_wanted *wanted, const struct tb_world *w, struct tb_complaint *c)
{
    struct stat st = {0};
    int64_t told[3] = {0};
    if (!wanted->newer_than)
        return true;
    if (w->rank == 0 && stat(wanted->newer_than, &st))
        told[0] = errno;
    told[1] = st.st_mtim.tv_sec;
    told[2] = st.st_mtim.tv_nsec;
    MPI_Bcast(told, 3, MPI_INT64_T, 0, w->comm);
    wanted->since = (struct timespec){.tv_sec = (time_t)told[1], .tv_nsec = (long)told[2]};
    return !told[0] || tb_wrong(c, "-newer", wanted->newer_than, "a file that exists");
}

/* MATCHED is the line that IO500 reads: how many fit, of how many files. */
static void report(const struct tb_found *found, const struct tb_world *w, double seconds, const char *line)
{
    printf("%s-%s was launched with %d total task(s) on %d node(s)\n", TB_PROGRAM, TB_VERSION, w->tasks, w->nodes);
    printf("Command line used: %s\n", line);
    printf("Looked at: %lld\n", (long long)found->looked_at);
    printf("MATCHED %lld/%lld\n", (long long)found->matched, (long long)found->files);
    printf("Duration: %10.6f\n", seconds);
    printf("Rate: %.3f files/s\n", (double)found->files / seconds);
}

/* The time is from one barrier to the last rank's end, without reading the command line. */
static int find(const struct tb_wanted *wanted, const struct tb_world *w, const char *line)
{
    MPI_Barrier(w->comm);
    double start = MPI_Wtime();
    struct tb_found found = tb_walk(wanted, w);
    double seconds = MPI_Wtime() - start;
    if (w->rank == 0 && found.failures)
        fprintf(stderr, "%s: %lld directories or files could not be visited: no result\n", TB_PROGRAM, (long long)found.failures);
    else if (w->rank == 0)
        report(&found, w, seconds, line);
    return found.failures ? TB_EXIT_DATA : 0;
}

/* All ranks read the same line, so all refuse it together, and rank 0 says why. */
int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    struct tb_world w = tb_look_around(MPI_COMM_WORLD);
    struct tb_wanted wanted;
    struct tb_complaint c;
    int status = TB_EXIT_USAGE;
    char *line = tb_join(argc, argv, "'");
    if (tb_answered(&w, argc, argv, usage))
        status = 0;
    else if (take_line(&wanted, argc, argv, &c) && find_reference(&wanted, &w, &c))
        status = find(&wanted, &w, line ? line : argv[0]);
    else if (w.rank == 0)
        fprintf(stderr, "%s: %s\n", TB_PROGRAM, c.text);
    free(line);
    bool written = fflush(stdout) == 0;
    if (!written && w.rank == 0)
        fprintf(stderr, "%s: standard output: the report could not be written\n", TB_PROGRAM);
    MPI_Finalize();
    return status ? status : written ? 0 : TB_EXIT_IO;
}
