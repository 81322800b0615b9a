/*
 * A damaged or forged journal, recovered twice onto files in /dev/shm.
 *
 * The input is a row of records without their checksums and places, which are put
 * right here: else nothing but the first comparison would be met.  `@` in a path is
 * the scratch folder, a small inode number one of its files, and so on (make_sound).
 * A slot with an odd first byte stays as it is.  What follows the last whole slot
 * says whether there is a mark and of which generation, and how damaged the lease is.
 *
 * What must hold, whatever the records say:
 *   bytes     each byte of a file is the old one or that of the newest record of it; a
 *             file outside the prefixes keeps all of them, and no file is made but
 *             those that keep lost bytes
 *   removal   a directory that recovery removed held nothing that is missed: every promised
 *             byte is in its file, or kept beside it, or its file was about to be unlinked
 *   status    below 0 exactly where something was reported; then a second recovery
 *             says the same, else it finds nothing
 */
#include "fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/remove_tree.h"
#include "base/report.h"
#include "io/identity.h"
#include "journal/read.h"
#include "recovery/recover.h"
#include "region/directories.h"
#include "region/lease.h"

#define INSTANCE 7
#define NAME "fuzz"
#define RECORDS 64
#define BLOCK 4096u
#define OLD 0x55 /* every byte of a file before */
#define OLD_BYTES 6000
#define FAR (1u << 20) /* beyond it nothing is looked at byte by byte */

enum file { SHARED, OWN, BELOW, OUTSIDE, GONE, FIFO, PFS, FILES };
static const char *const file_names[FILES] = {"pfs/shared", "pfs/own", "pfs/d/below", "outside/o", "pfs/gone", "pfs/fifo", "pfs"};

static char root[64], instance[300], lost[128];
static struct tb_config config;
static struct tb_layout layout;
static struct tb_identity ids[FILES];
static unsigned char slab[64 * BLOCK];

struct event {
    struct tb_record record;
    bool is_good;                             /* of a WRITE: its bytes are what it says */
    unsigned char bytes[3 * TB_JOURNAL_SLOT]; /* of a BYTES */
};
static struct event events[RECORDS];
static int n_events, n_damaged;
static uint64_t marked; /* generation */

static const char *in_root(const char *name)
{
    static char path[400];
    snprintf(path, sizeof(path), "%s/%s", root, name);
    return path;
}

/* --- the scratch folder --- */

static void end(void)
{
    tb_remove_tree(root, NULL);
}

static void make_config(void)
{
    struct tb_error err = {""};
    struct tb_config_tier *t = &config.tiers[0];
    snprintf(config.file, sizeof(config.file), "/fuzz.yaml");
    snprintf(config.pfs.path, sizeof(config.pfs.path), "%s", in_root("pfs"));
    snprintf(config.prefixes[0].prefix, sizeof(config.prefixes[0].prefix), "%s", in_root("pfs"));
    config.n_prefixes = 1;
    config.max_files = 64;
    config.max_clients = 256;
    config.fsync = TB_FSYNC_TIER;
    config.n_tiers = 1;
    snprintf(t->name, sizeof(t->name), "nvme");
    snprintf(t->path, sizeof(t->path), "%s", in_root("nvme"));
    t->medium = TB_MEDIUM_DIRECTORY;
    t->capacity = sizeof(slab);
    t->block = BLOCK;
    t->n_slabs = 1;
    t->slabs[0].units = 1;
    t->slabs[0].share = 1.0;
    fuzz_check(tb_layout_compute(&config, &layout, &err) == 0 && layout.slab[0].buffer_size == BLOCK);
}

static void write_file(const char *path, const void *bytes, size_t n)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    fuzz_check(fd >= 0 && pwrite(fd, bytes, n, 0) == (ssize_t)n && ftruncate(fd, (off_t)n) == 0);
    close(fd);
}

