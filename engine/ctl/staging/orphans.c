/*
 * Movers that a killed tierctl left, named on standard output (staging/orphans.h). A mover is recognised by its name and by the
 * log that it has open. If its parent is no tierctl, its tierctl was killed.
 */
#include "staging/orphans.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stage/log/lines.h"

/*
 * Name and parent of a process: false, where it has ended. The name may hold anything, also `)`, so the rest is read from
 * the last one on.
 */
static bool look_at(long pid, char name[32], long *parent)
{
    char path[64], text[256] = "";
    snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
    FILE *in = fopen(path, "re");
    bool read = in && fgets(text, sizeof(text), in);
    char *end = read ? strrchr(text, ')') : NULL;
    if (in)
        fclose(in);
    return end && sscanf(text, "%*d (%31[^)]", name) == 1 && sscanf(end + 1, " %*c %ld", parent) == 1;
}

/*
 * The folder of the log that it has open. Descriptors of other users' processes cannot be read, so only this user's movers
 * are named.
 */
static bool folder_of(long pid, char folder[PATH_MAX])
{
    char path[64 + NAME_MAX];
    bool found = false;
    snprintf(path, sizeof(path), "/proc/%ld/fd", pid);
    DIR *fds = opendir(path);
    for (struct dirent *e; fds && !found && (e = readdir(fds));) {
        snprintf(path, sizeof(path), "/proc/%ld/fd/%s", pid, e->d_name);
        ssize_t n = readlink(path, folder, PATH_MAX - 1);
        folder[n > 0 ? n : 0] = '\0';
        char *slash = strrchr(folder, '/');
        found = slash && strcmp(slash + 1, TB_LOG_NAME) == 0;
        if (found)
            *slash = '\0';
    }
    if (fds)
        closedir(fds);
    return found;
}

/* By process name first: it costs one small file, where the descriptors cost a link each. */
static void name(long pid)
{
    char word[32], parents[32] = "", folder[PATH_MAX];
    long parent, above;
    if (!look_at(pid, word, &parent) || strcmp(word, "tb-mover") != 0 || !folder_of(pid, folder))
        return;
    if (!look_at(parent, parents, &above) || strcmp(parents, "tierctl") != 0)
        printf("mover %ld: moves files for %s without a tierctl; it ends when they are moved, or by kill %ld\n", pid, folder, pid);
}

/* Named and not ended: such a mover still brings files to where they are wanted, and ends by itself. */
void ctl_movers_name_orphans(void)
{
    DIR *processes = opendir("/proc");
    for (struct dirent *e; processes && (e = readdir(processes));)
        if (isdigit((unsigned char)e->d_name[0]))
            name(atol(e->d_name));
    if (processes)
        closedir(processes);
}
