// The bytes that the drivers write, equal to those of IOR's and mdtest's time-stamp packet, so that files of the
// programs check each other. The content says nothing of the offset: transfers of one rank that trade places go
// unnoticed, in IOR too.
#include "driver.h"

#include <string.h>

static uint64_t word(uint32_t signature, int owner, size_t i)
{
	return (uint64_t)(uint32_t)owner << 32 | (uint64_t)(int64_t)(int32_t)(signature + (uint32_t)i);
}

void tb_fill(void *data, size_t bytes, uint32_t signature, int owner)
{
	uint64_t *words = data;
	for (size_t i = 0; i < bytes / 8; i++)
		words[i] = word(signature, owner, i);
	for (size_t i = bytes / 8 * 8; i < bytes; i++)
		((unsigned char *)data)[i] = (unsigned char)i;
}

void tb_spoil(void *data, size_t bytes)
{
	unsigned char *b = data;
	for (size_t i = 0; i < bytes; i += 512)
		b[i] = (unsigned char)~b[i];
}

int64_t tb_first_difference(const void *data, size_t bytes, uint32_t signature, int owner)
{
	const uint64_t *words = data;
	for (size_t i = 0; i < bytes / 8; i++)
		if (words[i] != word(signature, owner, i))
			return (int64_t)i * 8;
	for (size_t i = bytes / 8 * 8; i < bytes; i++)
		if (((const unsigned char *)data)[i] != (unsigned char)i)
			return (int64_t)i;
	return -1;
}
