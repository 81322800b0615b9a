/*
 * --help, the man page and the completion of the shell, all from the tables of the commands:
 * an option that is added there is described everywhere.
 */
#include <ctype.h>
#include <string.h>

#include "common/help.h"

/* docs/exit-statuses.md has the same lines. */
static const struct {
    const char *status, *meaning;
} statuses[] = {
    {"0", "done"},
    {"1", "there is no such instance, or none at all"},
    {"2", "bad input, or a refusal: one message says why, and nothing was changed"},
    {"3", "a drain, a recovery or a stage-out is not complete: what is not on the PFS is kept, and the message says how to try again"},
    {"126", "run: the program is there and cannot be executed"},
    {"127", "run: there is no such program"},
    {"128 + N", "ended by signal N; run: the program was"},
    {"others", "run: the program's own"},
};
#define N_STATUSES (sizeof(statuses) / sizeof(statuses[0]))

/* "-c, --config CONFIG", or an operand's word. */
static void spell(const struct ctl_option *o, char *out, size_t size)
{
    char letter[8] = "";
    const char *space = o->name && o->value && o->value[0] != '[' ? " " : "";
    if (o->name && islower(o->key))
        snprintf(letter, sizeof(letter), "-%c, ", o->key);
    snprintf(out, size, "%s%s%s%s%s", letter, o->name ? "--" : "", o->name ? o->name : "", space, o->value ? o->value : "");
}

/* One line: values, default and example, as far as the table has them. */
static void print_details(const struct ctl_option *o, FILE *out)
{
    const char *label[] = {"values", "default", "example"}, *text[] = {o->allowed, o->missing, o->example}, *lead = "        ";
    for (int i = 0; i < 3; i++)
        if (text[i]) {
            fprintf(out, "%s%s: %s", lead, label[i], text[i]);
            lead = "; ";
        }
    if (lead[0] == ';')
        fputc('\n', out);
}

/* Each line of a text after `lead` and a space, the first after `first`; an empty text is one line. */
static void print_lines(const char *text, const char *first, const char *lead, FILE *out)
{
    for (const char *line = text;;) {
        int n = (int)strcspn(line, "\n");
        fprintf(out, "%s%s%.*s\n", line == text ? first : lead, n ? " " : "", n, line);
        if (!line[n])
            return;
        line += n + 1;
    }
}

/* A text of one command fits a screen, so what holds for all commands is only named at its end. */
void ctl_help(const struct ctl_command *command, FILE *out)
{
    char first[64], lead[64], spelled[128];
    snprintf(first, sizeof(first), "usage: tierctl %s", command->name);
    snprintf(lead, sizeof(lead), "       tierctl %s", command->name);
    print_lines(command->synopsis, first, lead, out);
    fprintf(out, "\n%s.\n", command->does);
    if (command->about)
        fprintf(out, "%s\n", command->about);
    fputc('\n', out);
    for (const struct ctl_option *o = command->options; o->key; o++) {
        spell(o, spelled, sizeof(spelled));
        fprintf(out, "  %s\n        %s\n", spelled, o->meaning);
        print_details(o, out);
    }
    fputs("  -h, --help\n        print this\n\nexample:\n", out);
    print_lines(command->example, " ", " ", out);
    fputs("\nexit status: see tierctl --help\n", out);
}

/* The exit statuses come from the table that the man page uses, too. */
void ctl_help_all(const struct ctl_command *all, FILE *out)
{
    fputs("usage: tierctl COMMAND ...\n       tierctl --version\n\n", out);
    for (; all->name; all++)
        fprintf(out, "  %-14s %s\n", all->name, all->does);
    fputs("\ntierctl COMMAND --help says what it takes. Exit status:\n\n", out);
    for (size_t i = 0; i < N_STATUSES; i++)
        fprintf(out, "  %-8s %s\n", statuses[i].status, statuses[i].meaning);
}

/* Text as roff reads it: a dash is a minus, a backslash is one, no line begins with a request. */
static void print_roff(const char *text, FILE *out)
{
    bool begins = true;
    for (; *text; text++) {
        if (begins && (*text == '.' || *text == '\''))
            fputs("\\&", out);
        if (*text == '\\')
            fputs("\\e", out);
        else if (*text == '-')
            fputs("\\-", out);
        else
            fputc(*text, out);
        begins = *text == '\n';
    }
}

