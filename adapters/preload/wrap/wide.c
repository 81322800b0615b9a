/*
 * Wide characters of streams. libc's cookies have none: with the first one a managed stream becomes libc's own
 * (wrap/stdio.c). All that libc has of them is here, since it calls none of these by itself.
 */
#include <stdarg.h>
#include <stdio.h>
#include <wchar.h>

#include "core/adapter.h"
#include "wrap/stdio.h"

#define WIDE(type, name, parameters, ...) \
    type name parameters;                 \
    TB_WRAPPER type name parameters       \
    {                                     \
        tb_stream_widen(file);            \
        return REAL(name)(__VA_ARGS__);   \
    }
WIDE(wint_t, fgetwc, (FILE * file), file)
WIDE(wint_t, getwc, (FILE * file), file)
WIDE(wint_t, fgetwc_unlocked, (FILE * file), file)
WIDE(wint_t, getwc_unlocked, (FILE * file), file)
WIDE(wint_t, ungetwc, (wint_t c, FILE *file), c, file)
WIDE(wint_t, fputwc, (wchar_t c, FILE *file), c, file)
WIDE(wint_t, putwc, (wchar_t c, FILE *file), c, file)
WIDE(wint_t, fputwc_unlocked, (wchar_t c, FILE *file), c, file)
WIDE(wint_t, putwc_unlocked, (wchar_t c, FILE *file), c, file)
WIDE(int, fputws, (const wchar_t *text, FILE *file), text, file)
WIDE(int, fputws_unlocked, (const wchar_t *text, FILE *file), text, file)
WIDE(wchar_t *, fgetws, (wchar_t * out, int n, FILE *file), out, n, file)
WIDE(wchar_t *, fgetws_unlocked, (wchar_t * out, int n, FILE *file), out, n, file)
WIDE(wchar_t *, __fgetws_chk, (wchar_t * out, size_t room, int n, FILE *file), out, room, n, file)
WIDE(wchar_t *, __fgetws_unlocked_chk, (wchar_t * out, size_t room, int n, FILE *file), out, room, n, file)
WIDE(int, vfwprintf, (FILE * file, const wchar_t *format, va_list args), file, format, args)
WIDE(int, __vfwprintf_chk, (FILE * file, int flag, const wchar_t *format, va_list args), file, flag, format, args)
WIDE(int, __isoc99_vfwscanf, (FILE * file, const wchar_t *format, va_list args), file, format, args)

/* With a list of arguments as one value. */
#define WIDE_LIST(name, last, parameters, ...) \
    int name parameters;                       \
    TB_WRAPPER int name parameters             \
    {                                          \
        va_list args;                          \
        va_start(args, last);                  \
        int n = __VA_ARGS__;                   \
        va_end(args);                          \
        return n;                              \
    }
WIDE_LIST(fwprintf, format, (FILE * file, const wchar_t *format, ...), vfwprintf(file, format, args))
WIDE_LIST(__fwprintf_chk, format, (FILE * file, int flag, const wchar_t *format, ...), __vfwprintf_chk(file, flag, format, args))
WIDE_LIST(__isoc99_fwscanf, format, (FILE * file, const wchar_t *format, ...), __isoc99_vfwscanf(file, format, args))

/* To ask for the orientation changes nothing. */
TB_WRAPPER int fwide(FILE *file, int mode)
{
    if (mode > 0)
        tb_stream_widen(file);
    return REAL(fwide)(file, mode);
}