static void make_old(enum file f)
{
    unsigned char old[OLD_BYTES];
    memset(old, OLD, sizeof(old));
    write_file(in_root(file_names[f]), old, sizeof(old));
}

static void make(void)
{
    static const char *const folders[] = {"", "pfs", "pfs/d", "outside", "nvme"};
    char host[64] = "";
    gethostname(host, sizeof(host) - 1);
    snprintf(root, sizeof(root), "/dev/shm/tb-fuzz-journal-%d", (int)getpid());
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
        fuzz_check(mkdir(in_root(folders[i]), 0700) == 0);
    atexit(end);
    make_config();
    for (enum file f = SHARED; f <= GONE; f++)
        make_old(f);
    fuzz_check(mkfifo(in_root(file_names[FIFO]), 0600) == 0);
    for (enum file f = SHARED; f < FILES; f++)
        fuzz_check(tb_identity_of_path(tb_io_libc(), in_root(file_names[f]), &ids[f]) == 0);
    fuzz_check(unlink(in_root(file_names[GONE])) == 0);
    for (size_t i = 0; i < sizeof(slab); i++)
        slab[i] = (unsigned char)(i * 31 + i / BLOCK * 7 + 1);
    write_file(in_root("slab"), slab, sizeof(slab));
    snprintf(lost, sizeof(lost), "%s/tierbench.lost.%u", config.tiers[0].path, (unsigned)getuid());
    tb_tier_directory(&config.tiers[0], host, NAME, instance, sizeof(instance));
}

/* --- the instance --- */

/* '@' is the scratch folder. */
static uint32_t expand(char *path, uint32_t n, size_t room)
{
    size_t more = strlen(root) - 1;
    for (uint32_t i = 0; i < n; i++)
        if (path[i] == '@' && n + more <= room) {
            memmove(path + i + more + 1, path + i + 1, n - i - 1);
            memcpy(path + i, root, more + 1);
            n += (uint32_t)more;
        }
    return n;
}

static bool is_in_slab(const struct tb_record *r)
{
    return r->slab == 0 && r->buffer < layout.slab[0].n_buffers && r->length <= BLOCK && r->byte <= BLOCK - r->length;
}

static const unsigned char *bytes_of(const struct tb_record *r)
{
    return slab + r->buffer * BLOCK + r->byte;
}

static void make_identity(struct tb_record *r)
{
    const struct tb_identity *id = r->type == TB_RECORD_HEADER ? &ids[PFS] : &ids[r->inode % FILES];
    if (r->inode > 16)
        return;
    r->inode = id->inode;
    r->birth_ns = id->birth_ns;
    r->device = id->device;
}

static void make_range(struct tb_record *r)
{
    r->slab %= 2;
    r->buffer %= layout.slab[0].n_buffers + 1;
    r->length %= BLOCK + 2;
    r->byte %= BLOCK;
    if (r->offset >> 56 == 0)
        r->offset %= 4 * OLD_BYTES;
    if (r->type == TB_RECORD_WRITE && !r->data_checksum && is_in_slab(r))
        r->data_checksum = tb_checksum(bytes_of(r), r->length);
}

/* Of a BYTES: those that are in the record, which are at most as many as fit. */
static void make_length(struct tb_record *r)
{
    if (r->type == TB_RECORD_BYTES)
        r->length %= r->slots * TB_JOURNAL_SLOT - sizeof(*r) - r->path_length + 1;
}

