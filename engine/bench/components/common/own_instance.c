/*
 * The configuration of a measurement's own instance, and its making (own_instance.h).
 * Nothing is flushed in the background: there is no daemon, so only what is asked is timed.
 */
#include "own_instance.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "instance/attach.h"
#include "instance/instance.h"
#include "instance/make.h"

#define MIB (1u << 20)
#define METADATA_OF_A_FILE 512u /* bytes at most, with a buffer */

static tb_engine *own; /* in the process that stays */

static void name_of(const struct tb_job *job, char *out, size_t size)
{
    snprintf(out, size, "%s", strrchr(job->folder, '/') + 1);
}

/*
 * Large enough that nothing is displaced: a measurement of placement or flush is another one. 64 MiB more, because
 * sizes are shared out over four slabs and none fills evenly.
 */
static void write_tiers(FILE *file, const struct tb_job *job, const struct tb_own_needs *needs)
{
    uint64_t buffers = needs->directory / 4096;
    uint64_t memory = needs->memory + (needs->files + buffers) * METADATA_OF_A_FILE + 64 * MIB;
    fprintf(file, "  - {name: ram, medium: memory, capacity: %lluMiB, block: 4KiB, slabs: [", (unsigned long long)(memory / MIB + 1));
    fputs("{units: 1, share: 0.25}, {units: 4, share: 0.25}, {units: 16, share: 0.25}, {units: 32, share: 0.25}]}\n", file);
    if (needs->directory)
        fprintf(file,
                "  - {name: disk, medium: directory, path: %s/disk, capacity: %lluMiB, block: 4KiB, slabs: [{units: 1, share: 1.0}]}\n",
                job->folder, (unsigned long long)(needs->directory / MIB + 1));
}

/* No flush but by hand, and fsync on the PFS: so a phase moves what it asks for and nothing else. */
static int write_config(const struct tb_job *job, const struct tb_own_needs *needs, const char *path)
{
    FILE *file = fopen(path, "w");
    if (!file)
        return -1;
    fprintf(file, "version: 1\nmax_files: %u\npfs: {path: %s/pfs}\n", needs->files, job->folder);
    fprintf(file, "mode: persistent-async\nfsync: pfs\nflush: {policy: manual}\ntiers:\n");
    write_tiers(file, job, needs);
    return fclose(file);
}

/* The folder is new, so what is there already is an error. */
static int make_places(const struct tb_job *job, const struct tb_own_needs *needs)
{
    char path[TB_JOB_FOLDER + 16];
    snprintf(path, sizeof(path), "%s/pfs", job->folder);
    int rc = mkdir(path, 0700);
    snprintf(path, sizeof(path), "%s/disk", job->folder);
    return rc || !needs->directory ? rc : mkdir(path, 0700);
}

/* In the process that stays, so that a killed group leaves no region. */
int tb_own_start(struct tb_job *job, const struct tb_own_needs *needs)
{
    static struct tb_config config;
    struct tb_error err = {"cannot write its configuration"};
    char path[TB_JOB_FOLDER + 16], name[64];
    snprintf(path, sizeof(path), "%s/own.yaml", job->folder);
    name_of(job, name, sizeof(name));
    int rc = make_places(job, needs) || write_config(job, needs, path) ? -1 : tb_config_read(path, &config, &err);
    if (!rc)
        rc = tb_instance_create(&config, name, tb_io_libc(), NULL, NULL, &own, &err);
    if (rc)
        fprintf(stderr, "%s: %s: %s\n", job->program, job->system, err.text);
    return rc ? 1 : 0;
}

void tb_own_stop(struct tb_job *job)
{
    (void)job;
    if (own)
        tb_instance_destroy(own);
    own = NULL;
}

tb_engine *tb_own_join(struct tb_job *job)
{
    char name[64];
    tb_engine *e;
    name_of(job, name, sizeof(name));
    int rc = tb_engine_attach(name, tb_io_libc(), &e);
    if (rc)
        tb_job_fail(job, "cannot attach: %s", tb_engine_refusal());
    return e;
}

uint64_t tb_own_metadata(const tb_engine *e)
{
    const struct tb_layout *l = tb_layout_of(e);
    return l->total_bytes - l->section[TB_SECTION_DATA].bytes;
}
