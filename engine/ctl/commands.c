/*
 * What every command takes.  --help, the man page and the completion are written from this
 * (common/help.h), and the command lines read by it (common/command.h). Each row has the long
 * name, the key, the word for the value, the meaning, what is allowed, the default and an
 * example. A key in lower case is also a letter of the command line; one in upper case only
 * tells options apart.
 */
#include <stddef.h>

#include "commands.h"

/* Rows that several commands have are written once, so their words are the same in each help. */
#define END_OF_OPTIONS {0}
#define CONFIG                                                                    \
    {"config",                                                                    \
     'c',                                                                         \
     "CONFIG",                                                                    \
     "the tiers to use; given twice, the second file's keys replace the first's", \
     "a file (docs/configuration.md)",                                            \
     "none, it is required",                                                      \
     "-c configs/tiers/ram.yaml"}
#define MODE                                                      \
    {"mode",                                                      \
     'M',                                                         \
     "MODE",                                                      \
     "when bytes reach the PFS, whatever the configuration says", \
     "persistent-async, persistent-sync, scratch, bypass",        \
     "the configuration's",                                       \
     "--mode scratch"}
#define INSTANCE {"instance", 'i', "NAME", "which instance", "the name of one that runs", "the only one that runs", "-i ram"}
#define STATS                                                              \
    {"stats",                                                              \
     'S',                                                                  \
     "OUT.json",                                                           \
     "write what the tiers did to this file; %h in it is the host's name", \
     "a file",                                                             \
     "none is written",                                                    \
     "--stats stats.json"}
#define CONFIG_OPERAND {NULL, '.', "CONFIG", "the configuration", "a file (docs/configuration.md)", "none, it is required", NULL}
#define FRAGMENT_OPERAND {NULL, '.', "FRAGMENT", "a second file; its keys replace those of the first", "a file", "none", NULL}

/* The operand comes after `--`: what begins with a dash is the program's from there on. */
static const struct ctl_option run_options[] = {
    CONFIG,
    MODE,
    {"trace", 'T', "OUT.darshan", "write Darshan logs of what the program asked for and of what the storage got (docs/testing/trace.md)",
     "a file that ends in .darshan", "nothing is traced", "--trace app.darshan"},
    STATS,
    {"keep", 'K', NULL, "leave the instance with its contents when the program has ended", NULL, "it is removed", NULL},
    {"per-node", 'N', "LAUNCH",
     "make an instance on each node; LAUNCH is the launcher's words that run a command once on each (docs/nodes.md); "
     "it goes without --keep",
     "a command line", "one instance, here", "--per-node 'srun --overlap --nodes=4 --ntasks=4 --ntasks-per-node=1'"},
    {NULL, '.', "COMMAND...", "the program and its arguments", "any program that is not static", "none, it is required", NULL},
    END_OF_OPTIONS};

/* The instance goes on after the command, so it has a name that later commands give. */
static const struct ctl_option start_options[] = {
    CONFIG,
    {"instance", 'i', "NAME", "the instance's name", "a word without /", "the configuration's file name without its suffix", "-i ram"},
    MODE,
    END_OF_OPTIONS};

/* What stops an instance says also what becomes of the bytes in it. */
static const struct ctl_option stop_options[] = {
    INSTANCE,
    STATS,
    {"force", 'F', NULL, "discard what is not on the PFS, instead of draining it", NULL, "it is drained", NULL},
    END_OF_OPTIONS};

static const struct ctl_option status_options[] = {
    INSTANCE,
    {"json", 'J', NULL, "as JSON; with --watch one document a line", NULL, "a table", NULL},
    {"watch", 'W', "[=SECONDS]", "look again and again, until the instance ends", "0.01 to 86400",
     "looks once; without SECONDS every second", "--watch=0.5"},
    {"wait", 'A', NULL, "return when the instance can be used, and show nothing; needs --instance", NULL, "does not wait", NULL},
    {"openmetrics", 'O', NULL, "as OpenMetrics text, for node_exporter's textfile collector; all instances of this user, or --instance",
     NULL, "a table", NULL},
    {"output", 'o', "FILE", "where --openmetrics writes to; the file is replaced at once", "a file name", "standard output",
     "-o tierbench.prom"},
    END_OF_OPTIONS};

