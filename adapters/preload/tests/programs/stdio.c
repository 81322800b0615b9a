/* FILE streams in every mode; prints what it saw. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

static char block[10000];

static void show(const char *path)
{
    FILE *f = fopen(path, "r");
    unsigned long sum = 0, n = 0;
    for (int c; f && (c = getc(f)) != EOF; n++)
        sum = sum * 31 + (unsigned)c;
    printf("%s %lu %lu\n", path, n, sum);
    if (f)
        fclose(f);
}

static void write_modes(void)
{
    struct stat st;
    FILE *f = fopen("a", "w");
    for (int i = 0; i < 500; i++)
        fwrite(block, 1, sizeof(block), f);
    fprintf(f, "number %d\n", 42);
    printf("%ld\n", ftell(f));
    fseek(f, 100, SEEK_SET);
    fputs("in the middle", f);
    fflush(f);
    int rc = fstat(fileno(f), &st); /* before the size is an argument: the compiler chooses the order of those */
    printf("%d %ld\n", rc, (long)st.st_size);
    printf("%d\n", fclose(f));
    f = fopen("a", "a+");
    fputs("appended", f);
    rewind(f);
    printf("%c\n", getc(f));
    fclose(f);
    f = fopen("a", "r+");
    fseek(f, -8, SEEK_END);
    fread(block, 1, 8, f);
    printf("%.8s %d %d\n", block, getc(f), feof(f));
    fclose(f);
    f = fopen("a", "wx");
    printf("%p %s\n", (void *)f, strerror(errno));
    show("a");
}

static void reopen(void)
{
    FILE *f = fopen("b", "w");
    fputs("to b", f);
    f = freopen("c", "w", f);
    fputs("to c", f);
    fclose(f);
    f = fdopen(dup(fileno(f = fopen("c", "r"))), "r");
    if (fgets(block, 10, f))
        printf("%s\n", block);
    fclose(f);
    show("b");
    show("c");
    fflush(stdout);
    int keep = dup(1);
    if (!freopen("d", "w", stdout))
        exit(1);
    printf("printf into a reopened stdout\n");
    fflush(stdout);
    if (system("echo and a child"))
        exit(1);
    printf("last\n");
    fflush(stdout);
    dup2(keep, 1);
    close(keep);
    show("d");
}

/* Where a stream that appends begins, and what a mode does not allow. */
static void begin(void)
{
    static const char *const modes[] = {"r", "w", "a", "r+", "a+", "rb+", "q"};
    for (int i = 0; i < 7; i++) {
        int fd = open("begun", O_CREAT | O_RDWR | (i & 1 ? O_APPEND : 0), 0644);
        FILE *f = fdopen(fd, modes[i]);
        printf("fdopen %s: %ld", modes[i], f ? ftell(f) : -1);
        int put = f ? fputs("0123456789", f) : EOF, broken = f && ferror(f);
        printf(" put %d error %d closed %d\n", put >= 0, broken, f ? fclose(f) : close(fd));
        f = fopen("begun", modes[i]);
        printf("fopen %s: %ld", modes[i], f ? ftell(f) : -1);
        int got = f ? fgetc(f) : EOF;
        printf(" got %d error %d at %ld\n", got, f && ferror(f), f ? ftell(f) : -1);
        if (f)
            fclose(f);
        fd = open("begun", i & 2 ? O_RDONLY : O_WRONLY);
        f = fdopen(fd, modes[i]);
        printf("of one side %s: %s\n", modes[i], f ? "done" : strerror(errno));
        if (f ? fclose(f) : close(fd))
            printf("not closed\n");
        show("begun");
    }
    int fd = open("begun", O_WRONLY);
    FILE *f = fdopen(fd, "a"), *other = fopen("begun", "a");
    fputs("first", f);
    fflush(f);
    fputs("other", other);
    fclose(other);
    fputs("second", f);
    fclose(f);
    show("begun");
}

static void change_mode(void)
{
    FILE *f = fopen("changed", "w");
    fputs("written", f);
    f = freopen(NULL, "r", f);
    printf("%d\n", f && fgets(block, 100, f) && !strcmp(block, "written") && fputc('x', f) == EOF);
    clearerr(f);
    f = freopen(NULL, "a", f);
    printf("%ld %d\n", f ? ftell(f) : -1, f && fgetc(f) == EOF && ferror(f));
    fputs(" more", f);
    f = freopen(NULL, "r+", f);
    printf("%d\n", f && fgets(block, 100, f) && !strcmp(block, "written more"));
    unlink("changed");
    f = freopen(NULL, "w+", f);
    printf("%ld\n", f ? ftell(f) : -1);
    fputs("without a name", f);
    rewind(f);
    printf("%d\n", f && fgets(block, 100, f) && !strcmp(block, "without a name"));
    errno = 0;
    printf("%d %s\n", freopen("changed", "q", f) == NULL, strerror(errno));
}

/* What is written in part says why. */
static void full(void)
{
    struct rlimit all, least = {6000, RLIM_INFINITY};
    FILE *f = fopen("full", "w");
    signal(SIGXFSZ, SIG_IGN);
    mmap(NULL, 1, PROT_READ, MAP_PRIVATE, fileno(f), 0); /* by the kernel from here on */
    setvbuf(f, NULL, _IONBF, 0);
    getrlimit(RLIMIT_FSIZE, &all);
    setrlimit(RLIMIT_FSIZE, &least);
    errno = 0;
    size_t n = fwrite(block, 1, 8192, f);
    int error = errno;
    setrlimit(RLIMIT_FSIZE, &all);
    printf("%zu %s\n", n, strerror(error));
    fclose(f);
}

static void wide(void)
{
    static const char *const modes[] = {"w", "a", "r+", "a+", "w+"};
    wchar_t line[32];
    int number = 0;
    for (int i = 0; i < 5; i++) {
        FILE *f = fopen("wide", modes[i]);
        int rc = i == 2 ? fseek(f, 4, SEEK_SET) : 0;
        printf("%d %d", rc, fwprintf(f, L"%d lines\n", i));
        printf(" %d %d", fputws(L"more\n", f) >= 0, fputwc(L'!', f) == L'!');
        printf(" at %ld", ftell(f));
        printf(" closed %d\n", fclose(f));
        f = fopen("wide", "r");
        rc = fwscanf(f, L"%d", &number);
        printf("%d %d", rc, number);
        while (fgetws(line, 32, f))
            printf(" %zu", wcslen(line));
        rewind(f);
        printf(" %d", getwc(f) == L'0' && ungetwc(L'x', f) == L'x' && fgetwc(f) == L'x');
        printf(" closed %d\n", fclose(f));
        show("wide");
    }
}

static void temporary(void)
{
    char name[] = "tXXXXXX", folder[] = "dXXXXXX";
    int fd = mkstemp(name);
    printf("%d\n", (int)write(fd, "mkstemp", 7));
    close(fd);
    printf("%d %d\n", rename(name, "t"), mkdtemp(folder) != NULL);
    printf("%d\n", rmdir(folder));
    show("t");
    FILE *f = tmpfile();
    fputs("x", f);
    printf("%ld\n", ftell(f));
    fclose(f);
    f = popen("cat t", "r");
    if (fgets(block, 100, f))
        printf("%s\n", block);
    pclose(f);
    f = fopen("left-open", "w"); /* exit must not lose it */
    fputs("flushed by exit", f);
}

int main(void)
{
    for (size_t i = 0; i < sizeof(block); i++)
        block[i] = (char)(i * 7 % 251);
    write_modes();
    reopen();
    begin();
    change_mode();
    full();
    wide();
    temporary();
    return 0;
}
