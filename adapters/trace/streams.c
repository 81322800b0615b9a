/*
 * Streams: the calls that Darshan's STDIO module counts, each by what the program
 * moved.  Characters of getc, puts and the like, which libc's headers turn into
 * other calls, are not among them.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <string.h>
#include <sys/types.h>

#include "adapter.h"

static void opened(FILE *file, const char *path, int fd, struct tb_trace_time t)
{
    tb_trace_stream_open(tb_application(), file, path, fd, t);
}

/* In the logs of every program, where it used them. */
static __attribute__((constructor)) void standard_streams(void)
{
    struct tb_trace_time never = {0, 0};
    opened(stdin, "<STDIN>", -1, never);
    opened(stdout, "<STDOUT>", -1, never);
    opened(stderr, "<STDERR>", -1, never);
}

TB_WRAPPER FILE *fopen(const char *path, const char *mode)
{
    TB_TRACED(FILE *, REAL(fopen)(path, mode), result, opened(result, path, -1, t));
}

TB_WRAPPER FILE *fopen64(const char *path, const char *mode)
{
    TB_TRACED(FILE *, REAL(fopen64)(path, mode), result, opened(result, path, -1, t));
}

TB_WRAPPER FILE *fdopen(int fd, const char *mode)
{
    TB_TRACED(FILE *, REAL(fdopen)(fd, mode), result, opened(result, NULL, fd, t));
}

/*
 * Without a name only the mode changes: the stream keeps its file, and nothing is opened for
 * the record.
 */
TB_WRAPPER FILE *freopen(const char *path, const char *mode, FILE *file)
{
    TB_TRACED(FILE *, REAL(freopen)(path, mode, file), result && path, opened(result, path, -1, t));
}

TB_WRAPPER FILE *freopen64(const char *path, const char *mode, FILE *file)
{
    TB_TRACED(FILE *, REAL(freopen64)(path, mode, file), result && path, opened(result, path, -1, t));
}

/* libc closes the descriptor past every wrapper. */
TB_WRAPPER int fclose(FILE *file)
{
    int closing = tb_trace_stream_closing(tb_application(), file), saved = errno;
    int fd = file ? REAL(fileno)(file) : -1;
    errno = saved;
    if (fd >= 0)
        tb_trace_forget(tb_application(), (unsigned)fd, (unsigned)fd);
    TB_TRACED(int, REAL(fclose)(file), closing >= 0, tb_trace_stream_close(tb_application(), closing, t));
}

/*
 * From here on the program may move bytes by the descriptor too: the trace must know that it
 * is this file.
 */
TB_WRAPPER int fileno(FILE *file)
{
    TB_TRACED(int, REAL(fileno)(file), result >= 0, tb_trace_stream_fileno(tb_application(), file, result, t));
}

TB_WRAPPER int fflush(FILE *file)
{
    TB_TRACED(int, REAL(fflush)(file), result == 0, tb_trace_stream_flush(tb_application(), file, t));
}

#define MOVE(type, access, file, n, went, call) \
    TB_TRACED(type, call, went, tb_trace_stream_transfer(tb_application(), file, access, (size_t)(n), t))
#define WRITE(type, file, n, went, call) MOVE(type, TB_TRACE_WRITE, file, n, went, call)
#define READ(type, file, n, went, call) MOVE(type, TB_TRACE_READ, file, n, went, call)

TB_WRAPPER size_t fwrite(const void *buf, size_t size, size_t n, FILE *f)
{
    WRITE(size_t, f, size * result, result > 0, REAL(fwrite)(buf, size, n, f));
}

TB_WRAPPER size_t fread(void *buf, size_t size, size_t n, FILE *f)
{
    READ(size_t, f, size * result, result > 0, REAL(fread)(buf, size, n, f));
}

/* clang-format off: one line each */
TB_WRAPPER int fputc(int c, FILE *f)
{
    WRITE(int, f, 1, result != EOF, REAL(fputc)(c, f));
}
TB_WRAPPER int putw(int w, FILE *f)
{
    WRITE(int, f, sizeof(int), result != EOF, REAL(putw)(w, f));
}
/* glibc returns 1 after a success; the length is asked for only then. */
TB_WRAPPER int fputs(const char *s, FILE *f)
{
    WRITE(int, f, strlen(s), result > 0, REAL(fputs)(s, f));
}
TB_WRAPPER int fgetc(FILE *f)
{
    READ(int, f, 1, result != EOF, REAL(fgetc)(f));
}
/*
 * EOF is also the value of a word, so ferror decides; at the end of the file one word too many
 * is counted.
 */
