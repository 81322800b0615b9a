/*
 * The clock, the compute and the result of programs of steps. Ranks wait for each other asleep: MPI's own barrier
 * spins, and where ranks outnumber cores that takes time from the threads that move bytes.
 */
#include "steps.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LOOK_NS 20000 /* how often a waiting rank looks */

/* A signal does not shorten the compute: what is left is slept again. */
static void sleep_ns(int64_t ns)
{
    struct timespec left = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    while (nanosleep(&left, &left) && errno == EINTR)
        continue;
}

/* MPI_Test is what moves the barrier on, so it is called again and again between the pauses. */
void tb_step_wait(MPI_Comm comm)
{
    MPI_Request all;
    int done = 0;
    MPI_Ibarrier(comm, &all);
    MPI_Test(&all, &done, MPI_STATUS_IGNORE);
    while (!done) {
        sleep_ns(LOOK_NS);
        MPI_Test(&all, &done, MPI_STATUS_IGNORE);
    }
}

/* All ranks begin together, so the seconds of a step are those of the slowest and hold no waiting for a late start. */
double tb_step_begin(const struct tb_world *w)
{
    tb_step_wait(w->comm);
    return MPI_Wtime();
}

void tb_step_end(const struct tb_world *w, double began, double *seconds)
{
    tb_step_wait(w->comm);
    *seconds += MPI_Wtime() - began;
}

/* The time since `began` counts as compute, whatever was done in it: filling the arrays is a part of it. */
void tb_step_compute(double began, int64_t microseconds)
{
    double left = began + (double)microseconds / 1e6 - MPI_Wtime();
    if (left > 0)
        sleep_ns((int64_t)(left * 1e9));
}

/* A file that was closed already is opened again: fsync puts its bytes on the device, no matter which process wrote them. */
static void sync_file(const char *path)
{
    int fd = open(path, O_RDWR);
    if (fd < 0)
        tb_fail(path, "open", -1, strerror(errno));
    if (fsync(fd))
        tb_fail(path, "fsync", -1, strerror(errno));
    if (close(fd))
        tb_fail(path, "close", -1, strerror(errno));
}

/* Every rank takes part, also one without a path: the time is that of all. */
void tb_step_flush(const struct tb_world *w, const char *path, double *seconds)
{
    double began = tb_step_begin(w);
    if (path)
        sync_file(path);
    tb_step_end(w, began, seconds);
}

/* All ranks have to call it, also those that found nothing wrong. */
bool tb_step_any(const struct tb_world *w, bool mine)
{
    int any = mine;
    MPI_Allreduce(MPI_IN_PLACE, &any, 1, MPI_INT, MPI_LOR, w->comm);
    return any;
}

/* Compute is not in it. */
static double io_seconds(const struct tb_steps *s)
{
    return s->open_s + s->write_s + s->read_s + s->close_s + s->flush_s;
}

static void print_text(const struct tb_world *w, const struct tb_steps *s, const char *command)
{
    printf(TB_PROGRAM "-" TB_VERSION ": %d ranks on %d nodes, %d steps\n", w->tasks, w->nodes, s->steps);
    printf("Command line: %s\n", command);
    printf("Bytes written: %lld in %d files\nBytes read: %lld\n", (long long)s->bytes_written, s->files, (long long)s->bytes_read);
    printf("Seconds: open %.6f, write %.6f, read %.6f, close %.6f, flush %.6f, compute %.6f\n", s->open_s, s->write_s, s->read_s,
           s->close_s, s->flush_s, s->compute_s);
    printf("I/O time: %.6f s\n", io_seconds(s));
    if (s->bytes_read)
        printf("Contents: %s\n", s->wrong ? "NOT as written" : "as written");
}

/* A command line may hold quotes and backslashes; what else JSON forbids is left out. */
static void print_string(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', out);
        if ((unsigned char)*text >= ' ')
            fputc(*text, out);
    }
    fputc('"', out);
}

