/*
 * Writing a Darshan log: header, then one compressed stream for each region, to a
 * temporary name that becomes the log's name when it is complete.
 */
#include "darshan/log.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/private_files.h"

#define MODULES 64
#define MAGIC 6567223

/* In bytes of the log. */
struct place {
    uint64_t offset, length;
};

/* Darshan's, in the order and sizes of its format 3.41; a region without bytes has length 0. */
struct header {
    char version[8];
    int64_t magic;
    unsigned char compression; /* 0: zlib */
    uint64_t partial;          /* a bit a module */
    struct place names, module[MODULES];
    uint32_t module_version[MODULES];
};
_Static_assert(sizeof(struct header) == 1328, "as in the file");
_Static_assert(sizeof(struct log_job) == 1080, "as in the file");

struct log {
    FILE *file;
    char path[PATH_MAX], part[PATH_MAX + 24];
    struct header header;
    z_stream zip;
    enum log_region region;
    uint64_t from;
    int error;
};

static const uint32_t versions[MODULES] = {[LOG_POSIX] = 4, [LOG_MPIIO] = 3, [LOG_STDIO] = 2, [LOG_DXT_POSIX] = 1, [LOG_DXT_MPIIO] = 2};

/* The first error counts; later ones follow from it. */
static void fail(struct log *log, int error)
{
    if (!log->error)
        log->error = error ? -error : -EIO;
}

/* After an error nothing more is written; log_close returns it. */
static void put(struct log *log, const void *bytes, size_t n)
{
    if (!log->error && fwrite(bytes, 1, n, log->file) != n)
        fail(log, errno);
}

/* To a name of its own: a reader never finds a log without its end. */
struct log *log_create(const char *path)
{
    struct log *log = calloc(1, sizeof(*log));
    if (!log)
        return NULL;
    snprintf(log->path, sizeof(log->path), "%s", path);
    log->file = tb_part_open(log->path, log->part, sizeof(log->part));
    if (!log->file) {
        free(log);
        return NULL;
    }
    strcpy(log->header.version, "3.41");
    log->header.magic = MAGIC;
    put(log, &log->header, sizeof(log->header)); /* written again when it is known */
    return log;
}

/* Each region is a stream of its own, so that a reader can begin at any of them. */
void log_begin(struct log *log, enum log_region region)
{
    log->region = region;
    log->from = (uint64_t)ftello(log->file);
    memset(&log->zip, 0, sizeof(log->zip));
    if (deflateInit(&log->zip, Z_BEST_SPEED) != Z_OK)
        fail(log, ENOMEM);
}

/* Until zlib has no more output: its input is used up then. */
static void deflate_to(struct log *log, const void *bytes, size_t n, int flush)
{
    unsigned char out[65536];
    log->zip.next_in = (Bytef *)bytes;
    log->zip.avail_in = (uInt)n;
    do {
        log->zip.next_out = out;
        log->zip.avail_out = sizeof(out);
        if (log->error || deflate(&log->zip, flush) == Z_STREAM_ERROR) {
            fail(log, EIO);
            return;
        }
        put(log, out, sizeof(out) - log->zip.avail_out);
    } while (log->zip.avail_out == 0);
}

/* zlib counts in ints. */
void log_write(struct log *log, const void *bytes, size_t n)
{
    for (size_t piece; n; n -= piece, bytes = (const char *)bytes + piece) {
        piece = n < INT_MAX ? n : INT_MAX;
        deflate_to(log, bytes, piece, Z_NO_FLUSH);
    }
}

/* The stream's offset is known only now; the header is written again by log_close. */
void log_end(struct log *log)
{
    deflate_to(log, "", 0, Z_FINISH);
    deflateEnd(&log->zip);
    struct place place = {log->from, (uint64_t)ftello(log->file) - log->from};
    if (log->region == LOG_NAMES)
        log->header.names = place;
    if (log->region <= LOG_NAMES)
        return;
    log->header.module[log->region] = place;
    log->header.module_version[log->region] = versions[log->region];
}

/* Readers then warn that the region is not whole. */
void log_set_partial(struct log *log, enum log_region module)
{
    log->header.partial |= UINT64_C(1) << module;
}

/* The rename comes last. If killed before, only NAME.RANDOM.part is left, and no log. */
int log_close(struct log *log)
{
    rewind(log->file);
    put(log, &log->header, sizeof(log->header));
    if (fclose(log->file))
        fail(log, errno);
    if (!log->error && rename(log->part, log->path))
        fail(log, errno);
    if (log->error)
        unlink(log->part);
    int error = log->error;
    free(log);
    return error;
}
