// The command line: IOR's letters and -O directives. Every rank parses the same words, so all agree
// without talking; nothing is touched before the whole line is known to be right.
#include "tb_ior.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct parse {
	struct tb_options *o;
	char *why;
	size_t size;
};

static bool wrong(struct parse *p, const char *option, const char *value, const char *allowed)
{
	snprintf(p->why, p->size, "%s: '%s' is not allowed, expected %s", option, value, allowed);
	return false;
}

static bool take_int(struct parse *p, const char *option, const char *text, int least, int *out)
{
	char *end, allowed[64];
	errno = 0;
	long v = strtol(text, &end, 10);
	snprintf(allowed, sizeof allowed, "a whole number from %d to %d", least, INT_MAX);
	if (end == text || *end || errno || v < least || v > INT_MAX)
		return wrong(p, option, text, allowed);
	*out = (int)v;
	return true;
}

static int suffix_shift(char c)
{
	switch (tolower((unsigned char)c)) {
	case 'k': return 10;
	case 'm': return 20;
	case 'g': return 30;
	case 't': return 40;
	default: return -1;
	}
}

static bool take_size(struct parse *p, const char *option, const char *text, int64_t *out)
{
	const char *allowed = "a size above 0 such as 8, 4k, 2m, 1g or 1t";
	char *end;
	errno = 0;
	long long v = strtoll(text, &end, 10);
	int shift = *end ? suffix_shift(*end) : 0;
	if (end == text || errno || v <= 0 || shift < 0 || (*end && end[1]) || v > (LLONG_MAX >> shift))
		return wrong(p, option, text, allowed);
	*out = (int64_t)v << shift;
	return true;
}

static bool take_signature(struct parse *p, const char *text)
{
	char *end;
	errno = 0;
	long long v = strtoll(text, &end, 10);
	if (end == text || *end || errno || v < 0 || v > UINT32_MAX)
		return wrong(p, "-G", text, "a whole number from 0 to 4294967295");
	p->o->signature = (uint32_t)v;
	return true;
}

static bool take_backend(struct parse *p, const char *text)
{
	const struct tb_backend *known[] = {&tb_posix, &tb_mpiio};
	for (size_t i = 0; i < 2; i++)
		if (!strcasecmp(text, known[i]->name)) {
			p->o->backend = known[i];
			return true;
		}
	return wrong(p, "-a", text, "POSIX or MPIIO");
}

static bool take_format(struct parse *p, const char *text)
{
	const struct tb_output *known[] = {&tb_text, &tb_csv, &tb_json};
	for (size_t i = 0; i < 3; i++)
		if (!strcasecmp(text, known[i]->name)) {
			p->o->output = known[i];
			return true;
		}
	return wrong(p, "-O summaryFormat", text, "default, CSV or JSON");
}

static bool take_path(struct parse *p, const char *option, const char *text, const char **out)
{
	// Room for the rank's directory, the rank and the repetition that are added to it.
	if (!*text || strlen(text) > 4000)
		return wrong(p, option, text, "a path of 1 to 4000 characters");
	*out = text;
	return true;
}

static bool take_directive(struct parse *p, char *key, char *value)
{
	int number;
	if (!strcasecmp(key, "summaryFormat"))
		return take_format(p, value);
	if (!strcasecmp(key, "summaryFile"))
		return take_path(p, "-O summaryFile", value, &p->o->summary_file);
	if (!strcasecmp(key, "stoneWallingStatusFile"))
		return take_path(p, "-O stoneWallingStatusFile", value, &p->o->status_file);
	if (!strcasecmp(key, "stoneWallingWearOut")) {
		if (!take_int(p, "-O stoneWallingWearOut", value, 0, &number) || number > 1)
			return wrong(p, "-O stoneWallingWearOut", value, "0 or 1");
		p->o->wear_out = number;
		return true;
	}
	if (!strcasecmp(key, "lustreStripeCount")) // the stripes of a file are the site's, set on its directory
		return take_int(p, "-O lustreStripeCount", value, -1, &number);
	return wrong(p, "-O", key,
		"summaryFormat, summaryFile, stoneWallingWearOut, stoneWallingStatusFile or lustreStripeCount");
}