/* --wait is taken because scripts give it: a drain always waits. */
/* The instance stays: a drain may be given at any time, and again. */
static const struct ctl_option drain_options[] = {
    INSTANCE,
    {"wait", 'A', NULL, "return when all is on the PFS, as it does without this word too", NULL, "the same", NULL},
    END_OF_OPTIONS};

/* The configuration says where the directory tiers are; no instance can be asked. */
static const struct ctl_option recover_options[] = {CONFIG, MODE, END_OF_OPTIONS};

/* None: what gc may clear is decided by what is alive, not by the user. */
static const struct ctl_option gc_options[] = {END_OF_OPTIONS};

/* For three ways to be called (--script, --manifest, --watch); which options go with which is checked in stage.c. */
static const struct ctl_option stage_options[] = {
    {"script", 'S', "JOB.sh", "stage what its directives ask for: DataWarp's and Rabbit's", "a file", "none", "--script job.sh"},
    {"word", 'W', "WORD", "what directives begin with", "a word", "#DW", "--word '#BB_LUA'"},
    {"check", 'C', NULL, "only say whether all is right", NULL, "it is done", NULL},
    {"phase", 'P', "PHASE", "one part of a job with --script, as a batch system asks for them", "setup, in, env, out, teardown",
     "the whole job: set up, stage in, run the script, stage out, tear down", "--phase in"},
    {"place", 'D', "FOLDER", "below which the job's folders are", "a folder that is there", "PERSIST_DIR, else TMPDIR, else /tmp",
     "--place /mnt/bb/me"},
    {"job", 'J', "ID", "names the job's folders", "a word without /", "SLURM_JOB_ID, LSB_JOBID, FLUX_JOB_ID, else a new one", "--job 4711"},
    {"manifest", 'M', "FILE", "move its lines SOURCE DESTINATION, as UnifyFS' manifests have them", "a file", "none",
     "--manifest files.txt"},
    {"watch", 'N', NULL, "be the mover of this node, until SIGTERM", NULL, "no mover", NULL},
    {"config", 'c', "CONFIG", "its stage_out says what --watch works for, and limits streams and bandwidth",
     "a file (docs/configuration.md)", "PERSIST_DIR and PFS_DIR; no limits", "-c configs/tiers/ram.yaml"},
    {"log", 'G', "FOLDER", "where spectral.log is written", "a folder", "PFS_DIR, else the current folder", "--log logs"},
    {"left", 'L', "FILE", "where the list of files goes that were not moved, as a manifest", "a file", "none is written",
     "--left left.txt"},
    END_OF_OPTIONS};

static const struct ctl_option wait_options[] = {
    {"instance", 'i', "NAME", "the instance with the stage_out", "the name of an instance that runs",
     "PERSIST_DIR and PFS_DIR of the environment", "-i ram"},
    {"deadline", 'D', "SECONDS", "how long to wait", "above 0", "until all files are moved", "--deadline 600"},
    {"left", 'L', "FILE", "where the list of files goes that were not moved, as a manifest", "a file", "none is written",
     "--left left.txt"},
    END_OF_OPTIONS};

static const struct ctl_option plan_options[] = {CONFIG_OPERAND,
                                                 FRAGMENT_OPERAND,
                                                 MODE,
                                                 {"writes", 'R', "SEQUENCE", "say in which tier these writes would go",
                                                  "'N x SIZE [to NAME], ...'", "none", "--writes '100 x 1MiB to a, 5 x 4KiB'"},
                                                 {"json", 'J', NULL, "as JSON", NULL, "a table", NULL},
                                                 {"svg", 'V', "FILE", "draw it to this file too", "a file", "no picture", "--svg plan.svg"},
                                                 END_OF_OPTIONS};

static const struct ctl_option check_options[] = {CONFIG_OPERAND, FRAGMENT_OPERAND, MODE, END_OF_OPTIONS};

