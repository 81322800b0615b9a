/*
 * Finding and claiming the record of the file that a name leads to, while the name is
 * about to change. The look-up is repeated until record and name agree under the claim.
 */
#include "namespace/named.h"

#include <assert.h>
#include <string.h>

#include "base/kill_point.h"
#include "file/claim.h"
#include "file/file.h"
#include "file/state.h"
#include "io/answer.h"
#include "io/identity.h"
#include "namespace/shadow.h"
#include "region/mix.h"

/* A name that cannot be looked at may be any file's: to change it would pass its record by. */
int tb_named_record(tb_engine *e, const struct tb_place *p, struct tb_identity *id, uint32_t *file)
{
    *id = (struct tb_identity){.regular = false};
    *file = TB_NONE;
    if (!e->header->files.n && (!p->scratch || tb_shadow_has_no_stubs(e, p->path)))
        return 0;
    int rc = tb_identity_of_name(p->io, p->path, id);
    if (!rc && id->regular)
        *file = tb_file_find(e, id);
    return tb_io_failed(rc) ? rc : 0;
}

/* HELD keeps journal records away until tb_named_unclaim. */
bool tb_named_claim_record(tb_engine *e, uint32_t file, const struct tb_identity *id)
{
    assert(file == TB_NONE || id->regular);
    if (file == TB_NONE || !tb_file_claim(e, file))
        return false;
    if (tb_identity_is(&e->region.files[file], id)) {
        tb_file_begin_naming(e, file);
        return true;
    }
    tb_file_unclaim(e, file);
    return false;
}

/*
 * HELD goes before the claim: a waiter for the claim finds the file ready for records. May be
 * called for what was never claimed (TB_NONE), so that every way out of an operation is the
 * same.
 */
void tb_named_unclaim(tb_engine *e, uint32_t file)
{
    if (file == TB_NONE)
        return;
    tb_file_end_naming(&e->region.files[file]);
    tb_file_unclaim(e, file);
}

int tb_named_claim(tb_engine *e, uint32_t file, const struct tb_place *p, struct tb_identity *id)
{
    struct tb_identity now;
    assert(file != TB_NONE);
    TB_STEP("claim to name");
    if (!tb_named_claim_record(e, file, id))
        return -EAGAIN;
    int rc = tb_identity_of_name(p->io, p->path, &now);
    if (rc && !tb_io_failed(rc) && !p->waits)
        return 0; /* it is gone: the system says so */
    if (!rc && tb_identity_is(&e->region.files[file], &now)) {
        *id = now;
        return 0;
    }
    tb_named_unclaim(e, file);
    return tb_io_failed(rc) ? rc : -EAGAIN; /* one that waited has its name now */
}

static uint32_t number_of(const char *text)
{
    uint64_t number = 0, part = 0;
    size_t left = strlen(text);
    for (; left >= sizeof(part); text += sizeof(part), left -= sizeof(part)) {
        memcpy(&part, text, sizeof(part));
        number = (number ^ part) * 0x9e3779b97f4a7c15ull;
        number ^= number >> 32;
    }
    part = 0;
    memcpy(&part, text, left);
    return (uint32_t)tb_mix64(number ^ part) | 1;
}

uint32_t tb_name_number(const char *path)
{
    const char *slash = strrchr(path, '/');
    return number_of(slash ? slash + 1 : path);
}

static struct tb_lock *lock_of(tb_engine *e, uint32_t stripe)
{
    return &e->region.locks->name[stripe].lock;
}

/* In ascending order. A handler of a signal that interrupted the holder in its own thread goes on without the lock. */
void tb_named_lock(tb_engine *e, const char *path, const char *other, struct tb_name_locks *out)
{
    uint32_t a = (number_of(path) >> 1) % TB_NAME_STRIPES, b = other ? (number_of(other) >> 1) % TB_NAME_STRIPES : a;
    out->first = a < b ? a : b;
    out->second = a < b ? b : a;
    out->has_first = tb_lock_take(lock_of(e, out->first)) >= 0;
    out->has_second = a != b && tb_lock_take(lock_of(e, out->second)) >= 0;
}

void tb_named_unlock(tb_engine *e, const struct tb_name_locks *l)
{
    if (l->has_second)
        tb_lock_drop(lock_of(e, l->second));
    if (l->has_first)
        tb_lock_drop(lock_of(e, l->first));
}
