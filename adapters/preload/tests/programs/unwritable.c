/* In the current folder: files that their owner may not open for writing, made so in each way, are written by who has them open. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int failures;
#define CHECK(ok) ((ok) ? (void)0 : (void)(failures++, printf("%d: %s (%s)\n", __LINE__, #ok, strerror(errno))))

static void put(int fd, const char *text)
{
    CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
}

static void end(int fd, const char *name, const char *text)
{
    char got[64] = "";
    struct stat st;
    CHECK(close(fd) == 0);
    fd = open(name, O_RDONLY);
    CHECK(fd >= 0 && read(fd, got, sizeof(got) - 1) == (ssize_t)strlen(text) && !strcmp(got, text));
    CHECK(fstat(fd, &st) == 0 && st.st_size == (off_t)strlen(text) && !(st.st_mode & S_IWUSR) && close(fd) == 0);
    CHECK(open(name, O_WRONLY) == -1 && errno == EACCES);
}

static void made_so(const char *name, int flags)
{
    int fd = open(name, O_CREAT | O_EXCL | O_WRONLY | flags, 0444);
    CHECK(fd >= 0);
    put(fd, "first ");
    put(fd, "second");
    end(fd, name, "first second");
}

/* By its descriptor, or by its name. */
static void becomes_so(const char *name, int by_descriptor)
{
    int fd = open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
    CHECK(fd >= 0);
    put(fd, "first ");
    CHECK((by_descriptor ? fchmod(fd, 0400) : chmod(name, 0400)) == 0);
    put(fd, "second");
    end(fd, name, "first second");
}

/* Opened and not used yet when it changes. */
static void becomes_so_unused(const char *name)
{
    int fd = open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
    CHECK(fd >= 0 && chmod(name, 0400) == 0);
    put(fd, "first ");
    put(fd, "second");
    end(fd, name, "first second");
}

int main(void)
{
    made_so("made", 0);
    made_so("appended", O_APPEND);
    becomes_so("by descriptor", 1);
    becomes_so("by name", 0);
    becomes_so_unused("unused");
    return failures != 0;
}
