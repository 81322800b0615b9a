/*
 * Directives are resolved in their order: a variable is known from the line on that makes it.
 * $NAME and ${NAME} in a source or destination are of the job, else of the environment.
 */
#include "staging/job.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/remove_tree.h"
#include "common/ctl.h"
#include "stage/copy/roots.h"
#include "staging/input.h"

#define MARK ".tierbench-job"

/* One of two folders under one name would be lost to the script, and files for the one would go to the other. */
static int add_variable(struct stage_job *j, const struct directive *d, const char *prefix, const char *name, const char *path)
{
    if (j->n_variables == JOB_VARIABLES)
        return directive_refuse(&j->directives, d, "more than %d folders", JOB_VARIABLES);
    char *const new = j->variable[j->n_variables].name;
    snprintf(new, sizeof(j->variable[0].name), "%s%s", prefix, name);
    for (char *to = new; *to; to++)
        *to = *to == '-' ? '_' : *to; /* no variable has a dash */
    for (int i = 0; i < j->n_variables; i++)
        if (strcmp(j->variable[i].name, new) == 0)
            return directive_refuse(&j->directives, d, "$%s is a folder's already; allowed: a folder of another name", new);
    snprintf(j->variable[j->n_variables].value, PATH_MAX, "%s", path);
    j->n_variables++;
    return 0;
}

/* Below the job's id, so that two jobs of one script have folders of their own. */
static int job_folder(struct stage_job *j, const struct directive *d, const char *variable, const char *folder)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s/%s", j->place, j->id, folder);
    for (int i = 0; i < j->n_variables; i++)
        if (strcmp(j->variable[i].value, path) == 0)
            return directive_refuse(&j->directives, d, "the folder %s is $%s; allowed: a folder of another name", folder,
                                    j->variable[i].name);
    return add_variable(j, d, "DW_JOB_", variable, path);
}

/*
 * DataWarp's jobdw has access modes and Rabbit's a name; both may be given. Private folders carry the node's name: each
 * node of the job has its own below the same place.
 */
static int take_job(struct stage_job *j, const struct directive *d)
{
    char host[65], private[80];
    const char *mode = d->value[KEY_ACCESS] ? d->value[KEY_ACCESS] : d->value[KEY_NAME] ? "" : "striped";
    tb_stage_host(host);
    snprintf(private, sizeof(private), "private-%s", host);
    int rc = strstr(mode, "striped") ? job_folder(j, d, "STRIPED", "striped") : 0;
    if (!rc && strstr(mode, "private"))
        rc = job_folder(j, d, "PRIVATE", private);
    if (!rc && d->value[KEY_NAME])
        rc = job_folder(j, d, d->value[KEY_NAME], d->value[KEY_NAME]);
    return rc;
}

/* DataWarp's name for it and Rabbit's. */
static int take_persistent(struct stage_job *j, const struct directive *d)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/persistent/%s", j->place, d->value[KEY_NAME]);
    int rc = add_variable(j, d, "DW_PERSISTENT_STRIPED_", d->value[KEY_NAME], path);
    return rc ? rc : add_variable(j, d, "DW_PERSISTENT_", d->value[KEY_NAME], path);
}

/*
 * The job's own variables come first, so that an old value in the environment of the user's shell does not lead a file
 * elsewhere.
 */
static const char *value_of(const struct stage_job *j, const char *name, size_t n)
{
    char own[256];
    for (int i = 0; i < j->n_variables; i++)
        if (strlen(j->variable[i].name) == n && strncmp(j->variable[i].name, name, n) == 0)
            return j->variable[i].value;
    if (n >= sizeof(own))
        return NULL;
    memcpy(own, name, n);
    own[n] = '\0';
    return getenv(own);
}

