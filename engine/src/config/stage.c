/*
 * Keys, defaults and rules of stage_out and stage_in, which have the same. Only the text is judged here; whether the
 * folders are there is asked where files are staged (ctl/staging). The rules hold for PERSIST_DIR and PFS_DIR of the
 * environment, too.
 */
#include "config/stage.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/text.h"

static const char *const priority_names[] = {"normal", "low", "idle", NULL};
static const char *const when_names[] = {"start", "open", NULL};
static const char *const verify_names[] = {"written", "stored", NULL};

#define STAGE(member) TB_YAML_FIELD(struct tb_config_stage, member)
const struct tb_yaml_key tb_stage_keys[] = {
    {"from", TB_YAML_PATH, .required = true, STAGE(from)},
    {"to", TB_YAML_PATH, .required = true, STAGE(to)},
    {"left", TB_YAML_PATH, STAGE(left)},
    {"deadline", TB_YAML_TIME, STAGE(deadline)},
    {"bandwidth", TB_YAML_RATE, STAGE(bandwidth)},
    {"streams", TB_YAML_COUNT, STAGE(streams), .min = 1, .max = 64},
    {"retries", TB_YAML_COUNT, STAGE(retries), .min = 0, .max = 20},
    {"priority", TB_YAML_CHOICE, STAGE(priority), .choices = priority_names},
    {"verify", TB_YAML_CHOICE, STAGE(verify), .choices = verify_names},
    {"processors", TB_YAML_TEXT, STAGE(processors)},
    {"when", TB_YAML_CHOICE, STAGE(when), .choices = when_names},
    {0},
};

/* Two streams keep a device busy while one of them waits for an fsync, and leave the program its processors. */
void tb_stage_defaults(struct tb_config_stage *s)
{
    memset(s, 0, sizeof(*s));
    s->streams = 2;
    s->retries = 5;
}

int tb_stage_processors(const char *text, uint64_t set[16])
{
    memset(set, 0, 16 * sizeof(*set));
    for (const char *p = text;;) {
        char *end;
        if (!isdigit((unsigned char)*p))
            return -EINVAL;
        unsigned long first = strtoul(p, &end, 10), last = first;
        if (*end == '-' && isdigit((unsigned char)end[1]))
            last = strtoul(end + 1, &end, 10);
        if (last < first || last >= 1024)
            return -EINVAL;
        assert(last / 64 < 16);
        for (unsigned long i = first; i <= last; i++)
            set[i / 64] |= 1ull << (i % 64);
        if (!*end)
            return 0;
        if (*end != ',')
            return -EINVAL;
        p = end + 1;
    }
}

/* A destination inside its source would be moved into itself, again and again. */
const char *tb_stage_rules(const struct tb_config_stage *s, const char **key, char *text, unsigned size)
{
    uint64_t set[16];
    if (tb_path_is_under(s->to, s->from) || tb_path_is_under(s->from, s->to)) {
        *key = "to";
        snprintf(text, size, "%.300s: of it and from %.300s one is inside the other; allowed: two places apart", s->to, s->from);
    } else if (s->processors[0] && tb_stage_processors(s->processors, set)) {
        *key = "processors";
        snprintf(text, size, "%s; allowed: numbers and ranges below 1024, as 0-3,8", s->processors);
    } else {
        return NULL;
    }
    return text;
}
