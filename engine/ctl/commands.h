/*
 * The commands of tierctl.  Each is called with argv[0] its own name and returns
 * the exit status: 0 done, 1 nothing to show, 2 bad input, 3 a drain failed.
 */
#ifndef TB_COMMANDS_H
#define TB_COMMANDS_H

int tb_run_command(int argc, char **argv);
int tb_start_command(int argc, char **argv);
int tb_stop_command(int argc, char **argv);
int tb_status_command(int argc, char **argv);
int tb_drain_command(int argc, char **argv);
int tb_recover_command(int argc, char **argv);
int tb_gc_command(int argc, char **argv);
int tb_plan_command(int argc, char **argv);          /* plan.c */
int tb_check_command(int argc, char **argv);         /* plan.c */
int tb_profile_command(int argc, char **argv);       /* profile.c */
int tb_import_hermes_command(int argc, char **argv); /* plan.c */

#endif