/* A variable that is not set is refused. As an empty text it would turn a path below a folder into one below the root. */
static int expand(const struct stage_job *j, const struct directive *d, const char *text, char *out)
{
    size_t n = 0;
    while (*text && n < PATH_MAX - 1) {
        if (*text != '$') {
            out[n++] = *text++;
            continue;
        }
        bool braced = text[1] == '{';
        const char *name = text + 1 + braced;
        size_t length = 0;
        while (isalnum((unsigned char)name[length]) || name[length] == '_')
            length++;
        const char *value = length && (!braced || name[length] == '}') ? value_of(j, name, length) : NULL;
        if (!value)
            return directive_refuse(&j->directives, d,
                                    "$%.*s is not set; allowed: a variable of a line before this one, or of the environment", (int)length,
                                    name);
        n += (size_t)snprintf(out + n, PATH_MAX - n, "%s", value);
        text = name + length + braced;
    }
    out[n < PATH_MAX ? n : PATH_MAX - 1] = '\0';
    return n < PATH_MAX - 1 ? 0 : directive_refuse(&j->directives, d, "a path is longer than %d bytes", PATH_MAX - 2);
}

/* A name that is cut at the longest path, or at a zero byte, is that of another file. `n`: bytes of the line, without its end. */
static int check_list_line(const char *list, unsigned number, const char *line, size_t n)
{
    if (n >= PATH_MAX)
        return ctl_fail("%s:%u: a name of %zu bytes; allowed: a file's name in each line, at most %d bytes", list, number, n, PATH_MAX - 1);
    return strlen(line) == n ? 0 : ctl_fail("%s:%u: a zero byte in a name; allowed: a file's name in each line", list, number);
}

/* One that begins with a variable is below it: so a list names files that the job makes. Any other $ is a part of the name. */
static int add_listed(struct stage_job *j, const struct directive *d, struct pairs *to, const char *line, const char *folder)
{
    char path[PATH_MAX];
    int rc = *line == '$' ? expand(j, d, line, path) : 0;
    return rc ? rc : pairs_add(to, *line == '$' ? path : line, folder, d->line);
}

/* type=list: a line a file; each goes into the folder `destination`. */
static int add_list(struct stage_job *j, const struct directive *d, struct pairs *to, const char *list, const char *destination)
{
    char folder[PATH_MAX + 1], *line = NULL;
    const char *why;
    size_t room = 0;
    ssize_t n;
    FILE *in = ctl_input_open(list, &why);
    int rc = in ? 0 : directive_refuse(&j->directives, d, "source=%s: %s", list, why);
    snprintf(folder, sizeof(folder), "%s/", destination);
    for (unsigned number = 1; !rc && (n = getline(&line, &room, in)) > 0; number++) {
        while (n && (line[n - 1] == '\n' || line[n - 1] == '\r'))
            line[--n] = '\0';
        rc = check_list_line(list, number, line, (size_t)n);
        if (!rc && n)
            rc = add_listed(j, d, to, line, folder);
    }
    free(line);
    if (in && (why = ctl_input_close(in)) && !rc)
        rc = directive_refuse(&j->directives, d, "source=%s: %s", list, why);
    return rc;
}

/* It counts for the whole job, since one mover carries all its files; polite and verified may both be asked for. */
static void use_profile(struct stage_job *j, const char *profile)
{
    if (profile && strcmp(profile, "polite") == 0) {
        j->settings.priority = TB_STAGE_IDLE;
        j->settings.streams = 1;
    } else if (profile && strcmp(profile, "verified") == 0) {
        j->settings.verify = TB_STAGE_STORED;
    }
}

/* The type is compared with the source only for files that come in; what goes out need not be there yet. */
static int take_move(struct stage_job *j, const struct directive *d)
{
    char source[PATH_MAX], destination[PATH_MAX];
    bool in = d->verb == DIRECTIVE_STAGE_IN || d->verb == DIRECTIVE_COPY_IN;
    const char *type = d->value[KEY_TYPE];
    int rc = expand(j, d, d->value[KEY_SOURCE], source);
    if (!rc)
        rc = expand(j, d, d->value[KEY_DESTINATION], destination);
    use_profile(j, d->value[KEY_PROFILE]);
    if (rc)
        return rc;
    struct pairs *to = in ? &j->in : &j->out;
    if (type && strcmp(type, "list") == 0)
        return add_list(j, d, to, source, destination);
    struct stat st;
    if (in && type && stat(source, &st) == 0 && S_ISDIR(st.st_mode) != (strcmp(type, "directory") == 0))
        return directive_refuse(&j->directives, d, "type=%s: source %s is %s", type, source,
                                S_ISDIR(st.st_mode) ? "a folder" : "no folder");
    return pairs_add(to, source, destination, d->line);
}

