/*
 * The files this process has open through MPI, by their handles. A list, because programs have
 * few of them; a mutex, because MPI may be called by several threads.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "layer.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tb_mpi_file *files;

/* File names may say by which driver they are to be opened. */
static const char *without_driver(const char *name)
{
    static const char *const drivers[] = {"ufs:", "nfs:", "lustre:", "gpfs:", "panfs:", "pvfs2:", "testfs:", "xfs:"};
    for (size_t i = 0; i < sizeof(drivers) / sizeof(drivers[0]); i++)
        if (strncmp(name, drivers[i], strlen(drivers[i])) == 0)
            return name + strlen(drivers[i]);
    return name;
}

/*
 * The working directory may change later; a name that is too long is cut, and then matches no
 * file.
 */
static void make_absolute(const char *name, char *out)
{
    size_t n = 0;
    if (*name != '/' && getcwd(out, PATH_MAX - 1)) {
        n = strlen(out);
        out[n++] = '/';
    }
    size_t length = strnlen(name, PATH_MAX - 1 - n);
    memcpy(out + n, name, length);
    out[n + length] = 0;
}

/* Numbers are never used again, so that a trace can tell two openings of a file apart. */
struct tb_mpi_file *tb_mpi_file_add(MPI_File handle, MPI_Comm comm, const char *name, int amode)
{
    static uint64_t last;
    struct tb_mpi_file *f = calloc(1, sizeof(*f));
    if (!f)
        return NULL;
    f->handle = handle;
    f->amode = amode;
    make_absolute(without_driver(name), f->path);
    NEXT(PMPI_Comm_rank)(comm, &f->rank);
    NEXT(PMPI_Comm_size)(comm, &f->ranks);
    pthread_mutex_lock(&lock);
    f->number = ++last;
    f->next = files;
    files = f;
    pthread_mutex_unlock(&lock);
    return f;
}

/* Points to the link that leads to it; the lock is held. */
static struct tb_mpi_file **link_to(MPI_File handle)
{
    struct tb_mpi_file **link = &files;
    while (*link && (*link)->handle != handle)
        link = &(*link)->next;
    return link;
}

/* Used after the lock is dropped: MPI forbids closing a file that another thread uses. */
struct tb_mpi_file *tb_mpi_file_of(MPI_File handle)
{
    pthread_mutex_lock(&lock);
    struct tb_mpi_file *f = *link_to(handle);
    pthread_mutex_unlock(&lock);
    return f;
}

struct tb_mpi_file *tb_mpi_file_take(MPI_File handle)
{
    pthread_mutex_lock(&lock);
    struct tb_mpi_file **link = link_to(handle), *f = *link;
    if (f)
        *link = f->next;
    pthread_mutex_unlock(&lock);
    return f;
}
