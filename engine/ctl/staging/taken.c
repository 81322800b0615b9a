/*
 * Are destinations of a stage-out taken by files of another origin? (staging/taken.h) The log is asked for all its nodes, as the
 * check may run on a login node. Whether the file comes from the same node is asked again when it is moved.
 */
#include "staging/taken.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/ctl.h"
#include "stage/log/ledger.h"

/* Opening a log would make one, and a check changes nothing. */
static bool has_log(const char *folder)
{
    char path[PATH_MAX];
    return (size_t)snprintf(path, sizeof(path), "%s/%s", folder, TB_LOG_NAME) < sizeof(path) && access(path, F_OK) == 0;
}

/* From the same source, of any node. A source that is a link is known in the log by what it led to. */
static bool is_replaced(struct tb_ledger *ledger, const struct tb_pair *one)
{
    char real[PATH_MAX];
    const char *source = realpath(one->source, real) ? real : one->source;
    for (const struct tb_known_mover *m = ledger ? ledger->movers : NULL; m; m = m->next)
        if (tb_ledger_owns(ledger, m->host, source, one->destination))
            return true;
    return false;
}

/* `ledger` NULL: there is no log, so no mover put anything anywhere. */
static int check_each(const struct pairs *p, struct tb_ledger *ledger)
{
    struct stat st;
    for (size_t i = 0; i < p->n; i++)
        if (lstat(p->one[i].destination, &st) == 0 && !S_ISDIR(st.st_mode) && !is_replaced(ledger, &p->one[i]))
            return ctl_fail(
                "%s:%u: destination %s: name clash: a file is there that does not come from %s, and would stay; allowed: a name "
                "that is free",
                p->file, p->line[i], p->one[i].destination, p->one[i].source);
    return 0;
}

int pairs_check_taken(const struct pairs *p, const char *log_folder)
{
    struct tb_ledger ledger;
    if (!has_log(log_folder))
        return check_each(p, NULL);
    int rc = tb_ledger_open(&ledger, log_folder);
    if (rc)
        ctl_fail("%s/%s: %s", log_folder, TB_LOG_NAME, strerror(-rc));
    rc = rc ? EXIT_BAD_INPUT : check_each(p, &ledger);
    tb_ledger_close(&ledger);
    return rc;
}
