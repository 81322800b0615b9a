/*
 * Finding and claiming the record of the file that a name leads to, while the name is
 * about to change. The look-up is repeated until record and name agree under the claim.
 */
#include "namespace/named.h"

#include "base/kill_point.h"
#include "file/claim.h"
#include "file/file.h"
#include "file/state.h"
#include "io/identity.h"
#include "namespace/shadow.h"

uint32_t tb_named_record(tb_engine *e, const struct tb_place *p, struct tb_identity *id)
{
    *id = (struct tb_identity){.regular = false};
    if ((!e->header->files.n && (!p->scratch || tb_shadow_has_no_stubs(e, p->path))) || tb_identity_of_name(p->path, id) || !id->regular)
        return TB_NONE;
    return tb_file_find(e, id);
}

/* HELD keeps journal records away until tb_named_unclaim. */
bool tb_named_claim_record(tb_engine *e, uint32_t file, const struct tb_identity *id)
{
    if (file == TB_NONE || !tb_file_claim(e, file))
        return false;
    if (tb_identity_is(&e->region.files[file], id)) {
        tb_file_begin_naming(e, file);
        return true;
    }
    tb_file_unclaim(e, file);
    return false;
}

/* HELD goes before the claim: a waiter for the claim finds the file ready for records. */
void tb_named_unclaim(tb_engine *e, uint32_t file)
{
    if (file == TB_NONE)
        return;
    tb_file_end_naming(&e->region.files[file]);
    tb_file_unclaim(e, file);
}

bool tb_named_claim(tb_engine *e, uint32_t file, const struct tb_place *p, struct tb_identity *id)
{
    struct tb_identity now;
    TB_STEP("claim to name");
    if (!tb_named_claim_record(e, file, id))
        return false;
    if (tb_identity_of_name(p->path, &now))
        return true; /* it is gone: the system says so */
    if (tb_identity_is(&e->region.files[file], &now)) {
        *id = now;
        return true;
    }
    tb_named_unclaim(e, file);
    return false;
}