static bool take_directives(struct parse *p, char *text)
{
	char *rest = NULL;
	for (char *word = strtok_r(text, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
		char *value = strchr(word, '=');
		if (!value)
			return wrong(p, "-O", word, "NAME=VALUE");
		*value++ = '\0';
		if (!take_directive(p, word, value))
			return false;
	}
	return true;
}

static bool take_flag(struct tb_options *o, int letter)
{
	switch (letter) {
	case 'w': o->write = true; break;
	case 'r': o->read = true; break;
	case 'W': o->check_write = true; break;
	case 'R': o->check_read = true; break;
	case 'F': o->file_per_process = true; break;
	case 'c': o->collective = true; break;
	case 'C': o->reorder = true; break;
	case 'e': o->fsync = true; break;
	case 'g': o->intra_barriers = true; break;
	case 'k': o->keep = true; break;
	case 'v': o->verbose++; break;
	case 'Y': o->fsync_per_write = true; break;
	case 'z': o->random_offset = true; break;
	case 'Z': o->reorder_random = true; break;
	case 'E': o->use_existing = true; break;
	case 'q': o->quit_on_error = true; break;
	case 'x': o->single_attempt = true; break;
	case 'm': o->multi_file = true; break;
	case 'u': o->unique_dir = true; break;
	case 'V': o->version = true; break;
	case 'h': o->help = true; break;
	case 'H': // hints of MPI-IO and
	case 'n': // fill of HDF5: nothing here has them
		break;
	default: return false;
	}
	return true;
}

static bool take_value(struct parse *p, int letter, char *value)
{
	struct tb_options *o = p->o;
	int segments;
	switch (letter) {
	case 'a': return take_backend(p, value);
	case 'b': return take_size(p, "-b", value, &o->block);
	case 't': return take_size(p, "-t", value, &o->transfer);
	case 'o': return take_path(p, "-o", value, &o->file);
	case 'O': return take_directives(p, value);
	case 'D': return take_int(p, "-D", value, 0, &o->deadline_s);
	case 'i': return take_int(p, "-i", value, 1, &o->repetitions);
	case 'd': return take_int(p, "-d", value, 0, &o->delay_s);
	case 'Q': return take_int(p, "-Q", value, 0, &o->task_offset);
	case 'X': return take_int(p, "-X", value, 0, &o->reorder_seed);
	case 'G': return take_signature(p, value);
	default: // 's'
		if (!take_int(p, "-s", value, 1, &segments))
			return false;
		o->segments = segments;
		return true;
	}
}

static bool complain(struct parse *p, const char *text)
{
	snprintf(p->why, p->size, "%s", text);
	return false;
}

static bool consistent(struct parse *p)
{
	struct tb_options *o = p->o;
	if (o->transfer % 8)
		return complain(p, "-t: the transfer size must be a multiple of 8 bytes");
	if (o->block % o->transfer)
		return complain(p, "-b: the block size must be a multiple of the transfer size (-t)");
	if (o->block > INT64_MAX / o->segments / (1 << 20))
		return complain(p, "-b, -s: the aggregate file size exceeds the largest offset of a file");
	if (o->backend == &tb_mpiio && o->transfer > INT_MAX)
		return complain(p, "-t: with -a MPIIO a transfer is smaller than 2g");
	if (o->collective && o->backend != &tb_mpiio)
		return complain(p, "-c: collective I/O needs -a MPIIO");
	if (o->unique_dir && !o->file_per_process)
		return complain(p, "-u: a directory per rank needs -F");
	if (o->reorder && o->reorder_random)
		return complain(p, "-C and -Z exclude each other");
	if (o->wear_out && !o->deadline_s)
		return complain(p, "-O stoneWallingWearOut=1 needs a deadline (-D)");
	return true;
}

bool tb_options_parse(struct tb_options *o, int argc, char **argv, char *why, size_t size)
{
	static const struct option longs[] = {
		{"version", no_argument, NULL, 'V'}, {"help", no_argument, NULL, 'h'}, {0}};
	struct parse p = {o, why, size};
	int letter;
	*o = (struct tb_options){.backend = &tb_posix, .output = &tb_text, .file = "testFile", .block = 1 << 20,
		.transfer = 256 << 10, .segments = 1, .repetitions = 1, .task_offset = 1};
	opterr = 0;
	while ((letter = getopt_long(argc, argv, ":a:b:cCd:D:eEFgG:hHi:kmno:O:qQ:rRs:t:uvwWxX:YzZ", longs, NULL)) != -1) {
		if (letter == '?' || letter == ':') {
			snprintf(why, size, "%s %s (see --help)", letter == ':' ? "a value is missing after" : "unknown option",
				argv[optind - 1]);
			return false;
		}
		if (!take_flag(o, letter) && !take_value(&p, letter, optarg))
			return false;
	}
	if (optind < argc)
		return wrong(&p, "argument", argv[optind], "only options (see --help)");
	if (!o->write && !o->read && !o->check_write && !o->check_read)
		o->write = o->read = true;
	o->read = o->read || o->check_read;
	return consistent(&p);
}

void tb_usage(FILE *out)
{
	fputs("usage: tb-ior [options], with IOR's letters:\n"
	      "  -a POSIX|MPIIO  -w write -r read -W check the write -R check the read (none: -w -r)\n"
	      "  -o FILE -F one file per rank -b BLOCK -t TRANSFER -s SEGMENTS -i REPETITIONS -d DELAY_S\n"
	      "  -c collective -C read the next node's data -Z a random rank's (-Q OFFSET -X SEED) -z random offsets\n"
	      "  -e fsync before close -Y fsync after every write -g barriers between open, transfer and close\n"
	      "  -D DEADLINE_S -k keep the files -E use existing ones -m a file per repetition -u a directory per rank\n"
	      "  -x don't retry a partial transfer -q stop at the first wrong data -G SIGNATURE -v more output\n"
	      "  -O summaryFormat=default|CSV|JSON, summaryFile=F, stoneWallingWearOut=1, stoneWallingStatusFile=F,\n"
	      "     lustreStripeCount=N (accepted, without effect); -H and -n likewise\n"
	      "  --version --help\n",
		out);
}
