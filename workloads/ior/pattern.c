// Where each transfer lies and what it holds. Word i of a transfer holds the owner's rank above and the
// signature plus i below, as IOR writes it, so files of the two programs check each other. The content says
// nothing of the offset: transfers of one rank that trade places go unnoticed, in IOR too.
#include "tb_ior.h"

#include <stdlib.h>

int64_t tb_transfers(const struct tb_options *o)
{
	return o->segments * (o->block / o->transfer);
}

static uint64_t next_random(uint64_t *state) // splitmix64
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static int64_t *shuffled(int64_t count, uint64_t seed)
{
	int64_t *order = malloc((size_t)count * sizeof *order);
	if (!order) {
		fprintf(stderr, "tb-ior: no memory for the random order of %lld transfers\n", (long long)count);
		MPI_Abort(MPI_COMM_WORLD, TB_EXIT_IO);
		abort();
	}
	for (int64_t i = 0; i < count; i++) {
		int64_t j = (int64_t)(next_random(&seed) % (uint64_t)(i + 1));
		order[i] = order[j];
		order[j] = i;
	}
	return order;
}

int64_t *tb_order(const struct tb_options *o, int owner)
{
	// The owner's rank is the seed: whoever reads its data knows which transfers came first.
	return o->random_offset ? shuffled(tb_transfers(o), (uint64_t)owner) : NULL;
}

int64_t tb_offset(const struct tb_options *o, int tasks, int owner, int64_t transfer)
{
	int64_t per_block = o->block / o->transfer, segment = transfer / per_block;
	int64_t blocks = o->file_per_process ? segment : segment * tasks + owner;
	return blocks * o->block + transfer % per_block * o->transfer;
}

static uint64_t first_word(uint32_t signature, int owner)
{
	return (uint64_t)(uint32_t)owner << 32 | signature;
}

void tb_fill(uint64_t *words, size_t bytes, uint32_t signature, int owner)
{
	uint64_t first = first_word(signature, owner);
	for (size_t i = 0; i < bytes / 8; i++)
		words[i] = first + i;
}

void tb_spoil(uint64_t *words, size_t bytes)
{
	for (size_t i = 0; i < bytes / 8; i += 64)
		words[i] = ~words[i];
}

int64_t tb_first_difference(const uint64_t *words, size_t bytes, uint32_t signature, int owner)
{
	uint64_t first = first_word(signature, owner);
	for (size_t i = 0; i < bytes / 8; i++)
		if (words[i] != first + i)
			return (int64_t)i * 8;
	return -1;
}

int tb_owner(const struct tb_options *o, const struct tb_world *w)
{
	if (o->reorder_random) {
		int64_t *order = shuffled(w->tasks, (uint64_t)o->reorder_seed);
		int owner = (int)order[w->rank];
		free(order);
		return owner;
	}
	if (!o->reorder)
		return w->rank;
	// The next node's data, which this node's cache can't hold; on a single node the next rank's.
	int64_t shift = (int64_t)o->task_offset * w->tasks_per_node % w->tasks;
	if (!shift)
		shift = o->task_offset % w->tasks;
	return (int)((w->rank + shift) % w->tasks);
}