/* Its output is read by `profile:` of a configuration. */
static const struct ctl_option profile_options[] = {
    CONFIG_OPERAND,
    {"output", 'o', "DIRECTORY", "where the device files go; made if it is missing", "a directory",
     "the configuration's name with .profile", "-o devices"},
    {"seconds", 'E', "S", "how long each place is measured", "above 0, up to 3600", "10", "--seconds 60"},
    END_OF_OPTIONS};

static const struct ctl_option import_hermes_options[] = {
    {NULL, '.', "FILE", "the Hermes configuration, or requirements in XML", "a file", "none, it is required", NULL},
    {NULL, '.', "SECOND", "a .conf that replaces keys of the first, or requirements in XML", "a file", "none", NULL},
    {"pfs", 'P', "PATH", "the PFS, which Hermes does not name", "a directory", "${TB_ROOT}/pfs", "--pfs /lustre/me"},
    {"output", 'o', "OUT.yaml", "where the configuration goes", "a file", "standard output", "-o tiers.yaml"},
    END_OF_OPTIONS};

/* tierctl itself writes this command line for the launcher; it is read as the others are. */
static const struct ctl_option node_options[] = {
    {"instance", 'i', "NAME", "the run's instance", "as the run has named it", "none, it is required", "-i run-1-00000000"},
    {"trace", 'T', "FOLDER", "where what the node recorded is handed on", "the run's folder, which all nodes see", "none, it is required",
     "--trace app.darshan.nodes"},
    {"stage", 'S', "WORD", "move the node's files: watch, or wait until the mover is ready, or stage in", "watch, ready, in",
     "none, COMMAND is run", "--stage watch"},
    CONFIG,
    {NULL, '.', "COMMAND...", "the node's daemon and its arguments", "a program", "none, it is required without --stage", NULL},
    END_OF_OPTIONS};

static const struct ctl_option help_options[] = {{NULL, '.', "COMMAND", "of which command", "any of tierctl --help", "all", NULL},
                                                 {"man", 'M', NULL, "the man page, for man -l and groff", NULL, "plain text", NULL},
                                                 {"bash", 'B', NULL, "completion, for bash to source", NULL, "plain text", NULL},
                                                 END_OF_OPTIONS};