/* Creating and destroying are the batch system's part; here they only say which names there are. */
static int take(struct stage_job *j, const struct directive *d)
{
    switch (d->verb) {
    case DIRECTIVE_JOB: return take_job(j, d);
    case DIRECTIVE_PERSISTENT: return take_persistent(j, d);
    case DIRECTIVE_CREATE:
    case DIRECTIVE_DESTROY: return 0;
    default: return take_move(j, d);
    }
}

/* The name becomes a folder beside `persistent`, so it cannot be that word, nor lead out of the place. */
int stage_job_read(struct stage_job *j, const char *script, const char *word, const char *place, const char *id)
{
    if (!*id || *id == '.' || strchr(id, '/') || strlen(id) > 100 || strcmp(id, "persistent") == 0)
        return ctl_fail("--job %s; allowed: 1 to 100 characters without /, not persistent, and no dot at the beginning", id);
    *j = (struct stage_job){.place = place, .id = id, .in.file = script, .out.file = script};
    tb_stage_defaults(&j->settings);
    int rc = directives_read(&j->directives, script, word);
    for (size_t i = 0; i < j->directives.n && !rc; i++)
        rc = take(j, j->directives.one[i]);
    return rc;
}

static bool is_created(const struct stage_job *j, const char *name)
{
    for (size_t i = 0; i < j->directives.n; i++)
        if (j->directives.one[i]->verb == DIRECTIVE_CREATE && strcmp(j->directives.one[i]->value[KEY_NAME], name) == 0)
            return true;
    return false;
}

/* False also where it cannot be read: then it is not known to be empty. */
static bool is_empty(const char *path)
{
    int n = 0;
    DIR *d = opendir(path);
    for (struct dirent *entry; d && (entry = readdir(d));)
        n += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    if (d)
        closedir(d);
    return d && n == 0;
}

/* Ours by its mark; one without anything in it loses nothing. */
static bool is_own_folder(const char *path)
{
    char mark[PATH_MAX + 32];
    snprintf(mark, sizeof(mark), "%s/%s", path, MARK);
    return access(mark, F_OK) == 0 || is_empty(path);
}

/* Capacity is what the place has free for all jobs: nothing is set aside. */
static int check_room(const struct stage_job *j, const struct directive *d)
{
    struct statvfs fs;
    uint64_t bytes = 0;
    if (d->value[KEY_CAPACITY])
        directive_capacity(d->value[KEY_CAPACITY], &bytes);
    if (statvfs(j->place, &fs) || access(j->place, W_OK | X_OK))
        return directive_refuse(&j->directives, d, "the place %s: %s; allowed: a folder that you may write to", j->place, strerror(errno));
    if (bytes > (uint64_t)fs.f_bavail * fs.f_frsize)
        return directive_refuse(&j->directives, d, "capacity=%s; allowed: the %llu bytes that %s has free", d->value[KEY_CAPACITY],
                                (unsigned long long)fs.f_bavail * fs.f_frsize, j->place);
    return 0;
}

/* Storage that outlives jobs: what is used or destroyed must be there, what is created must not. */
static int check_name(const struct stage_job *j, const struct directive *d)
{
    char path[PATH_MAX];
    const char *name = d->value[KEY_NAME];
    snprintf(path, sizeof(path), "%s/persistent/%s", j->place, name ? name : "");
    bool there = name && access(path, F_OK) == 0;
    if ((d->verb == DIRECTIVE_PERSISTENT || d->verb == DIRECTIVE_DESTROY) && !there && !is_created(j, name))
        return directive_refuse(&j->directives, d, "name=%s: there is no such storage; create_persistent makes one", name);
    if (d->verb == DIRECTIVE_DESTROY && there && !is_own_folder(path))
        return directive_refuse(&j->directives, d, "name=%s: tierctl stage has not made %s; allowed: what create_persistent made", name,
                                path);
    if (d->verb == DIRECTIVE_CREATE && there)
        return directive_refuse(&j->directives, d, "name=%s: is there already; allowed: a new name", name);
    return 0;
}

