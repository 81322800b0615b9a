/*
 * A file of text read whole, up to a limit: scenarios and maps. It may be a pipe, so its size is not asked for. A file that
 * is refused leaves no text and one complaint with the reason.
 */
#include "tb_forge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static char *refuse(const char *file, const char *why, struct tb_complaint *c)
{
    snprintf(c->text, sizeof(c->text), "%.4000s: %s", file, why);
    return NULL;
}

/*
 * Grows as it reads, as the size of a pipe is not known before. It ends at the first block that is not full, or one past
 * the limit, so that a device that never ends is not read for ever.
 */
static char *read_all(FILE *f, size_t most, size_t *length)
{
    size_t room = 1 << 16;
    char *text = malloc(room);
    for (*length = 0; text; room *= 2) {
        *length += fread(text + *length, 1, room - *length, f);
        if (*length < room || *length > most)
            return text;
        char *larger = realloc(text, 2 * room);
        if (!larger)
            free(text);
        text = larger;
    }
    return NULL;
}

/* errno is kept from the read: fclose may set another one. */
char *tb_text_of(const char *file, size_t most, size_t *length, struct tb_complaint *c)
{
    FILE *f = fopen(file, "re");
    if (!f)
        return refuse(file, strerror(errno), c);
    errno = 0;
    char *text = read_all(f, most, length);
    bool bad = ferror(f) != 0;
    int error = errno;
    fclose(f);
    if (text && !bad && *length <= most)
        return text;
    free(text);
    return refuse(file, bad ? strerror(error) : text ? "the file is too long" : "no memory for the file", c);
}
