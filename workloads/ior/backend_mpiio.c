/*
 * Transfers by MPI-IO at explicit offsets or through a file view, collective with -c. A shared file is opened by all ranks
 * together. Errors of MPI are told in its own words, and end the run.
 */
#include "tb_ior.h"

#include <errno.h>
#include <string.h>

extern char **environ;

/* With the library's own words. */
static void check(const struct tb_file *f, const char *what, int64_t offset, int code)
{
    char reason[MPI_MAX_ERROR_STRING];
    int length;
    if (code == MPI_SUCCESS)
        return;
    MPI_Error_string(code, reason, &length);
    tb_fail(f->path, what, offset, reason);
}

/* The version of the standard that the library keeps, not the library's own. */
static const char *mpi_version(void)
{
    static char text[32];
    int major, minor;
    MPI_Get_version(&major, &minor);
    snprintf(text, sizeof(text), "(%d.%d)", major, minor);
    return text;
}

/* Hints are given in the environment as IOR_HINT__MPI__name=value, and in a file the same way, there also after `setenv`. */
static void take_hint(MPI_Info info, char *line)
{
    static const char mark[] = "IOR_HINT__MPI__";
    char *at = strstr(line, mark), *end;
    if (!at || line[0] == '#')
        return;
    char *name = at + strlen(mark);
    end = strpbrk(name, "= \t");
    if (!end)
        return;
    *end++ = '\0';
    end[strcspn(end, "\n")] = '\0';
    MPI_Info_set(info, name, end + strspn(end, " \t"));
}

/* A line without a hint is passed over; a file that cannot be opened ends the run. */
static void hints_of_file(const char *path, MPI_Info info)
{
    char line[4096];
    FILE *f = fopen(path, "r");
    if (!f)
        tb_fail(path, "hintsFileName", -1, strerror(errno));
    while (fgets(line, sizeof(line), f))
        take_hint(info, line);
    fclose(f);
}

/* The file's hints come after those of the environment, so they win. */
static MPI_Info hints_of(const struct tb_file *f)
{
    char line[4096];
    MPI_Info info;
    MPI_Info_create(&info);
    for (char **variable = environ; *variable; variable++) {
        snprintf(line, sizeof(line), "%s", *variable);
        if (!strncmp(line, "IOR_HINT__MPI__", 15))
            take_hint(info, line);
    }
    if (f->options->hints_file)
        hints_of_file(f->options->hints_file, info);
    return info;
}

/* Among the rows of a table on standard output, as IOR has it; beside CSV and JSON on standard error. */
static void show_hints(const struct tb_file *f, const char *what, MPI_Info hints)
{
    const struct tb_options *o = f->options;
    FILE *out = o->output == &tb_text && !o->summary_file ? stdout : stderr;
    char name[MPI_MAX_INFO_KEY + 1], value[MPI_MAX_INFO_VAL + 1];
    int count, found;
    if (!o->show_hints || f->world->rank)
        return;
    fprintf(out, "\nhints %s {\n", what);
    MPI_Info_get_nkeys(hints, &count);
    for (int i = 0; i < count; i++) {
        MPI_Info_get_nthkey(hints, i, name);
        MPI_Info_get(hints, name, MPI_MAX_INFO_VAL, value, &found);
        fprintf(out, "\t%s = %s\n", name, value);
    }
    fprintf(out, "}\n");
}

/* What the library made of the hints; one that cannot say it is no error. */
static void show_hints_of_file(const struct tb_file *f)
{
    MPI_Info hints;
    if (MPI_File_get_info(f->handle, &hints) != MPI_SUCCESS)
        return;
    show_hints(f, "returned from opened file", hints);
    MPI_Info_free(&hints);
}

