"""What a file system may look like after a sequence of operations and a crash: a plain model.

Names have one state: what returned.  (The crash that is played loses no names, so a recovery that loses one is wrong.)
Bytes have a set of states.  A file keeps its content after every change; `promised` is the number of the one that must
at least be there.  After a kill that is the last.  After a crash of the node each byte may be of any content from the
promised one on, and the size may be any between the smallest and the largest of those.

Fidelity is tested by running the same sequences on the bare file system (test_ace.py).
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field

START_BYTES = 10_000


class RefusedError(Exception):
    """The operation does not succeed in this state."""


@dataclass
class Node:
    """A file, whatever names it has."""

    contents: list[bytes]  # after each change
    promised: int = 0
    links: int = 1
    locks: set[str] = field(default_factory=set)

    @property
    def now(self) -> bytes:
        return self.contents[-1]


@dataclass
class Descriptor:
    node: Node
    locks: set[str] = field(default_factory=set)  # those that end with the open description


def fill(tag: str, length: int) -> bytes:
    """What the operation of this tag (sequence and step) writes: no byte of it is 0."""
    return hashlib.shake_128(tag.encode()).digest(length).replace(b"\0", b"\1")


def put(old: bytes, offset: int, new: bytes) -> bytes:
    return old.ljust(offset, b"\0")[:offset] + new + old[offset + len(new) :]


# What each changing operation makes of the content: word -> (content, tag) -> content.
CHANGES: dict[str, Callable[[bytes, str], bytes]] = {
    "append": lambda old, tag: old + fill(tag, 5_000),
    "log": lambda old, tag: old + fill(tag, 700),
    "overwrite": lambda old, tag: put(old, 2_000, fill(tag, 3_000)),
    "hole": lambda old, tag: put(old, len(old) + 100_000, fill(tag, 2_000)),
    "cut": lambda old, _: old[:6_000].ljust(6_000, b"\0"),
    "extend": lambda old, _: old + bytes(7_000),
    "allocate": lambda old, _: old + bytes(5_000),
    "keep": lambda old, _: old,
    "punch": lambda old, _: put(old, 1_000, bytes(5_000))[: len(old)],
    "zero": lambda old, _: put(old, 3_000, bytes(9_000)),
}


class Model:
    """The names and files of one sequence, and what was promised of them."""

    def __init__(
        self, tag: str, all_at_once: bool = False, at_close: bool = False, at_drain: bool = False
    ) -> None:
        """What promises besides fsync: each change when it returns, a close, a drain."""
        self.tag = tag
        self.names: dict[str, Node | None] = {
            "a": Node([fill(tag, START_BYTES)]),
            "d": None,
        }  # None: a directory
        self.descriptors: dict[str, Descriptor] = {}
        self.all_at_once, self.at_close, self.at_drain = all_at_once, at_close, at_drain
        self.forgotten: list[Descriptor] = []  # open, and no longer used

    def node(self, name: str) -> Node:
        node = self.names.get(name)
        if node is None:
            raise RefusedError(name)
        return node

    def may_be_made(self, name: str) -> None:
        parent = name.rpartition("/")[0]
        if name in self.names or (parent and parent not in self.names):
            raise RefusedError(name)

    def open(self, name: str, key: str) -> Node:
        """The file of a descriptor, which is opened, and the file made, where need be."""
        if key not in self.descriptors:
            if name not in self.names:
                self.may_be_made(name)
                self.names[name] = Node([b""])
            self.descriptors[key] = Descriptor(self.node(name))
        return self.descriptors[key].node

    def forget(self, key: str) -> None:
        if key in self.descriptors:
            self.forgotten.append(self.descriptors.pop(key))

    def change(self, node: Node, content: bytes) -> None:
        node.contents.append(content)
        if self.all_at_once:
            node.promised = len(node.contents) - 1

    def apply(self, step: int, operation: str) -> None:
        word, *names = operation.split()
        if word in CHANGES:
            self._write(step, word, names[0])
        else:
            getattr(self, f"_{word}")(*names)

    def _write(self, step: int, word: str, name: str) -> None:
        key = f"{name}+" if word == "log" else name
        node = self.node(name) if word == "cut" else self.open(name, key)
        self.change(node, CHANGES[word](node.now, f"{self.tag}.{step}"))

    def _creat(self, name: str) -> None:
        self.forget(name)
        node = self.open(name, name)
        if node.now:
            self.change(node, b"")

    def _rename(self, old: str, new: str) -> None:
        self.may_be_renamed(old, new)
        if old in self.names and self.names[old] is None:
            self._rename_directory(old, new)
            return
        node, replaced = self.node(old), self.names.get(new)
        if replaced is node:  # two names of one file: rename does nothing
            return
        if replaced is not None:
            replaced.links -= 1
        for suffix in ("", "+"):
            self.forget(new + suffix)
            if old + suffix in self.descriptors:
                self.descriptors[new + suffix] = self.descriptors.pop(old + suffix)
        self.names[new] = self.names.pop(old) if node else None

    def may_be_renamed(self, old: str, new: str) -> None:
        """A file takes another's name; a directory a free one."""
        parent = new.rpartition("/")[0]
        if (
            old not in self.names
            or (parent and parent not in self.names)
            or (self.names[old] is None and new in self.names)
        ):
            raise RefusedError(old)

    def _rename_directory(self, old: str, new: str) -> None:
        def renamed(name: str) -> str:
            return new + name[len(old) :] if name == old or name.startswith(f"{old}/") else name

        self.names = {renamed(name): node for name, node in self.names.items()}
        self.descriptors = {renamed(key): descriptor for key, descriptor in self.descriptors.items()}

    def _link(self, old: str, new: str) -> None:
        node = self.node(old)
        self.may_be_made(new)
        node.links += 1
        self.names[new] = node

    def _unlink(self, name: str) -> None:
        self.node(name).links -= 1
        del self.names[name]
        self.forget(name)
        self.forget(f"{name}+")

    def _mkdir(self, name: str) -> None:
        self.may_be_made(name)
        self.names[name] = None

    def _fsync(self, name: str) -> None:
        """Of a directory it promises nothing that is not there anyway."""
        if name in self.names and self.names[name] is None:
            return
        node = self.open(name, name)
        node.promised = len(node.contents) - 1

    _fdatasync = _fsync

    def _close(self, name: str) -> None:
        """Locks by fcntl end with any descriptor of the file, the others with theirs."""
        if name not in self.descriptors:
            raise RefusedError(name)
        closed = self.descriptors.pop(name)
        closed.node.locks.discard("lock")
        if self.at_close:
            closed.node.promised = len(closed.node.contents) - 1

    def _drain(self) -> None:
        for node in filter(None, self.names.values()):
            if self.at_drain:
                node.promised = len(node.contents) - 1

    def _lock(self, name: str) -> None:
        """A second lock of the same file by another kind of description would not be given."""
        node = self.open(name, name)
        if self.locks(node) & {"ofd"}:
            raise RefusedError(name)
        node.locks.add("lock")

    def _flock(self, name: str) -> None:
        self._describe(name, "flock", {"flock"})

    def _ofd(self, name: str) -> None:
        self._describe(name, "ofd", {"ofd", "lock"})

    def _describe(self, name: str, kind: str, in_the_way: set[str]) -> None:
        node = self.open(name, name)
        descriptor = self.descriptors[name]
        if kind not in descriptor.locks and self.locks(node) & in_the_way:
            raise RefusedError(name)
        descriptor.locks.add(kind)

    def locks(self, node: Node) -> set[str]:
        held = [d.locks for d in [*self.descriptors.values(), *self.forgotten] if d.node is node]
        return set().union(node.locks, *held)

    def held(self) -> dict[str, str]:
        """By name, which kinds of locks another process meets: r(ecord), f(lock)."""
        shown = {}
        for name, node in self.names.items():
            kinds = self.locks(node) if node else set()
            letters = ("r" if kinds & {"lock", "ofd"} else "") + ("f" if "flock" in kinds else "")
            if letters:
                shown[name] = letters
        return shown