static int check_storage(const struct stage_job *j, const struct directive *d)
{
    int rc = check_room(j, d);
    return rc ? rc : check_name(j, d);
}

/* Nothing is made here, so a batch system can ask while the job is still in its queue, and a user on a login node. */
int stage_job_check(struct stage_job *j)
{
    const char *absent = j->is_away ? j->place : NULL;
    int rc = pairs_follow(&j->in);
    for (size_t i = 0; i < j->directives.n && !rc && !absent; i++)
        if (j->directives.one[i]->verb <= DIRECTIVE_DESTROY)
            rc = check_storage(j, j->directives.one[i]);
    if (!rc)
        rc = pairs_check(&j->in, true, absent);
    return rc ? rc : pairs_check(&j->out, false, absent);
}

/*
 * With the folders above it; what is the job's own is for its user alone. Parts that are there already are left as they
 * are; if one of them cannot be made, the last mkdir says why.
 */
static int make_folder(const char *path)
{
    char part[PATH_MAX];
    snprintf(part, sizeof(part), "%s", path);
    for (char *p = part + 1; *p; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        mkdir(part, 0700);
        *p = '/';
    }
    if (mkdir(part, 0700) == 0 || errno == EEXIST)
        return 0;
    return ctl_fail("stage: %s: %s", path, strerror(errno));
}

