/*
 * A region with a header that was changed: attaching refuses it or works.  The input
 * is a row of changes of a sound header: two bytes where (times eight), eight bytes what.
 */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "instance/instance.h"
#include "region/region.h"

static char name[64];
static struct tb_header *sound; /* a copy */
static struct tb_region mapped;
static volatile uint64_t seen;

static void end(void)
{
    tb_region_file_remove(name);
}

static void make(void)
{
    struct tb_config *c = calloc(1, sizeof(*c));
    struct tb_layout layout;
    struct tb_error err = {""};
    struct tb_config_tier *t = &c->tiers[0];
    c->max_files = 64;
    c->max_clients = 256;
    c->n_tiers = 1;
    snprintf(c->file, sizeof(c->file), "/fuzz.yaml");
    snprintf(c->pfs.path, sizeof(c->pfs.path), "/pfs");
    snprintf(t->name, sizeof(t->name), "ram");
    t->medium = TB_MEDIUM_MEMORY;
    t->capacity = 4u << 20;
    t->block = 4096;
    t->n_slabs = 1;
    t->slabs[0].units = 1;
    t->slabs[0].share = 1.0;
    snprintf(name, sizeof(name), "fuzz-%d", (int)getpid());
    if (tb_layout_compute(c, &layout, &err) || tb_region_create(c, &layout, name, NULL, NULL, &mapped) < 0)
        __builtin_trap();
    mapped.header->magic = TB_REGION_MAGIC;
    sound = malloc(sizeof(*sound));
    memcpy(sound, mapped.header, sizeof(*sound));
    atexit(end);
    free(c);
}

static void change(const uint8_t *data, size_t size)
{
    memcpy((void *)mapped.header, sound, sizeof(*sound));
    for (size_t i = 0; i + 10 <= size; i += 10) {
        size_t at = ((size_t)data[i] << 8 | data[i + 1]) * 8;
        if (at + 8 <= sizeof(*sound))
            memcpy((char *)mapped.header + at, data + i + 2, 8);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tb_region other = {0};
    if (!sound)
        make();
    change(data, size);
    if (tb_region_attach(name, &other, NULL) == 0) { /* then what it leads to is there */
        seen += other.buffers[other.header->layout.n_buffers - 1].state + other.files[other.n_file_buckets - 1].magic;
        seen += strlen(other.header->name) + strlen(other.header->host) + strlen(other.header->config.file);
        for (uint32_t t = 0; t < other.header->config.n_tiers; t++)
            seen += other.header->config.tiers[t].n_slabs;
        tb_region_unmap(&other);
    }
    return 0;
}