@dataclass
class Found:
    """What is there in place of one name: None is a directory."""

    content: bytes | None
    links: int = 1


def wrong_bytes(node: Node, found: bytes) -> str | None:
    """The first byte, or the size, that no allowed state has."""
    states = node.contents[node.promised :]
    least, most = min(map(len, states)), max(map(len, states))
    if not least <= len(found) <= most:
        return f"its size is {len(found)}, allowed are {least} to {most}"
    if found in states:
        return None
    padded = [state.ljust(len(found), b"\0") for state in states]
    for i, byte in enumerate(found):
        if all(state[i] != byte for state in padded):
            return f"byte {i} of {len(found)} is {byte}, allowed are {sorted({state[i] for state in padded})}"
    return None


def compare(model: Model, found: dict[str, Found], kill: bool) -> list[str]:
    """What is there that is not allowed; after a kill everything that returned is promised."""
    wrong = [f"{name}: is not there" for name in model.names if name not in found]
    wrong += [f"{name}: is there" for name in found if name not in model.names]
    for name, node in model.names.items():
        if name not in found:
            continue
        there = found[name]
        if (node is None) != (there.content is None):
            wrong.append(f"{name}: file and directory are exchanged")
        elif node is not None and there.content is not None:
            if there.links != node.links:
                wrong.append(f"{name}: has {there.links} links, not {node.links}")
            asked = Node([node.now]) if kill else node
            bad = wrong_bytes(asked, there.content)
            wrong += [f"{name}: {bad}"] if bad else []
    return wrong
