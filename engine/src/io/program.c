/*
 * A static program loads no adapter, and the loader ignores LD_PRELOAD for one
 * that runs with another user's rights: their I/O would silently miss the tiers.
 */
#include <elf.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <tierbench/program.h>

#define SCRIPT_LINE 256 /* as much of a "#!" line as the kernel reads, */
#define SCRIPT_DEPTH 5  /* and of scripts that interpret scripts */

static const char *unserved_elf(int fd)
{
    Elf64_Ehdr head;
    Elf64_Phdr p;
    if (pread(fd, &head, sizeof(head), 0) != sizeof(head) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0)
        return NULL;
    if (head.e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32))
        return "is of another word size";
    for (int i = 0; i < head.e_phnum; i++)
        if (pread(fd, &p, sizeof(p), (off_t)(head.e_phoff + (Elf64_Off)i * head.e_phentsize)) == sizeof(p) && p.p_type == PT_INTERP)
            return NULL;
    return "is statically linked";
}

static bool gains_rights(int fd)
{
    struct stat st;
    if (fstat(fd, &st))
        return false;
    if ((st.st_mode & S_ISUID && st.st_uid != geteuid()) || (st.st_mode & S_ISGID && st.st_gid != getegid()))
        return true;
    return geteuid() != 0 && fgetxattr(fd, "security.capability", NULL, 0) > 0;
}

/* The program after "#!": its rights count, and how it is linked. */
static bool interpreter(int fd, char *out)
{
    ssize_t n = pread(fd, out, SCRIPT_LINE, 0);
    if (n < 3 || out[0] != '#' || out[1] != '!')
        return false;
    out[n] = 0;
    char *start = out + 2 + strspn(out + 2, " \t");
    start[strcspn(start, " \t\n")] = 0;
    memmove(out, start, strlen(start) + 1);
    return *out;
}

static const char *unserved(const char *path, int depth)
{
    char next[SCRIPT_LINE + 1];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    bool script = interpreter(fd, next);
    const char *why = script ? NULL : unserved_elf(fd);
    if (!script && !why && gains_rights(fd))
        why = "runs with another user's rights";
    close(fd);
    return script && depth ? unserved(next, depth - 1) : why;
}

const char *tb_program_unserved(const char *path)
{
    return unserved(path, SCRIPT_DEPTH);
}