/* A paragraph with a hanging tag; a line with a single dot is roff's empty line. */
static void print_man_option(const struct ctl_option *o, FILE *out)
{
    char spelled[128];
    const char *label[] = {"Values", "Default", "Example"}, *text[] = {o->allowed, o->missing, o->example};
    spell(o, spelled, sizeof(spelled));
    fputs(".TP\n\\fB", out);
    print_roff(spelled, out);
    fputs("\\fR\n", out);
    print_roff(o->meaning, out);
    for (int i = 0; i < 3; i++)
        if (text[i]) {
            fprintf(out, ".\n%s: ", label[i]);
            print_roff(text[i], out);
        }
    fputs(".\n", out);
}

/* The caller turned filling off (.nf): each line of the synopsis stays a line of its own. */
static void print_man_synopsis(const struct ctl_command *command, FILE *out)
{
    for (const char *line = command->synopsis;;) {
        char form[512];
        int n = (int)strcspn(line, "\n");
        snprintf(form, sizeof(form), "tierctl %s %.*s", command->name, n, line);
        fputs("\\fB", out);
        print_roff(form, out);
        fputs("\\fR\n", out);
        if (!line[n])
            return;
        line += n + 1;
    }
}

/* In roff a new line alone does not begin one: paragraphs and lists are marked. */
static void print_man_command(const struct ctl_command *command, FILE *out)
{
    fputs(".SS tierctl ", out);
    print_roff(command->name, out);
    fputs("\n.nf\n", out);
    print_man_synopsis(command, out);
    fputs(".fi\n.PP\n", out);
    print_roff(command->does, out);
    fputs(".\n", out);
    if (command->about) {
        print_roff(command->about, out);
        fputc('\n', out);
    }
    for (const struct ctl_option *o = command->options; o->key; o++)
        print_man_option(o, out);
    fputs(".PP\nExample:\n.PP\n.nf\n", out);
    print_roff(command->example, out);
    fputs("\n.fi\n", out);
}

/* Without a date, so that the page of one version is the same wherever it is made. */
void ctl_man(const struct ctl_command *all, FILE *out)
{
    fputs(".TH TIERCTL 1 \"\" \"tierctl " TB_VERSION "\" \"Tierbench\"\n.SH NAME\n"
          "tierctl \\- run programs under storage tiers, and look after the instances\n"
          ".SH SYNOPSIS\n\\fBtierctl\\fR \\fICOMMAND\\fR ...\n.br\n\\fBtierctl\\fR [\\fICOMMAND\\fR] \\fB\\-\\-help\\fR\n.br\n"
          "\\fBtierctl \\-\\-version\\fR\n.SH COMMANDS\nEach takes \\fB\\-h\\fR and \\fB\\-\\-help\\fR.\n",
          out);
    for (const struct ctl_command *c = all; c->name; c++)
        print_man_command(c, out);
    fputs(".SH EXIT STATUS\n", out);
    for (size_t i = 0; i < N_STATUSES; i++) {
        fprintf(out, ".TP\n%s\n", statuses[i].status);
        print_roff(statuses[i].meaning, out);
        fputs(".\n", out);
    }
    fputs(".SH SEE ALSO\n\\fBtierbench\\fR(1)\n", out);
}

/* Words only: files and instances are completed by the shell itself. */
void ctl_bash(const struct ctl_command *all, FILE *out)
{
    fputs("# Completion for tierctl; made by `tierctl help --bash`.\n_tierctl() {\n    local words=\n"
          "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        words=\"--help --version",
          out);
    for (const struct ctl_command *c = all; c->name; c++)
        fprintf(out, " %s", c->name);
    fputs("\"\n    else\n        case ${COMP_WORDS[1]} in\n", out);
    for (const struct ctl_command *c = all; c->name; c++) {
        fprintf(out, "            %s) words=\"--help", c->name);
        for (const struct ctl_option *o = c->options; o->key; o++)
            if (o->name)
                fprintf(out, " --%s", o->name);
        fputs("\" ;;\n", out);
    }
    fputs("        esac\n    fi\n    COMPREPLY=($(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n}\n"
          "complete -o default -F _tierctl tierctl\n",
          out);
}
