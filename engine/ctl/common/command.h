/*
 * What a command takes, as one table: its options are read by it, and its --help,
 * the man page and the completion are written from it (help.h), so that none of
 * them knows an option that another does not.
 */
#ifndef TB_CTL_COMMAND_H
#define TB_CTL_COMMAND_H

#include <stdbool.h>

struct ctl_option {
    const char *name;    /* --NAME; NULL: an operand, a word without dashes */
    char key;            /* what `take` is told; in upper case the option has no short form */
    const char *value;   /* what follows it, for people; "[=VALUE]" may be left out; NULL: nothing follows */
    const char *meaning; /* a sentence */
    const char *allowed; /* values */
    const char *missing; /* what holds where it is not given */
    const char *example; /* as it is typed; NULL where nothing follows */
};

struct ctl_command;
typedef int ctl_run(const struct ctl_command *self, int argc, char **argv);

struct ctl_command {
    const char *name, *does;
    const char *synopsis; /* a line each form, what follows its name */
    const char *about;    /* NULL: `does` says it all */
    const char *example;  /* whole command lines */
    bool starts_another;  /* what follows the first operand is another program's */
    const struct ctl_option *options;
    ctl_run *run;
};

/* `value` NULL: none was given. 0, or an exit status. */
typedef int ctl_take(void *into, char key, const char *value);

/*
 * Give each option to `take`; from argv[optind] on are operands, at most as many as
 * the table has. --help is answered, and ends the process. 0, or EXIT_BAD_INPUT, said.
 */
int ctl_parse(const struct ctl_command *self, int argc, char **argv, ctl_take *take, void *into);

/* A wrong command line: one line, which ends in where to read more. EXIT_BAD_INPUT. */
int ctl_misused(const struct ctl_command *self, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The command of that name; NULL. `all` ends in an entry without name. */
const struct ctl_command *ctl_find(const struct ctl_command *all, const char *name);

/* The command with the nearest name, after a typing error; NULL: none is near. */
const struct ctl_command *ctl_nearest(const struct ctl_command *all, const char *name);

#endif