/* Sound as far as a reader can know, with whatever else it says, unless its checksum was odd; returns its length. */
static size_t make_sound(char *bytes, size_t at, size_t n)
{
    struct tb_record *r = (struct tb_record *)(bytes + at);
    size_t room = (n - at) / TB_JOURNAL_SLOT, slots = 1 + r->slots % 3;
    bool is_spoiled = r->checksum & 1;
    slots = slots < room ? slots : room;
    r->magic = TB_JOURNAL_MAGIC;
    r->type = at ? r->type % 7 : TB_RECORD_HEADER;
    r->slots = (uint32_t)slots;
    r->path_length %= (uint32_t)(slots * TB_JOURNAL_SLOT - sizeof(*r) + 1);
    r->path_length = expand((char *)(r + 1), r->path_length, slots * TB_JOURNAL_SLOT - sizeof(*r));
    r->instance = INSTANCE;
    r->generation %= 2;
    r->place = at;
    r->synced = at ? r->synced % at : 0;
    if (r->sequence < 256)
        r->sequence = r->type == TB_RECORD_DROP ? r->sequence % 64 : at / TB_JOURNAL_SLOT * 2 + r->sequence % 2 + 1;
    if (r->type == TB_RECORD_HEADER && !r->digest)
        r->digest = tb_config_digest(&config);
    make_identity(r);
    make_range(r);
    make_length(r);
    r->checksum = tb_record_checksum(r) + is_spoiled;
    return slots * TB_JOURNAL_SLOT;
}

static int write_lease(unsigned damage)
{
    struct tb_lease lease;
    tb_lease_begin(&lease);
    lease.state = TB_LEASE_LIVING;
    lease.id = INSTANCE;
    lease.digest = damage == 1 ? 0 : tb_config_digest(&config);
    lease.fsync = TB_FSYNC_TIER;
    char path[400];
    snprintf(path, sizeof(path), "%s/%s", instance, TB_LEASE_FILE);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    fuzz_check(fd >= 0 && (damage == 2 || tb_lease_write(fd, &lease) == 0));
    return fd;
}

static void write_instance(const char *journal, size_t size, unsigned flags)
{
    marked = flags & 1 ? 0 : flags / 16 % 4;
    struct tb_journal_mark mark = {TB_JOURNAL_MARK, INSTANCE, marked, flags & 2 ? 0 : size, 0};
    char path[400], slab_name[TB_SLAB_NAME_MAX];
    mark.checksum = tb_checksum(&mark, offsetof(struct tb_journal_mark, checksum));
    fuzz_check(mkdir(instance, 0700) == 0);
    close(write_lease(flags / 4 % 4));
    snprintf(path, sizeof(path), "%s/%s", instance, TB_JOURNAL_FILE);
    write_file(path, journal, size);
    snprintf(path, sizeof(path), "%s/%s", instance, TB_JOURNAL_MARK_FILE);
    if (!(flags & 1))
        write_file(path, &mark, sizeof(mark));
    tb_slab_file(0, slab_name);
    snprintf(path, sizeof(path), "%s/%s", instance, slab_name);
    fuzz_check(link(in_root("slab"), path) == 0);
}

/* --- what the journal promises --- */

static int see(void *arg, const struct tb_record *r)
{
    (void)arg;
    fuzz_check(r->magic == TB_JOURNAL_MAGIC && r->checksum == tb_record_checksum(r) && r->instance == INSTANCE && n_events < RECORDS);
    bool is_good = r->type == TB_RECORD_WRITE && is_in_slab(r) && r->data_checksum == tb_checksum(bytes_of(r), r->length);
    struct event *e = &events[n_events++];
    *e = (struct event){.record = *r, .is_good = is_good || r->type == TB_RECORD_BYTES};
    if (r->type == TB_RECORD_BYTES)
        memcpy(e->bytes, tb_record_bytes(r), r->length);
    return 0;
}

static int see_damage(void *arg, uint64_t offset)
{
    (void)arg;
    (void)offset;
    n_damaged++;
    return 0;
}