TB_WRAPPER int getw(FILE *f)
{
    READ(int, f, sizeof(int), result != EOF || !ferror(f), REAL(getw)(f));
}
TB_WRAPPER char *fgets(char *s, int size, FILE *f)
{
    READ(char *, f, strlen(result), result, REAL(fgets)(s, size, f));
}
/* clang-format on */
/* What putc and getc of glibc's older headers call. */
int _IO_putc(int c, FILE *f);
int _IO_getc(FILE *f);
/* clang-format off: one line each */
TB_WRAPPER int _IO_putc(int c, FILE *f)
{
    WRITE(int, f, 1, result != EOF, REAL(_IO_putc)(c, f));
}
TB_WRAPPER int _IO_getc(FILE *f)
{
    READ(int, f, 1, result != EOF, REAL(_IO_getc)(f));
}

TB_WRAPPER int vfprintf(FILE *f, const char *format, va_list args)
{
    WRITE(int, f, result, result > 0, REAL(vfprintf)(f, format, args));
}
/* clang-format on */
/* The header has one of its own, inline. */
int print_list(const char *format, va_list args) __asm__("vprintf");
TB_WRAPPER int print_list(const char *format, va_list args)
{
    WRITE(int, stdout, result, result > 0, REAL(vprintf)(format, args));
}

/* Ends the function that it is in: the result is returned after va_end. */
#define WITH_ARGS(last, call) \
    va_list args;             \
    va_start(args, last);     \
    int result = call;        \
    va_end(args);             \
    return result;

TB_WRAPPER int printf(const char *format, ...){WITH_ARGS(format, print_list(format, args))} TB_WRAPPER
    int fprintf(FILE *f, const char *format, ...)
{
    WITH_ARGS(format, vfprintf(f, format, args))
}

/* How much a scan consumed only the position tells; it is asked for where the stream is traced. */
static int scan(int (*real)(FILE *, const char *, va_list), FILE *f, const char *format, va_list args)
{
    if (!tb_trace_stream_is_known(tb_application(), f))
        return real(f, format, args);
    double start = tb_trace_now();
    off_t before = ftello(f);
    int result = real(f, format, args), saved = errno;
    off_t after = ftello(f);
    if (result != 0)
        tb_trace_stream_transfer(tb_application(), f, TB_TRACE_READ, after > before ? (size_t)(after - before) : 0, tb_since(start));
    errno = saved;
    return result;
}

/* The headers choose one of several, by the standard a program is built for; each goes on to its own. */
#define SCAN(name, prefix)                                                                                                            \
    int name##_scan(FILE *f, const char *format, ...) __asm__(prefix "fscanf");                                                       \
    int name##_vscan(FILE *f, const char *format, va_list args) __asm__(prefix "vfscanf");                                            \
    static int name##_real(FILE *f, const char *format, va_list args)                                                                 \
    {                                                                                                                                 \
        static int (*real)(FILE *, const char *, va_list);                                                                            \
        if (!real)                                                                                                                    \
            real = (int (*)(FILE *, const char *, va_list))tb_real(prefix "vfscanf");                                                 \
        return real(f, format, args);                                                                                                 \
    }                                                                                                                                 \
    TB_WRAPPER int name##_scan(FILE *f, const char *format, ...){                                                                     \
        WITH_ARGS(format, scan(name##_real, f, format, args))} TB_WRAPPER int name##_vscan(FILE *f, const char *format, va_list args) \
    {                                                                                                                                 \
        return scan(name##_real, f, format, args);                                                                                    \
    }
SCAN(gnu, "")
SCAN(c99, "__isoc99_")
SCAN(c23, "__isoc23_")

/* ftello may set errno, which must stay as the program's own call left it. */
static void sought(FILE *file, struct tb_trace_time t)
{
    int saved = errno;
    if (tb_trace_stream_is_known(tb_application(), file))
        tb_trace_stream_seek(tb_application(), file, ftello(file), t);
    errno = saved;
}

#define SEEK(file, call) TB_TRACED(int, call, result == 0, sought(file, t))

/* clang-format off: one line each */
TB_WRAPPER int fseek(FILE *f, long offset, int whence)
{
    SEEK(f, REAL(fseek)(f, offset, whence));
}
TB_WRAPPER int fseeko(FILE *f, off_t offset, int whence)
{
    SEEK(f, REAL(fseeko)(f, offset, whence));
}
TB_WRAPPER int fseeko64(FILE *f, off64_t offset, int whence)
{
    SEEK(f, REAL(fseeko64)(f, offset, whence));
}
TB_WRAPPER int fsetpos(FILE *f, const fpos_t *at)
{
    SEEK(f, REAL(fsetpos)(f, at));
}
TB_WRAPPER int fsetpos64(FILE *f, const fpos64_t *at)
{
    SEEK(f, REAL(fsetpos64)(f, at));
}
/* clang-format on */

/* It has no result: it counts as a seek to 0 in any case. */
TB_WRAPPER void rewind(FILE *f)
{
    double start = tb_trace_now();
    REAL(rewind)(f);
    tb_trace_stream_seek(tb_application(), f, 0, tb_since(start));
}
