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

static bool is_static(int fd)
{
    Elf64_Ehdr head;
    Elf64_Phdr p;
    if (pread(fd, &head, sizeof(head), 0) != sizeof(head) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0)
        return false;
    for (int i = 0; i < head.e_phnum; i++)
        if (pread(fd, &p, sizeof(p), (off_t)(head.e_phoff + (Elf64_Off)i * head.e_phentsize)) == sizeof(p) && p.p_type == PT_INTERP)
            return false;
    return true;
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

const char *tb_program_unserved(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    const char *why = is_static(fd) ? "is statically linked" : gains_rights(fd) ? "runs with another user's rights" : NULL;
    close(fd);
    return why;
}