static int by_sequence(const void *a, const void *b)
{
    const struct tb_record *x = &((const struct event *)a)->record, *y = &((const struct event *)b)->record;
    if (x->sequence != y->sequence)
        return x->sequence < y->sequence ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

static void read_promises(bool knows_instance)
{
    char path[400];
    snprintf(path, sizeof(path), "%s/%s", instance, TB_JOURNAL_FILE);
    int journal = open(path, O_RDONLY | O_CLOEXEC);
    snprintf(path, sizeof(path), "%s/%s", instance, TB_JOURNAL_MARK_FILE);
    int mark = open(path, O_RDONLY | O_CLOEXEC);
    n_events = n_damaged = 0;
    fuzz_check(journal >= 0 && tb_journal_read(journal, mark, knows_instance ? INSTANCE : 0, see, see_damage, NULL) == 0);
    close(journal);
    if (mark >= 0)
        close(mark);
    qsort(events, (size_t)n_events, sizeof(events[0]), by_sequence);
}

static bool covers(const struct tb_record *r, uint64_t at)
{
    return r->offset <= at && ((r->type == TB_RECORD_DROP && !r->length) || at - r->offset < r->length);
}

static bool is_of(const struct tb_record *r, uint64_t inode, uint64_t device)
{
    return r->inode == inode && r->device == device;
}

/* The record that says what a byte is, or NULL. */
static const struct event *newest(uint64_t inode, uint64_t device, uint64_t at)
{
    const struct event *found = NULL;
    for (int i = 0; i < n_events; i++) {
        const struct tb_record *r = &events[i].record;
        if (is_of(r, inode, device) && covers(r, at))
            found = tb_record_is_write(r) ? &events[i] : r->type == TB_RECORD_DROP ? NULL : found;
    }
    return found;
}

static bool says(const struct event *e, uint64_t at, unsigned char byte)
{
    if (!e || !e->is_good)
        return false;
    const unsigned char *bytes = e->record.type == TB_RECORD_BYTES ? e->bytes : bytes_of(&e->record);
    return bytes[at - e->record.offset] == byte;
}

/* --- what is there --- */

static bool is_explained(uint64_t inode, uint64_t at, unsigned char byte)
{
    for (int i = 0; i < n_events; i++)
        if (events[i].record.inode == inode && says(newest(inode, events[i].record.device, at), at, byte))
            return true;
    return false;
}

/* Every byte of a file is `old` where that is so long, 0 after it, or a record's. */
static void check_bytes(int fd, uint64_t inode, bool may_change, unsigned char old, size_t old_bytes)
{
    static unsigned char bytes[FAR];
    struct stat st;
    fuzz_check(fd >= 0 && fstat(fd, &st) == 0 && (size_t)st.st_size >= old_bytes && (may_change || (size_t)st.st_size == old_bytes));
    ssize_t n = pread(fd, bytes, sizeof(bytes), 0);
    for (ssize_t i = 0; i < n; i++)
        if (bytes[i] != ((size_t)i < old_bytes ? old : 0))
            fuzz_check(may_change && is_explained(inode, (uint64_t)i, bytes[i]));
    close(fd);
}

static void check_files(void)
{
    for (enum file f = SHARED; f < GONE; f++)
        check_bytes(open(in_root(file_names[f]), O_RDONLY | O_CLOEXEC), ids[f].inode, f != OUTSIDE, OLD, OLD_BYTES);
    DIR *kept = opendir(lost);
    for (struct dirent *d; kept && (d = readdir(kept));)
        if (d->d_name[0] != '.')
            check_bytes(openat(dirfd(kept), d->d_name, O_RDONLY | O_CLOEXEC), strtoull(d->d_name + sizeof(NAME), NULL, 10), true, 0, 0);
    if (kept)
        closedir(kept);
}

static int count(const char *folder)
{
    int n = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    if (d)
        closedir(d);
    return n;
}

static void check_names(void)
{
    fuzz_check(count(root) == 4 && count(in_root("pfs")) == 4 && count(in_root("pfs/d")) == 1 && count(in_root("outside")) == 1);
    fuzz_check(count(in_root("nvme")) == (access(instance, F_OK) == 0) + (access(lost, F_OK) == 0));
}

static bool was_to_go(const struct tb_record *r)
{
    for (int i = 0; i < n_events; i++)
        if (events[i].record.type == TB_RECORD_UNLINK && is_of(&events[i].record, r->inode, r->device))
            return true;
    return false;
}

static bool holds(int fd, uint64_t at, const struct event *e)
{
    unsigned char byte;
    return fd >= 0 && pread(fd, &byte, 1, (off_t)at) == 1 && says(e, at, byte);
}

static int open_lost(uint64_t inode)
{
    DIR *kept = opendir(lost);
    int fd = -1;
    for (struct dirent *d; kept && fd < 0 && (d = readdir(kept));)
        if (d->d_name[0] != '.' && strtoull(d->d_name + sizeof(NAME), NULL, 10) == inode)
            fd = openat(dirfd(kept), d->d_name, O_RDONLY | O_CLOEXEC);
    if (kept)
        closedir(kept);
    return fd;
}

static int open_inode(uint64_t inode)
{
    for (enum file f = SHARED; f < GONE; f++)
        if (ids[f].inode == inode)
            return open(in_root(file_names[f]), O_RDONLY | O_CLOEXEC);
    return -1;
}

/* The newest bytes of every WRITE are somewhere: looked at are its ends, and where other records begin and end in it. */
static void check_kept(const struct tb_record *r)
{
    int there = open_inode(r->inode), beside = open_lost(r->inode);
    for (int i = 0; i < n_events; i++) {
        const struct tb_record *other = &events[i].record;
        uint64_t places[] = {other->offset, other->offset + other->length, other->offset + other->length - 1, other->offset - 1};
        for (size_t k = 0; k < 4; k++) {
            const struct event *e = covers(r, places[k]) ? newest(r->inode, r->device, places[k]) : NULL;
            fuzz_check(!e || holds(there, places[k], e) || holds(beside, places[k], e));
        }
    }
    if (there >= 0)
        close(there);
    if (beside >= 0)
        close(beside);
}

/* Two devices of one inode number are two files to a journal, and one here. */
static bool is_of_one_device(void)
{
    for (int i = 0; i < n_events; i++)
        for (int k = 0; k < i; k++)
            if (events[i].record.inode == events[k].record.inode &&
                (events[i].record.device != events[k].record.device || events[i].record.birth_ns != events[k].record.birth_ns))
                return false;
    return true;
}

static void check_removed(void)
{
    fuzz_check(n_damaged == 0 && (!n_events || events[0].record.generation >= marked));
    for (int i = 0; i < n_events && is_of_one_device(); i++)
        if (tb_record_is_write(&events[i].record) && !was_to_go(&events[i].record))
            check_kept(&events[i].record);
}

/* --- recovery --- */

static void note(void *arg, const struct tb_file_report *r)
{
    *(int *)arg += r->error != 0;
}

static int recover(void)
{
    struct tb_error err = {""};
    int errors = 0, rc = tb_instance_recover(&config, tb_io_libc(), NULL, note, &errors, &err);
    fuzz_check(rc <= 1 && (rc < 0) == (errors > 0));
    check_files();
    check_names();
    if (access(instance, F_OK))
        check_removed();
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static _Alignas(TB_JOURNAL_SLOT) char bytes[RECORDS * TB_JOURNAL_SLOT];
    size_t n = size < sizeof(bytes) ? size / TB_JOURNAL_SLOT * TB_JOURNAL_SLOT : sizeof(bytes);
    unsigned flags = n < size ? data[n] : 0;
    if (!root[0])
        make();
    memcpy(bytes, data, n);
    for (size_t at = 0; at < n;)
        at += bytes[at] & 1 ? TB_JOURNAL_SLOT : make_sound(bytes, at, n);
    write_instance(bytes, n, flags);
    read_promises(flags / 4 % 4 != 2);
    int rc = recover();
    bool is_left = access(instance, F_OK) == 0;
    fuzz_check(recover() == (is_left ? rc : 0));
    tb_remove_tree(instance, NULL);
    tb_remove_tree(lost, NULL);
    for (enum file f = SHARED; f < GONE; f++)
        make_old(f);
    return 0;
}
