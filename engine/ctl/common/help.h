/* What people and shells are told of the commands: written from their tables (command.h). */
#ifndef TB_CTL_HELP_H
#define TB_CTL_HELP_H

#include <stdio.h>

#include "common/command.h"

void ctl_help(const struct ctl_command *command, FILE *out);

/* All commands, a line each. `all` ends in an entry without name, here and below. */
void ctl_help_all(const struct ctl_command *all, FILE *out);

/* The man page tierctl(1), for man and groff. */
void ctl_man(const struct ctl_command *all, FILE *out);

/* Completion for bash. */
void ctl_bash(const struct ctl_command *all, FILE *out);

#endif