/* The name of a job can be guessed, and a place may be for all users: what another one made would give that one the job's files. */
static bool is_this_users(const char *folder)
{
    struct stat st;
    return lstat(folder, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid();
}

/*
 * A folder that is removed later has a mark, so that nothing else is ever removed by a name that was used before. Where a kill
 * came between the folder and its mark, the folder is empty and can be taken. `is_new`: the mark of another job is refused too.
 */
static int make_own_folder(const char *path, bool is_new)
{
    char mark[PATH_MAX + 32];
    int rc = make_folder(path);
    if (rc)
        return rc;
    snprintf(mark, sizeof(mark), "%s/%s", path, MARK);
    if (!is_this_users(path))
        return ctl_fail("stage: %s is another user's; allowed: another name or --place", path);
    if (access(mark, F_OK) == 0)
        return is_new ? ctl_fail("stage: %s is another job's; allowed: a name that was not used before", path) : 0;
    if (!is_empty(path))
        return ctl_fail("stage: %s is there already, and tierctl stage has not made it; allowed: another name or --place", path);
    int fd = open(mark, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return ctl_fail("stage: %s: %s", mark, strerror(errno));
    close(fd);
    return 0;
}

/*
 * In the mark: the folders that take what is staged out, with device and inode. Hours later, in another phase, they say whether their
 * file systems are mounted. A kill in here leaves fewer of them, and an error for the batch system.
 */
static int note_places(const struct stage_job *j)
{
    char mark[PATH_MAX + 32], folder[PATH_MAX], last[PATH_MAX] = "";
    struct stat st;
    snprintf(mark, sizeof(mark), "%s/%s/%s", j->place, j->id, MARK);
    int fd = open(mark, O_WRONLY | O_TRUNC | O_NOFOLLOW | O_CLOEXEC);
    bool fails = fd < 0;
    for (size_t i = 0; i < j->out.n && !fails; i++) {
        if (tb_root_above(j->out.one[i].destination, folder, &st) || strcmp(folder, last) == 0 || strchr(folder, '\n'))
            continue;
        fails = dprintf(fd, "%ju %ju %s\n", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino, folder) < 0;
        strcpy(last, folder);
    }
    int rc = fails ? ctl_fail("stage: %s: %s", mark, strerror(errno)) : 0;
    if (fd >= 0)
        close(fd);
    return rc;
}

int stage_job_check_places(const struct stage_job *j)
{
    char mark[PATH_MAX + 32], line[PATH_MAX + 64] = "";
    uintmax_t device, inode;
    int at = 0, rc = 0;
    snprintf(mark, sizeof(mark), "%s/%s/%s", j->place, j->id, MARK);
    FILE *in = fopen(mark, "re");
    while (in && !rc && fgets(line, sizeof(line), in)) {
        line[strcspn(line, "\n")] = '\0';
        if (sscanf(line, "%ju %ju %n", &device, &inode, &at) == 2 && !tb_root_is_there(line + at, (dev_t)device, (ino_t)inode))
            rc = EXIT_DRAIN_FAILED;
    }
    if (rc)
        ctl_fail("stage: %s: its file system is not there any more; nothing was staged out", line + at);
    if (in)
        fclose(in);
    return rc;
}

/* One that only uses persistent storage has none, but where it stages out: the mark says which file systems were there. */
static bool has_own_folder(const struct stage_job *j)
{
    if (j->out.n)
        return true;
    for (int i = 0; i < j->n_variables; i++)
        if (strncmp(j->variable[i].name, "DW_JOB_", 7) == 0)
            return true;
    return false;
}

/* First the folders with marks, then those in them: what is made without a mark is below one that has it. */
int stage_job_set_up(const struct stage_job *j, bool is_new)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s", j->place, j->id);
    int rc = has_own_folder(j) ? make_own_folder(path, is_new) : 0;
    if (!rc && has_own_folder(j))
        rc = note_places(j);
    for (size_t i = 0; i < j->directives.n && !rc; i++) {
        const struct directive *d = j->directives.one[i];
        snprintf(path, sizeof(path), "%s/persistent/%s", j->place, d->verb == DIRECTIVE_CREATE ? d->value[KEY_NAME] : "");
        rc = d->verb == DIRECTIVE_CREATE ? make_own_folder(path, true) : 0;
    }
    for (int i = 0; i < j->n_variables && !rc; i++)
        if (strncmp(j->variable[i].name, "DW_JOB_", 7) == 0)
            rc = make_folder(j->variable[i].value);
    return rc;
}

/* In single quotes, for any value. */
void stage_job_print_variables(const struct stage_job *j)
{
    for (int i = 0; i < j->n_variables; i++) {
        printf("export %s='", j->variable[i].name);
        for (const char *p = j->variable[i].value; *p; p++)
            fputs(*p == '\'' ? "'\\''" : (char[]){*p, '\0'}, stdout);
        puts("'");
    }
}

/* For the script alone: this is called in its process, after the fork. */
void stage_job_set_variables(const struct stage_job *j)
{
    for (int i = 0; i < j->n_variables; i++)
        setenv(j->variable[i].name, j->variable[i].value, 1);
}

/* The mark goes last: what a killed removal left is still known as ours. Without a mark only an empty folder goes. */
static int remove_own_folder(const char *path)
{
    char mark[PATH_MAX + 32];
    snprintf(mark, sizeof(mark), "%s/%s", path, MARK);
    int rc = access(mark, F_OK) == 0 ? tb_remove_tree(path, MARK) : 0;
    if (rc)
        return ctl_fail("stage: %s cannot be removed: %s", path, strerror(-rc));
    return rmdir(path) == 0 || errno == ENOENT ? 0 : ctl_fail("stage: %s stays: tierctl stage has not made it", path);
}

/*
 * Goes on after an error, so that one folder that cannot be removed does not keep the others; the first error is the exit
 * status.
 */
int stage_job_tear_down(const struct stage_job *j)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s", j->place, j->id);
    int rc = remove_own_folder(path);
    for (size_t i = 0; i < j->directives.n; i++) {
        const struct directive *d = j->directives.one[i];
        if (d->verb != DIRECTIVE_DESTROY)
            continue;
        snprintf(path, sizeof(path), "%s/persistent/%s", j->place, d->value[KEY_NAME]);
        int removed = remove_own_folder(path);
        rc = rc ? rc : removed;
    }
    return rc;
}

void stage_job_free(struct stage_job *j)
{
    directives_free(&j->directives);
    pairs_free(&j->in);
    pairs_free(&j->out);
}
