/*
 * The list of files that were not moved, as a manifest that `tierctl stage` reads (stage/log/left.h). Quotes and backslashes in
 * names are escaped, as the reader of manifests takes them; a reason is a comment before its line. The list comes to its name
 * whole.
 */
#include "stage/log/left.h"

#include <errno.h>
#include <unistd.h>

#include "base/private_files.h"

/* Into a file beside it, which takes the name at the end: a job that is killed has the last whole list. */
int tb_left_begin(struct tb_left *l, const char *path)
{
    l->final = path;
    l->n = 0;
    l->out = tb_part_open(path, l->path, sizeof(l->path));
    return l->out ? 0 : -errno;
}

/* A newline in a name would otherwise begin a line of the list. */
static void put_quoted(FILE *out, const char *text)
{
    putc('"', out);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            putc('\\', out);
        if (*text == '\n')
            fputs("\\n", out);
        else
            putc(*text, out);
    }
    putc('"', out);
}

/* The reason is a comment, which the reader of manifests passes over: the file can be given back as it is. */
void tb_left_add(struct tb_left *l, const char *source, const char *destination, const char *reason)
{
    if (reason)
        fprintf(l->out, "# %s\n", reason);
    put_quoted(l->out, source);
    putc(' ', l->out);
    put_quoted(l->out, destination);
    putc('\n', l->out);
    l->n++;
}

/* On the disk before it has its name, since it is often the last thing that a job does. */
int tb_left_end(struct tb_left *l)
{
    int rc = ferror(l->out) || fflush(l->out) || fsync(fileno(l->out)) ? -EIO : 0;
    if (fclose(l->out) && !rc)
        rc = -errno;
    if (!rc && rename(l->path, l->final))
        rc = -errno;
    if (rc)
        unlink(l->path);
    return rc;
}

/* A reason is known only of a failure; the others were not begun. */
static void add_entry(void *arg, const struct tb_entry *e)
{
    tb_left_add(arg, e->source, e->destination, e->state == TB_ENTRY_FAILED ? e->reason : NULL);
}

/* All hosts' files. The ledger is held while they are written, so the list is of one moment. */
int tb_left_of_ledger(struct tb_ledger *ledger, const char *path)
{
    struct tb_left l;
    int rc = tb_left_begin(&l, path);
    if (rc)
        return rc;
    tb_ledger_each_left(ledger, add_entry, &l);
    return tb_left_end(&l);
}
