/*
 * Movers as tierctl starts and waits for them: `run` has one of its own, `wait` starts one
 * where the node's has died, `stage` is one.
 */
#ifndef TB_CTL_MOVERS_H
#define TB_CTL_MOVERS_H

#include <stdbool.h>
#include <sys/types.h>

#include "config/stage.h"
#include "stage/log/ledger.h"
#include "stage/mover.h"

struct ctl_mover {
    pid_t pid; /* 0: there is none */
    int control;
    double deadline;
    const char *from;        /* the folder that it watches, of its settings; NULL: it has a list */
    struct tb_ledger ledger; /* kept open from the start: if the PFS is unmounted later, it still says which files were moved */
};

/* What a command was given; each may be NULL. The mode counts instead of the configuration's. */
struct ctl_configured {
    const char *config, *fragment, *mode;
};

/*
 * stage_out of the configuration; where that has none, or none is given, PERSIST_DIR and PFS_DIR of the environment. `from` is ""
 * where there is neither. `is_node`: files are moved here; else the node's folder need not be here, as on a launch node. 0, or
 * EXIT_BAD_INPUT with what is wrong said.
 */
int ctl_stage_settings(const struct ctl_configured *by, bool is_node, struct tb_config_stage *out);

/* stage_in of the configuration; `from` is "" where there is none. 0, or EXIT_BAD_INPUT with what is wrong said. */
int ctl_stage_in_settings(const struct ctl_configured *by, bool is_node, struct tb_config_stage *out);

/*
 * The folder that a path leads to, in place. Files are found by it and told by it in the log, so a folder that is named by a link
 * is the same one to all. 0, or EXIT_BAD_INPUT with what is wrong said.
 */
int ctl_real_path(const char *what, char *path, size_t size);

/* A mover that brings its files, those first that programs ask for by the name `asked`; NULL: none does. As ctl_mover_start. */
int ctl_stage_in_start(const struct tb_config_stage *settings, const char *log_folder, const char *asked, struct ctl_mover *mover);
/* Move its files before the program starts. 0, EXIT_BAD_INPUT or EXIT_DRAIN_FAILED. */
int ctl_stage_in(const struct tb_config_stage *settings, const char *log_folder);

/*
 * A process that moves by this plan (`control` and `ready` are set here) until ctl_mover_finish or ctl_mover_forget. 0, or
 * EXIT_BAD_INPUT, said.
 */
int ctl_mover_start(struct tb_mover_plan *plan, struct ctl_mover *mover);

/* Be the mover: its exit status, with a refusal said. */
int ctl_mover_be(struct tb_mover_plan *plan);

/* When all that was closed is moved it ends. One that has ended already hears nothing. */
void ctl_mover_tell_to_finish(const struct ctl_mover *mover);

/*
 * All that was closed is moved, with progress on standard output; signals stop it. 0, or
 * EXIT_DRAIN_FAILED with what is left named.
 */
int ctl_mover_finish(struct ctl_mover *mover);
/* It has ended. */
void ctl_mover_forget(struct ctl_mover *mover);

#endif
