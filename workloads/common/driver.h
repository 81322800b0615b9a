/*
 * What tb-ior and tb-mdtest share: command lines as tables, the ranks and their nodes, the bytes written, and the
 * facts of machine and file system that every report opens with.
 */
#ifndef TB_DRIVER_H
#define TB_DRIVER_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { TB_EXIT_DATA = 1, TB_EXIT_USAGE = 2, TB_EXIT_IO = 3 };

#define TB_MIB 1048576.0

/* options.c. A table has one row per option, ends with an empty row, and says which field the option sets. */
enum tb_kind {
    TB_FLAG,  /* bool; takes no value on the command line, 0 or 1 in a directive */
    TB_COUNT, /* int that each mention increments */
    TB_INT,
    TB_SIZE, /* int64_t, with suffix k, m, g or t */
    TB_TEXT, /* const char * */
    TB_TAKE, /* a function reads the value */
    TB_IGNORED_FLAG,
    TB_IGNORED, /* accepted with its value, without effect */
    TB_REFUSED, /* of the real program only; `help` says why, or what takes its place */
};
struct tb_complaint {
    char text[4352];
};
struct tb_option {
    char letter;      /* '\0': none */
    const char *name; /* after "--" and as a directive; NULL: none */
    enum tb_kind kind;
    size_t offset;
    int64_t least, most; /* of TB_INT and TB_SIZE */
    bool (*take)(void *options, const char *option, const char *value, struct tb_complaint *c);
    const char *help; /* NULL: not listed */
};
bool tb_options_read(const struct tb_option *table, void *options, int argc, char **argv, struct tb_complaint *c);
/* Sets the option of that name whatever its case, as `-O name=value` does. */
bool tb_directive(const struct tb_option *table, void *options, const char *name, const char *value, struct tb_complaint *c);
void tb_options_help(const struct tb_option *table, const char *program, FILE *out);
/* Both return false, for `return tb_wrong(...)`. */
bool tb_wrong(struct tb_complaint *c, const char *option, const char *value, const char *allowed);
bool tb_complain(struct tb_complaint *c, const char *text);

/*
 * What options may not be together, as a table that ends with NULL. The first rule that is
 * broken is told; so a rule may rely on those before it. A driver makes its table of one
 * list of RULE(name, condition, text), where `o` are its options and `tasks` all ranks:
 *
 *   RULES(TB_RULE_FUNCTION)
 *   static const struct tb_rule rules[] = {RULES(TB_RULE_ROW){NULL, NULL}};
 */
struct tb_rule {
    bool (*is_broken)(const void *options, int tasks);
    const char *text;
};
#define TB_RULE_FUNCTION(name, condition, text)      \
    static bool name(const void *options, int tasks) \
    {                                                \
        const struct tb_options *o = options;        \
        (void)tasks;                                 \
        return condition;                            \
    }
#define TB_RULE_ROW(name, condition, text) {name, text},
bool tb_rules_hold(const struct tb_rule *rules, const void *options, int tasks, struct tb_complaint *c);

/* names.c: NAME1@NAME2. */
int tb_count_names(const char *list);
int tb_name_of(const char *list, int number, const char **name); /* on which that rank works; its length */

/* world.c */
struct tb_world {
    int rank, tasks, nodes, tasks_per_node;
    MPI_Comm comm;       /* of all of them */
    double clock_offset; /* of this node's clock to rank 0's */
};
struct tb_world tb_look_around(MPI_Comm comm);
double tb_clock(const struct tb_world *w); /* seconds of rank 0's clock: times of different ranks can be compared */
/* `--version`, or `--help` of a usage, as the only word: rank 0 answers. False: it is neither. */
bool tb_answered(const struct tb_world *w, int argc, char **argv, const char *usage);
_Noreturn void tb_fail(const char *path, const char *what, int64_t offset, const char *reason);
void *tb_buffer(size_t bytes); /* aligned to 4 KiB; ends all ranks where there is no memory */

/*
 * pattern.c: the content of a transfer. Word i holds the owner's rank above and the signature plus i below, all of it
 * a signed sum of 32 bits; bytes beyond the last whole word hold their own index. Other packets differ from transfer
 * to transfer by its place: the offset of IOR's, the item of mdtest's.
 */
enum tb_packet { TB_TIMESTAMP, TB_OFFSET, TB_INCOMPRESSIBLE, TB_RANDOM };
struct tb_pattern {
    enum tb_packet packet;
    uint32_t signature;
};
bool tb_take_packet(enum tb_packet *packet, const char *option, const char *value, struct tb_complaint *c);
void tb_fill(const struct tb_pattern *p, void *data, size_t bytes, int owner);                /* once */
void tb_mark(const struct tb_pattern *p, void *data, size_t bytes, int owner, int64_t place); /* then each transfer */
void tb_spoil(void *data, size_t bytes);                                                      /* changes a word in every 512 bytes */
int64_t tb_first_difference(const struct tb_pattern *p, const void *data, size_t bytes, int owner, int64_t place);
/* Distinct numbers give distinct numbers that look random: the finisher of splitmix64. */
static inline uint64_t tb_scramble(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* posix.c */
struct tb_posix_file {
    const char *path;
    int fd;
    bool single_attempt, range_locks, direct;
};
void tb_posix_write(const struct tb_posix_file *f, const void *data, size_t bytes, int64_t offset);
void tb_posix_read(const struct tb_posix_file *f, void *data, size_t bytes, int64_t offset);

/* machine.c */
struct tb_file_system {
    double capacity_gib, used_percent, inodes_mi, used_inodes_percent;
};
struct tb_file_system tb_file_system_of(const char *dir);
void tb_print_file_system(FILE *out, const struct tb_file_system *fs);
char *tb_join(int argc, char **argv, const char *quote); /* the command line as one string; the caller frees it */

#endif
