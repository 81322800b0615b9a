"""What a command line asks of IOR or mdtest, with the defaults of the programs.

A word that only the job's shell can read (`$SCRATCH/file`) is unknown here: its value is None.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tierbench.base import sizes

# Letters that take a value, of each program.
_IOR_VALUES = frozenset("aAbdDfGijJlMNoOpQstTUX")
_MDTEST_VALUES = frozenset("abBdefGiIlnNosVwWxXz") - {"B", "X"}


@dataclass(frozen=True)
class Options:
    """A command line as letters with their values (every value that was given, in order) and long options."""

    letters: dict[str, list[str]]
    longs: dict[str, str]

    def has(self, letter: str) -> bool:
        """It is there."""
        return letter in self.letters

    def count(self, letter: str, default: int) -> int | None:
        """A whole number; None where only a shell knows it."""
        given = self.letters.get(letter, [str(default)])[-1]
        return int(given) if given.isdigit() else None

    def size(self, letter: str, default: str) -> int | None:
        """Bytes of a size as `64m`; None where only a shell knows it."""
        return sizes.of_option(self.letters.get(letter, [default])[-1])


def options_of(arguments: Sequence[str], with_value: frozenset[str]) -> Options:
    """Words into options: letters may be joined (`-vv`), a value at its letter (`-t4k`)."""
    letters: dict[str, list[str]] = {}
    longs: dict[str, str] = {}
    words = iter(arguments)
    for word in words:
        if word.startswith("--"):
            name, _, value = word[2:].partition("=")
            longs[name] = value
        elif word.startswith("-") and len(word) > 1:
            _add_letters(letters, word[1:], words, with_value)
    return Options(letters, longs)


def _add_letters(
    letters: dict[str, list[str]], word: str, rest: Iterator[str], with_value: frozenset[str]
) -> None:
    for at, letter in enumerate(word):
        found = letters.setdefault(letter, [])
        if letter in with_value:
            found.append(word[at + 1 :] or next(rest, ""))
            return
        found.append("")


@dataclass(frozen=True)
class IorAsked:
    """What IOR is asked to do; `nodes` None: not said."""

    arguments: tuple[str, ...]
    ranks: int
    nodes: int | None = None
    options: Options = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", options_of(self.arguments, _IOR_VALUES))

    @property
    def api(self) -> str:
        """POSIX, MPIIO, HDF5 or MMAP."""
        return self.options.letters.get("a", ["POSIX"])[-1].upper()

    @property
    def file(self) -> str | None:
        """What -o names; None where a shell reads it."""
        given = self.options.letters.get("o", ["testFile"])[-1]
        return None if "$" in given else given

    @property
    def own_files(self) -> bool:
        """Each rank has a file."""
        return self.options.has("F")

    @property
    def collective(self) -> bool:
        """-c."""
        return self.options.has("c")

    @property
    def random(self) -> bool:
        """-z: offsets at random."""
        return self.options.has("z")

    @property
    def shift(self) -> int | None:
        """By how many ranks a reader is before the writer (-C); None: at random (-Z), or not known."""
        if not self.options.has("C") and not self.options.has("Z"):
            return 0
        offset = self.options.count("Q", 1)
        known = self.nodes is not None and offset is not None and not self.options.has("Z")
        return -(-self.ranks // (self.nodes or 1)) * (offset or 0) % self.ranks if known else None

    @property
    def transfer(self) -> int | None:
        """Bytes of -t."""
        return self.options.size("t", "256k")

    @property
    def block(self) -> int | None:
        """Bytes of -b."""
        return self.options.size("b", "1m")

    @property
    def segments(self) -> int | None:
        """-s."""
        return self.options.count("s", 1)

    @property
    def repetitions(self) -> int | None:
        """-i."""
        return self.options.count("i", 1)

    @property
    def deadline_s(self) -> int:
        """-D; 0: none."""
        return self.options.count("D", 0) or 0

    @cached_property
    def directives(self) -> dict[str, str]:
        """What -O says, names in lower case."""
        given = ",".join(self.options.letters.get("O", ()))
        pairs = (word.partition("=") for word in given.split(",") if word)
        return {name.lower(): value for name, _, value in pairs}

    @property
    def wears_out(self) -> bool:
        """After the deadline every rank goes on to where the furthest came."""
        return self.directives.get("stonewallingwearout", "0") not in ("", "0")

    @property
    def writes(self) -> bool:
        """-w; without -w, -r, -W and -R IOR does both."""
        return self.options.has("w") or not any(map(self.options.has, "rRW"))

    @property
    def reads(self) -> bool:
        """-r or -R, or neither is said."""
        return any(map(self.options.has, "rR")) or not any(map(self.options.has, "wW"))

    @property
    def bytes_of_rank(self) -> int | None:
        """Bytes of a rank, without a deadline."""
        return self.block * self.segments if self.block is not None and self.segments is not None else None

    @property
    def total_bytes(self) -> int | None:
        """Of all ranks."""
        return None if self.bytes_of_rank is None else self.bytes_of_rank * self.ranks


@dataclass(frozen=True)
class MdtestAsked:
    """What mdtest is asked to do; `files` of a rank, None where it is not said."""

    arguments: tuple[str, ...]
    ranks: int
    nodes: int | None = None
    files: int | None = None
    options: Options = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", options_of(self.arguments, _MDTEST_VALUES))

    @property
    def stonewall_s(self) -> int:
        """-W; 0: none."""
        return self.options.count("W", 0) or 0

    @property
    def folder(self) -> str | None:
        """What -d names; None where a shell reads it, or where ranks take turns on several."""
        given = self.options.letters.get("d", ["."])[-1]
        return None if "$" in given or "@" in given else given

    @property
    def directories(self) -> int | None:
        """Those that hold files: of one tree (-z, -b, -L), or with -u of a tree of each rank."""
        depth, branches = self.options.count("z", 0), self.options.count("b", 1)
        if depth is None or branches is None:
            return None
        levels: list[int] = [branches**level for level in range(depth + 1)]
        of_tree = levels[-1] if self.options.has("L") else sum(levels)
        return of_tree * (self.ranks if self.options.has("u") else 1)

    @property
    def operations(self) -> tuple[str, ...]:
        """Which phases of files must have a rate; without -C -T -E -r mdtest does all, with -D none."""
        if self.options.has("D"):
            return ()
        names = {"C": "File creation", "T": "File stat", "E": "File read", "r": "File removal"}
        chosen = tuple(name for letter, name in names.items() if self.options.has(letter))
        return chosen or tuple(names.values())
