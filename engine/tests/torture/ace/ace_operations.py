"""The operations of the bounded exhaustive crash tests, and all sequences of a few of them.

The idea is that of CrashMonkey's ACE: faults of crash consistency need few operations on few files, so try them all.
A sequence has up to two core operations (three, sampled), perhaps a persistence point between them, and one at its end
(`ENDS`), after which something is killed.  Sequences in which an operation cannot succeed are left out.

At the start of each sequence there is a file `a` with 10,000 bytes and an empty directory `d`; `b`, `d/a` and `e` are
names that may come.  An operation is written as a word and its names: `append a`, `rename a d/a`.
"""

import random
from collections.abc import Iterator
from itertools import product

from ace_model import Model, RefusedError

CORE = [
    *(f"{word} {name}" for word in ("creat", "append", "overwrite") for name in ("a", "b", "d/a")),
    *(
        f"{word} {name}"
        for word in ("log", "hole", "cut", "extend", "allocate", "keep", "punch", "zero")
        for name in ("a", "b")
    ),
    *("rename a b", "rename b a", "rename a d/a", "rename d/a a", "rename d e", "link a b", "link a d/a"),
    *("unlink a", "unlink b", "mkdir e", "lock a", "lock b", "flock a", "ofd a", "close a", "close b"),
]
BETWEEN = ["fsync", "fdatasync", "close", "drain"]
ENDS = ["fsync", "fdatasync", "close", "drain", "nothing"]


def touched(operation: str) -> str:
    """The name that a persistence point after this operation is about: of a rename or link, the new one."""
    return operation.split()[-1]


def is_possible(sequence: list[str]) -> bool:
    """Does each of them succeed?"""
    model = Model("")
    try:
        for step, operation in enumerate(sequence):
            model.apply(step, operation)
    except RefusedError:
        return False
    return True


def points(kinds: list[str], operation: str) -> Iterator[list[str]]:
    """The persistence points that may follow an operation."""
    for kind in kinds:
        if kind == "nothing":
            yield []
        else:
            yield [kind] if kind == "drain" else [f"{kind} {touched(operation)}"]


def pairs() -> Iterator[list[str]]:
    """Two core operations, with and without a persistence point between them."""
    for first, second in product(CORE, CORE):
        for middle in [[], *points(BETWEEN, first)]:
            yield [first, *middle, second]


def exhaustive() -> list[list[str]]:
    """All possible sequences of one and two core operations, each once."""
    cores = [*([operation] for operation in CORE), *pairs()]
    ended = (tuple(core + end) for core in cores for end in points(ENDS, core[-1]))
    return [list(sequence) for sequence in dict.fromkeys(ended) if is_possible(list(sequence))]


def sampled(count: int, seed: str) -> Iterator[list[str]]:
    """Sequences of three core operations."""
    chance = random.Random(seed)
    while count:
        sequence: list[str] = []
        for _ in range(3):
            operation = chance.choice(CORE)
            sequence += [operation, *chance.choice([[], *points(BETWEEN, operation)])]
        if is_possible(sequence):
            count -= 1
            yield sequence