/* In the order in which --help lists them. */
const struct ctl_command tb_commands[] = {
    {.name = "run",
     .does = "Run a program under an instance of its own",
     .synopsis = "-c CONFIG [OPTIONS] -- COMMAND...\n-c CONFIG --per-node LAUNCH [OPTIONS] -- COMMAND...\n-- COMMAND...",
     .about = "When the program has ended, all is put on the PFS and the instance is removed.\n"
              "The exit status is the program's; 3 where it succeeded and the drain failed: then the instance stays.\n"
              "With PERSIST_DIR and PFS_DIR in the environment, or a stage_out in CONFIG, files are staged out (docs/stage.md).",
     .example = "tierctl run -c configs/tiers/ram.yaml --stats stats.json -- mpirun -n 4 ./model",
     .starts_another = true,
     .options = run_options,
     .run = tb_run_command},
    {.name = "start",
     .does = "Start an instance",
     .synopsis = "-c CONFIG [-c FRAGMENT] [-i NAME] [--mode MODE]",
     .about = "Programs under the adapter use it with TIERBENCH_INSTANCE=NAME in their environment.",
     .example = "tierctl start -c configs/tiers/ram.yaml -i ram",
     .options = start_options,
     .run = tb_start_command},
    {.name = "stop",
     .does = "Drain an instance and remove it",
     .synopsis = "[-i NAME] [--stats OUT.json] [--force]",
     .example = "tierctl stop -i ram",
     .options = stop_options,
     .run = tb_stop_command},
    {.name = "status",
     .does = "Show an instance: its tiers, counters and errors",
     .synopsis = "[-i NAME] [--json] [--watch[=SECONDS]]\n[-i NAME] --openmetrics [-o FILE]\n-i NAME --wait",
     .example = "tierctl status --watch=0.5",
     .options = status_options,
     .run = tb_status_command},
    {.name = "drain",
     .does = "Put everything that an instance holds on the PFS",
     .synopsis = "[-i NAME] [--wait]",
     .example = "tierctl drain -i ram",
     .options = drain_options,
     .run = tb_drain_command},
    {.name = "recover",
     .does = "Put on the PFS what dead instances of a configuration promised",
     .synopsis = "-c CONFIG [-c FRAGMENT] [--mode MODE]",
     .about = "Living instances are left alone. The same command again goes on where it failed.",
     .example = "tierctl recover -c configs/tiers/ram.yaml",
     .options = recover_options,
     .run = tb_recover_command},
    {.name = "gc",
     .does = "Recover every instance of yours that has no process left",
     .synopsis = "",
     .about = "Found by their regions in /dev/shm. If that is gone, an instance is found by its configuration: tierctl recover -c CONFIG. "
              "The exit status is 3 where some are kept.",
     .example = "tierctl gc",
     .options = gc_options,
     .run = tb_gc_command},
    {.name = "stage",
     .does = "Move files before and after a job",
     .synopsis = "--script JOB.sh [--check] [--word WORD] [--phase PHASE] [OPTIONS]\n--manifest FILE [--check] [OPTIONS]\n"
                 "--watch [-c CONFIG] [--left FILE]",
     .about = "A script without --phase is run, with DW_JOB_STRIPED and the like in its environment (docs/stage.md).\n"
              "The exit status is the script's; 3 where files were not moved; they are named.",
     .example = "tierctl stage --script job.sh --check",
     .options = stage_options,
     .run = tb_stage_command},
    {.name = "wait",
     .does = "Wait until all files are staged out",
     .synopsis = "[-i NAME] [--deadline SECONDS] [--left FILE]",
     .about = "On any node of the job, with PERSIST_DIR and PFS_DIR in the environment. Where this node's mover has died, it goes on with "
              "its work.\n"
              "The exit status is 3 where files were not moved; they are named.",
     .example = "tierctl wait --left left.txt",
     .options = wait_options,
     .run = tb_wait_command},
    {.name = "plan",
     .does = "Show tiers, slabs, buffer counts and the region's size",
     .synopsis = "CONFIG [FRAGMENT] [OPTIONS]",
     .about = "It looks at no path, and makes nothing.",
     .example = "tierctl plan configs/tiers/ram.yaml --writes '100 x 1MiB'",
     .options = plan_options,
     .run = tb_plan_command},
    {.name = "check",
     .does = "Say whether a configuration is right, and this machine has what it needs",
     .synopsis = "CONFIG [FRAGMENT] [--mode MODE]",
     .example = "tierctl check configs/tiers/ram.yaml",
     .options = check_options,
     .run = tb_check_command},
    {.name = "profile",
     .does = "Measure the places of a configuration, and write a device file for each",
     .synopsis = "CONFIG [-o DIRECTORY] [--seconds S]",
     .about = "Each tier and the PFS are measured with 128 MiB of files in a folder of its own there. A remote tier is measured as a "
              "program of a run: tierctl run -c CONFIG --per-node LAUNCH -- tierctl profile CONFIG.",
     .example = "tierctl profile configs/tiers/ram.yaml -o devices",
     .options = profile_options,
     .run = tb_profile_command},
    {.name = "import-hermes",
     .does = "Translate a Hermes configuration",
     .synopsis = "FILE.conf [FRAGMENT.conf | FILE.xml] [--pfs PATH] [-o OUT.yaml]\nFILE.xml [-o OUT.yaml]",
     .example = "tierctl import-hermes hermes.conf --pfs /lustre/me -o tiers.yaml",
     .options = import_hermes_options,
     .run = tb_import_hermes_command},
    {.name = "node",
     .does = "Serve one node of a run on several",
     .synopsis = "-i NAME --trace FOLDER -- COMMAND...\n--stage WORD -c CONFIG",
     .about = "tierctl run --per-node starts it on each node; it is not for people.",
     .example = "tierctl node -i run-1-00000000 --trace app.darshan.nodes -- tierd tiers.yaml --foreground -i run-1-00000000",
     .starts_another = true,
     .options = node_options,
     .run = tb_node_command},
    {.name = "help",
     .does = "Explain the commands",
     .synopsis = "[COMMAND]\n--man\n--bash",
     .example = "tierctl help --man > tierctl.1",
     .options = help_options,
     .run = tb_help_command},
    {0}};
