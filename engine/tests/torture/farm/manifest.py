"""The manifest of a round: what programs did, when, and what they were told of it.  One JSON object a line.

    {"op": "c0.12", "t": 81234, "is": "begin", "kind": "write", "file": "s1", "offset": 0, "length": 4096}
    {"op": "c0.12", "t": 81240, "is": "end"}

`op` is the name of a program and a number; `t` is the monotonic clock in ns; `is` is begin, end, error (with the text in
`why`) or wrong (what the program itself saw that may not be, in `why`).  An operation that ended is acknowledged.  All
workloads write it (`Teller`), one reader reads it (`read`), and the checkers judge by it what must be there.
"""

import json
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

NEVER = 1 << 62
Result = TypeVar("Result")


@dataclass
class Act:
    """One operation: an error counts as not ended, since a part of it may have happened."""

    op: str
    kind: str
    words: dict[str, Any]
    began: int
    ended: int = NEVER

    @property
    def who(self) -> str:
        return self.op.partition(".")[0]

    @property
    def acknowledged(self) -> bool:
        return self.ended != NEVER


class Teller:
    """Tells of operations on descriptor 1, a pipe that leads out of reach of the faults."""

    def __init__(self, who: str) -> None:
        self.who, self.serial = who, 0

    def _say(self, **words: Any) -> None:
        os.write(1, (json.dumps(words | {"t": time.monotonic_ns()}) + "\n").encode())

    def told(self, kind: str, act: Callable[[str], Result], **words: Any) -> Result:
        """Call `act(op)` between its two lines.  An OSError is told and raised."""
        self.serial += 1
        op = f"{self.who}.{self.serial}"
        self._say(op=op, **{"is": "begin"}, kind=kind, **words)
        try:
            result = act(op)
        except OSError as error:
            self._say(op=op, **{"is": "error"}, why=str(error))
            raise
        self._say(op=op, **{"is": "end"})
        return result

    def wrong(self, why: str) -> None:
        self._say(op=f"{self.who}.0", **{"is": "wrong"}, why=why)


def read(lines: Iterable[str]) -> tuple[list[Act], list[str]]:
    """The operations in the order in which they were told, and what programs themselves found wrong."""
    acts: dict[str, Act] = {}
    wrong = []
    for line in lines:
        if not line.endswith("\n"):
            continue
        word = json.loads(line)
        op, t, what = word.pop("op"), word.pop("t"), word.pop("is")
        if what == "begin":
            acts[op] = Act(op, word.pop("kind"), word, t)
        elif what == "end":
            acts[op].ended = t
        elif what == "wrong":
            wrong.append(f"{op}: {word['why']}")
    return list(acts.values()), wrong
