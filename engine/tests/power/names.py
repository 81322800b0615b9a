"""What a power cut may leave of names and bytes: compare a tree of files with the manifest of its clients.

Bytes are the torture's matter (check.py): a byte may be missing only where no fsync that returned covers it.  Names are
ours.  An fsync of a file that returned promises that the file is there, under one of its names; a sync of the folder that
returned promises every change of names that had ended before it began.  All other changes of names may be there or not.
Each name in the tree must be one that some file may have, with bytes that this file may have.
"""

import json
from dataclasses import dataclass, field

from check import File, check_file, files_of, mark_promised
from manifest import NEVER, read


@dataclass
class Names:
    """The names of one file, the oldest first, each with the time from which a sync of the folder promises it."""

    given: list[tuple[str, int]]
    removal_began: bool = False
    removal_ended: int = NEVER


@dataclass
class History:
    """All that a manifest says."""

    files: dict[str, File]
    names: dict[str, Names] = field(default_factory=dict)
    folder_syncs: list[tuple[int, int]] = field(default_factory=list)

    def is_promised(self, ended: int) -> bool:
        """Whether a sync of the folder covers a change of names that ended then."""
        return ended != NEVER and any(began >= ended and end != NEVER for began, end in self.folder_syncs)

    def allowed_names(self, file: str) -> list[str]:
        """From the last promised one on; none once its removal is promised."""
        names = self.names[file]
        if self.is_promised(names.removal_ended):
            return []
        promised = [i for i, (_, ended) in enumerate(names.given) if self.is_promised(ended)]
        return [name for name, _ in names.given[max(promised, default=0) :]]

    def must_be_there(self, file: str) -> bool:
        """An fsync of it has returned, and nothing has begun to remove it."""
        synced = any(ended != NEVER for _, ended in self.files[file].syncs)
        created_for_good = self.is_promised(self.names[file].given[0][1])
        return (synced or created_for_good) and not self.names[file].removal_began


@dataclass
class Result:
    """What was compared, and what is wrong."""

    promised: int = 0  # writes and cuts that an fsync covers, and promised files without any
    wrong: list[str] = field(default_factory=list)


def is_begin(line: str) -> bool:
    """Whether an operation begins here."""
    return line.startswith("{") and json.loads(line)["is"] == "begin"


def is_end(line: str) -> bool:
    """Whether an operation is acknowledged here."""
    return line.startswith("{") and json.loads(line)["is"] == "end"


def read_history(lines: list[str]) -> History:
    """Read the lines of a manifest, marks among them."""
    acts, _ = read(line + "\n" for line in lines if line.startswith("{"))
    history = History(files_of(acts))
    for act in acts:
        if act.kind == "open":
            history.names.setdefault(act.words["file"], Names([(act.words["name"], act.ended)]))
        elif act.kind == "rename":
            history.names[act.words["file"]].given.append((act.words["to"], act.ended))
            if act.words["over"]:
                remove(history.names[act.words["over"]], act.ended)
        elif act.kind == "unlink":
            remove(history.names[act.words["file"]], act.ended)
        elif act.kind == "foldersync":
            history.folder_syncs.append((act.began, act.ended))
    return history


def remove(names: Names, ended: int) -> None:
    """Note that something has begun to remove the file, and perhaps did."""
    names.removal_began, names.removal_ended = True, min(names.removal_ended, ended)


def until_mark(lines: list[str], promised: str, begun: str) -> list[str]:
    """The manifest of a device that was cut between two marks, or at one.

    It holds all that was acknowledged before the line `P promised`, and nothing that began after the line `Q begun`.
    """
    first = lines.index(f"P {promised}")
    last = lines.index(f"Q {begun}") if f"Q {begun}" in lines else len(lines)
    return lines[:first] + [line for line in lines[first:last] if is_begin(line)]


def until_error(lines: list[str]) -> list[str]:
    """The manifest without what was acknowledged after the first error that a client was told of."""
    first = next(
        (i for i, line in enumerate(lines) if line.startswith("{") and json.loads(line)["is"] == "error"),
        len(lines),
    )
    return lines[:first] + [line for line in lines[first:] if is_begin(line)]


def check_tree(lines: list[str], tree: dict[str, bytes]) -> Result:
    """Compare the files that a recovery left with what the manifest allows."""
    history, result = read_history(lines), Result()
    by_name: dict[str, list[str]] = {name: [] for name in tree}
    found: set[str] = set()
    for file, content in history.files.items():
        result.promised += mark_promised(content, crash=True)
        for name in history.allowed_names(file):
            if name in tree:
                wrong = check_file(name, content, tree[name])
                by_name[name] += wrong
                if not wrong:
                    found.add(file)
                    by_name[name].append("")  # right for this file
    for name, findings in by_name.items():
        if not findings:
            result.wrong.append(f"{name}: no file may have this name")
        elif "" not in findings:
            result.wrong += findings
    for file in history.files:
        if history.must_be_there(file) and file not in found:
            result.wrong.append(
                f"{file}: promised, and under none of its names {history.allowed_names(file)}"
            )
    return result
