"""What the command says of itself: errors that name the nearest word, the man page and completion for bash.

All of it is taken from argparse's own data, so that no page knows an option that the command does not.
"""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

# docs/exit-statuses.md has the same lines.
STATUSES = (
    ("0", "done"),
    (
        "1",
        (
            "compare: a significant regression; report --check: a row failed; "
            "trace --model: accesses without an order; try: a requirement does not hold; "
            "try, site init: runs failed"
        ),
    ),
    ("2", "bad input, or a refusal: one message says why; what could be read is still shown"),
    ("128 + N", "ended by signal N (130: ^C)"),
)


def nearest(word: str, known: Iterable[str]) -> str:
    """`; the nearest is X`, or nothing where none is near."""
    found = difflib.get_close_matches(word, list(known), 1)
    return f"; the nearest is {found[0]}" if found else ""


class Parser(argparse.ArgumentParser):
    """Keeps the lines of its texts, and says in one line what is wrong."""

    def __init__(self, **about: Any) -> None:
        about.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(**about)

    def error(self, message: str) -> NoReturn:
        """One line on stderr; ends with 2."""
        print(f"{self.prog}: {' '.join(message.split())}; see: {self.prog} --help", file=sys.stderr)
        raise SystemExit(2)


def parse(parser: Parser, arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options; of an unknown command or option the nearest is named."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    commands = commands_of(parser)
    if words and not words[0].startswith("-") and words[0] not in commands:
        allowed = ", ".join(commands)
        parser.error(f"unknown command {words[0]!r}{nearest(words[0], commands)}; allowed: {allowed}")
    options, strange = parser.parse_known_args(words)
    if strange:
        command = commands.get(words[0], parser)
        known = [name for action in command._actions for name in action.option_strings]
        kind = "unknown option" if strange[0].startswith("-") else "unexpected word"
        command.error(f"{kind} {strange[0]!r}{nearest(strange[0].partition('=')[0], known)}")
    return options


def commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parsers of the commands, by name."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def status_lines() -> str:
    """The exit statuses, for --help."""
    return "exit status:\n" + "".join(f"  {status:<8} {meaning}\n" for status, meaning in STATUSES)


def man_page(parser: argparse.ArgumentParser, version: str) -> str:
    """The man page tierbench(1), for man and groff."""
    lines = [
        f'.TH TIERBENCH 1 "" "tierbench {version}" "Tierbench"',
        ".SH NAME",
        f"tierbench \\- {_roff(parser.description or '').rstrip('.')}",
        ".SH SYNOPSIS",
        "\\fBtierbench\\fR \\fICOMMAND\\fR ...",
        ".SH COMMANDS",
    ]
    for name, command in commands_of(parser).items():
        lines += _man_command(name, command)
    lines.append(".SH EXIT STATUS")
    for status, meaning in STATUSES:
        lines += [".TP", status, f"{_roff(meaning)}."]
    return "\n".join([*lines, ".SH SEE ALSO", "\\fBtierctl\\fR(1)", ""])


def _man_command(name: str, command: argparse.ArgumentParser) -> list[str]:
    usage = command.format_usage().removeprefix("usage: ").rstrip()
    lines = [f".SS tierbench {name}", ".nf", _roff(usage), ".fi"]
    if command.description:
        lines += [".PP", ".nf", _roff(command.description.rstrip()), ".fi"]
    for action in command._actions:
        lines += [".TP", f"\\fB{_roff(_spelled(action))}\\fR", f"{_roff(_help(action))}."]
    return [*lines, ".PP", ".nf", _roff((command.epilog or "").rstrip()), ".fi"]


def _spelled(action: argparse.Action) -> str:
    """`-o, --output DIR`, or an operand's word."""
    value = str(action.metavar or "") if action.nargs != 0 else ""
    if action.choices and not value:
        value = "{" + ",".join(map(str, action.choices)) + "}"
    return " ".join(word for word in (", ".join(action.option_strings), value) if word) or action.dest


def _help(action: argparse.Action) -> str:
    return (action.help or "").replace("%%", "%")


def _roff(text: str) -> str:
    """Text as roff reads it: a dash is a minus, a backslash is one, no line begins with a request."""
    told = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join("\\&" + line if line[:1] in (".", "'") else line for line in told.split("\n"))


def completion(parser: argparse.ArgumentParser) -> str:
    """For bash to source. It starts no Python: that takes longer than a reader waits for a key."""
    commands = commands_of(parser)
    cases = []
    for name, command in commands.items():
        long = [word for a in command._actions for word in a.option_strings if word.startswith("--")]
        cases.append(f'            {name}) words="{" ".join(long)}" ;;\n')
    return (
        "# Completion for tierbench; made by `tierbench help --bash`.\n"
        "_tierbench() {\n    local words=\n"
        '    if [ "$COMP_CWORD" -eq 1 ]; then\n'
        f'        words="--help --version {" ".join(commands)}"\n'
        "    else\n        case ${COMP_WORDS[1]} in\n" + "".join(cases) + "        esac\n    fi\n"
        '    COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))\n}\n'
        "complete -o default -F _tierbench tierbench\n"
    )