static void print_json(FILE *out, const struct tb_world *w, const struct tb_steps *s, const char *command)
{
    fprintf(out, "{\"program\": \"%s\", \"version\": \"%s\", \"command\": ", TB_PROGRAM, TB_VERSION);
    print_string(out, command);
    fprintf(out, ", \"ranks\": %d, \"nodes\": %d, \"steps\": %d, \"files\": %d, ", w->tasks, w->nodes, s->steps, s->files);
    fprintf(out, "\"bytes_written\": %lld, \"bytes_read\": %lld, ", (long long)s->bytes_written, (long long)s->bytes_read);
    fprintf(out, "\"open_s\": %.6f, \"write_s\": %.6f, \"read_s\": %.6f, \"close_s\": %.6f, ", s->open_s, s->write_s, s->read_s,
            s->close_s);
    fprintf(out, "\"flush_s\": %.6f, \"compute_s\": %.6f, ", s->flush_s, s->compute_s);
    fprintf(out, "\"io_s\": %.6f, \"as_written\": %s}\n", io_seconds(s), !s->bytes_read ? "null" : s->wrong ? "false" : "true");
}

/* A result that cannot be kept is a failed run: its reader would find an older one. */
static void write_json(const char *path, const struct tb_world *w, const struct tb_steps *s, const char *command)
{
    FILE *out = fopen(path, "w");
    if (!out)
        tb_fail(path, "open", -1, strerror(errno));
    print_json(out, w, s, command);
    if (fclose(out))
        tb_fail(path, "write", -1, strerror(errno));
}

static int report(const struct tb_world *w, const struct tb_steps *s, const char *command, const char *json)
{
    if (w->rank == 0) {
        print_text(w, s, command);
        if (json)
            write_json(json, w, s, command);
    }
    return s->wrong ? TB_EXIT_DATA : 0;
}

/* Up to what an int holds: these numbers are counts of MPI. */
bool tb_steps_number(const char *what, const char *word, int64_t *value, struct tb_complaint *c)
{
    char *end;
    errno = 0;
    *value = strtoll(word, &end, 10);
    if (end != word && !*end && !errno && *value >= 1 && *value <= INT32_MAX)
        return true;
    return tb_wrong(c, what, word, "a whole number from 1 to 2147483647");
}

/* The words come first, as in the originals' command lines; the options follow. */
static bool read_line(const struct tb_steps_program *p, int argc, char **argv, int tasks, struct tb_complaint *c)
{
    int words = 0;
    while (words + 1 < argc && argv[words + 1][0] != '-')
        words++;
    return p->take_words(p->options, words, argv + 1, c) && tb_options_read(p->table, p->options, argc - words, argv + words, c) &&
           tb_rules_hold(p->rules, p->options, tasks, c);
}

/* Every rank reads the same command line and refuses it alike; only rank 0 says why. */
static int run_line(const struct tb_steps_program *p, int argc, char **argv)
{
    struct tb_world w = tb_look_around(MPI_COMM_WORLD);
    struct tb_complaint c;
    if (tb_answered(&w, argc, argv, NULL))
        return 0;
    if (argc == 2 && !strcmp(argv[1], "--help")) {
        if (w.rank == 0)
            tb_options_help(p->table, p->usage, stdout);
        return 0;
    }
    if (!read_line(p, argc, argv, w.tasks, &c)) {
        if (w.rank == 0)
            fprintf(stderr, TB_PROGRAM ": %s; usage: %s [options]\n", c.text, p->usage);
        return TB_EXIT_USAGE;
    }
    double began = tb_step_begin(&w);
    struct tb_steps steps = p->run(p->options, &w);
    steps.compute_s = MPI_Wtime() - began - io_seconds(&steps);
    char *command = tb_join(argc, argv, "");
    int status = report(&w, &steps, command ? command : "", *p->json);
    free(command);
    return status;
}

int tb_steps_main(int argc, char **argv, const struct tb_steps_program *p)
{
    MPI_Init(&argc, &argv);
    int status = run_line(p, argc, argv);
    MPI_Finalize();
    return status;
}
