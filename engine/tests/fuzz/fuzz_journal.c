/*
 * A journal: read and replayed.  The input is a row of records without their
 * checksums and places, which are put right here: else nothing but the first
 * comparison would be met.  Every slot whose first byte is odd stays as it is.
 */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "journal/read.h"

#define INSTANCE 7

static int see(void *arg, const struct tb_record *r)
{
    for (uint32_t i = 0; i < r->path_length; i++)
        *(volatile uint64_t *)arg += (unsigned char)tb_record_path(r)[i];
    return 0;
}

static int see_damage(void *arg, uint64_t offset)
{
    *(volatile uint64_t *)arg += offset;
    return 0;
}

/* Sound as far as a reader can know, with whatever else it says. */
static void make_sound(char *bytes, size_t at, size_t n)
{
    struct tb_record *r = (struct tb_record *)(bytes + at);
    uint64_t room = (n - at) / TB_JOURNAL_SLOT * TB_JOURNAL_SLOT;
    r->magic = TB_JOURNAL_MAGIC;
    r->type = at ? r->type % 7 : TB_RECORD_HEADER;
    r->slots = r->slots % 4;
    r->path_length %= TB_PATH_MAX;
    r->instance = INSTANCE;
    r->generation %= 2;
    r->place = at;
    if (r->slots && (uint64_t)r->slots * TB_JOURNAL_SLOT <= room && sizeof(*r) + r->path_length <= (uint64_t)r->slots * TB_JOURNAL_SLOT)
        r->checksum = tb_record_checksum(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[FUZZ_PATH], *bytes = aligned_alloc(TB_JOURNAL_SLOT, (size / TB_JOURNAL_SLOT + 1) * TB_JOURNAL_SLOT);
    volatile uint64_t seen = 0;
    struct tb_journal_mark mark = {TB_JOURNAL_MARK, INSTANCE, 0, size, 0};
    memcpy(bytes, data, size);
    for (size_t at = 0; at + TB_JOURNAL_SLOT <= size; at += TB_JOURNAL_SLOT)
        if (!(data[at] & 1))
            make_sound(bytes, at, size);
    mark.checksum = tb_checksum(&mark, offsetof(struct tb_journal_mark, checksum));
    int journal = fuzz_file((uint8_t *)bytes, size, path), beside = fuzz_file((uint8_t *)&mark, sizeof(mark), path);
    tb_journal_read(journal, size % 2 ? beside : -1, INSTANCE, see, see_damage, (void *)&seen);
    close(journal);
    close(beside);
    free(bytes);
    return 0;
}
