/* FILE streams in every mode; prints what it saw. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
    temporary();
    return 0;
}
