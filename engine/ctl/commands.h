/* The commands of tierctl. */
#ifndef TB_COMMANDS_H
#define TB_COMMANDS_H

#include "common/command.h"

/* All, with what each takes; the last entry has no name. */
extern const struct ctl_command tb_commands[]; /* commands.c */

/* Each is called with its own table and argv[0] its own name, and returns the exit status (common/help.c has their table). */
ctl_run tb_run_command;
ctl_run tb_start_command;
ctl_run tb_stop_command;
ctl_run tb_status_command;
ctl_run tb_drain_command;
ctl_run tb_recover_command;
ctl_run tb_gc_command;
ctl_run tb_stage_command;         /* stage.c */
ctl_run tb_wait_command;          /* wait.c */
ctl_run tb_plan_command;          /* plan.c */
ctl_run tb_check_command;         /* plan.c */
ctl_run tb_profile_command;       /* profile.c */
ctl_run tb_import_hermes_command; /* plan.c */
ctl_run tb_node_command;          /* node.c */
ctl_run tb_help_command;          /* main.c */

#endif