/* The view shows a rank's blocks one after the other, as if they were a file of its own. */
static void set_view(struct tb_file *f, bool shared)
{
    const struct tb_options *o = f->options;
    MPI_Datatype transfer, block, spread;
    MPI_Aint stride = shared ? o->block * f->world->tasks : o->block;
    MPI_Type_contiguous((int)o->transfer, MPI_BYTE, &transfer);
    MPI_Type_contiguous((int)(o->block / o->transfer), transfer, &block);
    MPI_Type_create_resized(block, 0, stride, &spread);
    MPI_Type_commit(&spread);
    check(f, "set view", -1, MPI_File_set_view(f->handle, shared ? o->block * f->owner : 0, MPI_BYTE, spread, "native", MPI_INFO_NULL));
    MPI_Type_free(&transfer);
    MPI_Type_free(&block);
    MPI_Type_free(&spread);
}

/* In a view a rank's blocks follow each other; offsets of the pattern count all ranks' blocks. */
static int64_t in_view(const struct tb_file *f, int64_t offset)
{
    const struct tb_options *o = f->options;
    if (!o->file_view || o->file_per_process)
        return offset;
    int64_t segment = o->block * f->world->tasks;
    return offset / segment * o->block + offset % o->block;
}

/* Hints are shown twice: as given, and as the library took them. */
static void mpiio_open(struct tb_file *f, bool create, bool shared)
{
    int mode = create ? MPI_MODE_RDWR | MPI_MODE_CREATE : MPI_MODE_RDONLY;
    MPI_Info hints = hints_of(f);
    if (!shared)
        mode |= MPI_MODE_UNIQUE_OPEN;
    show_hints(f, "passed to MPI_File_open()", hints);
    check(f, "open", -1, MPI_File_open(shared ? f->world->comm : MPI_COMM_SELF, f->path, mode, hints, &f->handle));
    MPI_Info_free(&hints);
    show_hints_of_file(f);
    if (create) /* as IOR does, also with -E, which costs a metadata operation of every rank */
        check(f, "truncate", -1, MPI_File_set_size(f->handle, 0));
    if (create && f->options->preallocate)
        check(f, "preallocate", -1, MPI_File_preallocate(f->handle, tb_aggregate(f->options, f->world)));
    if (f->options->file_view)
        set_view(f, shared);
}

/* MPI-IO may report success for less than was asked; a full file system looks like that. */
static void check_count(const struct tb_file *f, const char *what, int64_t offset, const MPI_Status *status, size_t bytes)
{
    int count;
    MPI_Get_count(status, MPI_BYTE, &count);
    if (count < 0 || (size_t)count != bytes)
        tb_fail(f->path, what, offset, "incomplete transfer (end of file, or no space left)");
}

/* The offset that is told where it fails is the pattern's, also with a view: it is the one in the file. */
static void mpiio_write(struct tb_file *f, const void *data, size_t bytes, int64_t offset)
{
    MPI_Status status;
    int64_t at = in_view(f, offset);
    int code = f->options->collective ? MPI_File_write_at_all(f->handle, at, data, (int)bytes, MPI_BYTE, &status)
                                      : MPI_File_write_at(f->handle, at, data, (int)bytes, MPI_BYTE, &status);
    check(f, "write", offset, code);
    check_count(f, "write", offset, &status, bytes);
}

/* A collective read is one call of all ranks of the file, each with its own part. */
static void mpiio_read(struct tb_file *f, void *data, size_t bytes, int64_t offset)
{
    MPI_Status status;
    int64_t at = in_view(f, offset);
    int code = f->options->collective ? MPI_File_read_at_all(f->handle, at, data, (int)bytes, MPI_BYTE, &status)
                                      : MPI_File_read_at(f->handle, at, data, (int)bytes, MPI_BYTE, &status);
    check(f, "read", offset, code);
    check_count(f, "read", offset, &status, bytes);
}

/* Collective on a shared file: all ranks must come here equally often (`lockstep` in phase.c). */
static void mpiio_sync(struct tb_file *f)
{
    check(f, "sync", -1, MPI_File_sync(f->handle));
}

/* Collective: all ranks of the file come here. */
static void mpiio_close(struct tb_file *f)
{
    check(f, "close", -1, MPI_File_close(&f->handle));
}

const struct tb_backend tb_mpiio = {"MPIIO",    mpi_version, true,       mpiio_open,  mpiio_write,
                                    mpiio_read, mpiio_sync,  mpiio_sync, mpiio_close, false};
