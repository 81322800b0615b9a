/*
 * tierctl: starts, watches, drains and recovers instances, and runs programs under them. A
 * command is a row of `tb_commands` (commands.c), which help, man page, completion and the
 * reading of options are made of.
 */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "common/ctl.h"
#include "common/help.h"

/* A word with one or two wrong letters is most likely that command; a list of all would hide it. */
static int unknown_command(const char *name)
{
    const struct ctl_command *near = ctl_nearest(tb_commands, name);
    if (near)
        return ctl_fail("unknown command %s; the nearest is %s (all: tierctl --help)", name, near->name);
    return ctl_fail("unknown command %s; all: tierctl --help", name);
}

static int take(void *into, char key, const char *value)
{
    (void)value;
    *(char *)into = key;
    return 0;
}

/* help COMMAND is the same as COMMAND --help. */
int tb_help_command(const struct ctl_command *self, int argc, char **argv)
{
    char form = 0;
    int rc = ctl_parse(self, argc, argv, take, &form);
    if (rc)
        return rc;
    const struct ctl_command *which = optind < argc ? ctl_find(tb_commands, argv[optind]) : NULL;
    if (optind < argc && form)
        return ctl_misused(self, "--man and --bash are of all commands");
    if (optind < argc && !which)
        return unknown_command(argv[optind]);
    if (which)
        ctl_help(which, stdout);
    else
        (form == 'M' ? ctl_man : form == 'B' ? ctl_bash : ctl_help_all)(tb_commands, stdout);
    return 0;
}

/* Tells an adapter that a program under tiers started this with, to stay out of it (adapters/preload/core/attach.c). */
extern const char tb_is_tool;
const char tb_is_tool __attribute__((visibility("default"), used)) = 1;

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--version") == 0)
        return printf("tierctl %s (%s)\n", TB_VERSION, TB_COMMIT), 0;
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
        return ctl_help_all(tb_commands, stdout), 0;
    if (argc < 2)
        return ctl_help_all(tb_commands, stderr), EXIT_BAD_INPUT;
    const struct ctl_command *command = ctl_find(tb_commands, argv[1]);
    if (!command)
        return unknown_command(argv[1]);
    /*
     * From here on, a wait for a stopped process is said, and a wait that is in vain ends the
     * command.
     */
    tb_wait_listen(ctl_say_wait, NULL);
    tb_wait_listen_here(ctl_give_up, NULL);
    return command->run(command, argc - 1, argv + 1);
}
