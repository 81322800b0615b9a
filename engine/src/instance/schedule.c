/*
 * Reading ahead what a schedule lists, range after range, through the engine's own
 * operations. It is called by the prefetch thread, and never waits for a program.
 */
#include "instance/schedule.h"

#include <fcntl.h>
#include <string.h>

#include "layer/descriptions.h"
#include "tiering/prefetch.h"

void tb_schedule_end(tb_engine *e, struct tb_schedule *s)
{
    if (s->fd >= 0)
        e->any.io.ops->close(&e->any.io, s->fd);
    s->fd = -1;
}

static void pass_on(tb_engine *e, struct tb_schedule *s)
{
    assert(s->at < s->n);
    bool same = s->at + 1 < s->n && strcmp(s->range[s->at].path, s->range[s->at + 1].path) == 0;
    if (!same)
        tb_schedule_end(e, s);
    if (++s->at < s->n)
        s->next = s->range[s->at].offset;
}

/* False: there is nothing to do now. A range with no room stays, and is tried again. */
bool tb_schedule_step(tb_engine *e, struct tb_schedule *s)
{
    if (s->at == s->n)
        return false;
    const struct tb_range *r = &s->range[s->at];
    if (s->fd < 0) {
        s->fd = e->any.io.ops->open(&e->any.io, r->path, O_RDONLY | O_CLOEXEC, 0);
        s->next = r->offset;
    }
    const struct tb_open *o = s->fd < 0 ? NULL : tb_open_of(e, s->fd);
    enum tb_fetch result = o ? tb_fetch(e, o->file, &s->fd, &s->next, r->offset + r->length) : TB_FETCH_OVER;
    if (result == TB_FETCH_OVER || s->next >= r->offset + r->length)
        pass_on(e, s);
    return result == TB_FETCH_DONE || result == TB_FETCH_OVER;
}
