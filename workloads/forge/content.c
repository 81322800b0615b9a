/*
 * What a validated file holds: each word is made of the file's number and the word's place, so that bytes at a wrong
 * place, of another client or of an older run are found without a copy. Requests may begin and end within a word.
 */
#include "tb_forge.h"

#include "content.h"

#include <string.h>

/* The part of the word at `offset` that is before `end`. */
static size_t piece_of(int file, int64_t offset, int64_t end, unsigned char *out)
{
    uint64_t word = tb_content_word(file, offset / 8);
    size_t skip = (size_t)(offset % 8), bytes = sizeof(word) - skip;
    if ((int64_t)bytes > end - offset)
        bytes = (size_t)(end - offset);
    memcpy(out, (const unsigned char *)&word + skip, bytes);
    return bytes;
}

void tb_content_put(void *data, size_t bytes, int file, int64_t offset)
{
    unsigned char piece[8], *at = data;
    for (int64_t end = offset + (int64_t)bytes; offset < end;) {
        size_t n = piece_of(file, offset, end, piece);
        memcpy(at, piece, n);
        at += n;
        offset += (int64_t)n;
    }
}

bool tb_content_holds(const void *data, size_t bytes, int file, int64_t offset)
{
    unsigned char piece[8];
    const unsigned char *at = data;
    for (int64_t end = offset + (int64_t)bytes; offset < end;) {
        size_t n = piece_of(file, offset, end, piece);
        if (memcmp(at, piece, n) != 0)
            return false;
        at += n;
        offset += (int64_t)n;
    }
    return true;
}
