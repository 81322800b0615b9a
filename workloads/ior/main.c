// Start and end: the world of ranks, the options, the report, and one exit status for all.
#include "tb_ior.h"

#include <stdlib.h>

static void count_nodes(struct tb_world *w)
{
	MPI_Comm node;
	int local, first;
	MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
	MPI_Comm_rank(node, &local);
	MPI_Comm_size(node, &w->tasks_per_node);
	MPI_Comm_free(&node);
	first = local == 0;
	MPI_Allreduce(&first, &w->nodes, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	MPI_Bcast(&w->tasks_per_node, 1, MPI_INT, 0, MPI_COMM_WORLD);
}

static void agree_on_clock(struct tb_world *w)
{
	double mine, first;
	MPI_Barrier(MPI_COMM_WORLD);
	first = mine = MPI_Wtime();
	MPI_Bcast(&first, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
	w->clock_offset = first - mine;
}

static struct tb_world look_around(void)
{
	struct tb_world w = {0};
	MPI_Comm_rank(MPI_COMM_WORLD, &w.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &w.tasks);
	count_nodes(&w);
	agree_on_clock(&w);
	return w;
}

static int agree(int status)
{
	MPI_Allreduce(MPI_IN_PLACE, &status, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
	return status;
}

static int measure(const struct tb_options *o, const struct tb_world *w, const char *command_line)
{
	struct tb_report report, *mine = w->rank == 0 ? &report : NULL;
	int status = mine && !tb_report_open(mine, o, w, command_line) ? TB_EXIT_USAGE : 0;
	if ((status = agree(status)))
		return status;
	if (mine)
		o->output->begin(mine);
	status = tb_run(o, w, mine);
	if (!mine)
		return agree(status);
	o->output->end(mine);
	if (!tb_report_close(mine))
		status = TB_EXIT_IO;
	return agree(status);
}

static int answer(bool print)
{
	if (print)
		printf("tb-ior %s\n", TB_IOR_VERSION);
	return 0;
}

static int help(bool print)
{
	if (print)
		tb_usage(stdout);
	return 0;
}

static int refuse(bool print, const char *why)
{
	if (print)
		fprintf(stderr, "tb-ior: %s\n", why);
	return TB_EXIT_USAGE;
}

int main(int argc, char **argv)
{
	struct tb_options o;
	char why[4352];
	MPI_Init(&argc, &argv);
	struct tb_world w = look_around();
	char *command_line = tb_join(argc, argv); // before the parser takes its words apart
	if (!command_line)
		MPI_Abort(MPI_COMM_WORLD, TB_EXIT_IO);
	bool first = w.rank == 0, good = tb_options_parse(&o, argc, argv, why, sizeof why);
	int status = !good ? refuse(first, why)
		: o.version ? answer(first)
		: o.help ? help(first)
		: measure(&o, &w, command_line);
	free(command_line);
	MPI_Finalize();
	return status;
}
