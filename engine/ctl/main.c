/* tierctl: starts, watches, drains and recovers instances, and runs programs under them. */
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "common/ctl.h"

static const struct {
    const char *name, *does;
    int (*run)(int, char **);
} commands[] = {
    {"run", "-c CONFIG [--mode M] [--stats OUT.json] [--keep] -- CMD...  run CMD under a private instance", tb_run_command},
    {"start", "-c CONFIG [-i NAME]                start an instance", tb_start_command},
    {"stop", "[-i NAME] [--force]                 drain and remove it", tb_stop_command},
    {"status", "[-i NAME] [--json] [--watch]        its tiers, counters and errors", tb_status_command},
    {"drain", "[-i NAME] [--wait]                  flush everything to the PFS", tb_drain_command},
    {"recover", "-c CONFIG                           put on the PFS what a dead instance promised", tb_recover_command},
    {"gc", "                                    recover every instance without living processes", tb_gc_command},
    {"plan", "CONFIG [--json] [--svg FILE]        tiers, slabs, buffer counts and the region's size", tb_plan_command},
    {"check", "CONFIG                              is it right, and does this machine have what it needs?", tb_check_command},
    {"profile", "CONFIG [-o DIRECTORY]               measure its places; a device file for each", tb_profile_command},
    {"import-hermes", "FILE.conf                   translate a Hermes configuration", tb_import_hermes_command},
};

static void usage(FILE *out)
{
    fputs("usage: tierctl COMMAND ...\n\n", out);
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        fprintf(out, "  %-14s %s\n", commands[i].name, commands[i].does);
    fputs("\ntierctl COMMAND --help says more. Exit status: 0 done, 2 bad input, 3 a drain failed.\n", out);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--version") == 0)
        return printf("tierctl %s (%s)\n", TB_VERSION, TB_COMMIT), 0;
    if (argc > 1 && strcmp(argv[1], "--help") == 0)
        return usage(stdout), 0;
    tb_wait_listen(ctl_say_wait, NULL);
    tb_wait_listen_here(ctl_give_up, NULL);
    for (size_t i = 0; argc > 1 && i < sizeof(commands) / sizeof(commands[0]); i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    if (argc > 1)
        fprintf(stderr, "tierctl: unknown command: %s\n", argv[1]);
    usage(stderr);
    return 2;
}
