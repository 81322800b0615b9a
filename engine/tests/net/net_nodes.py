"""Nodes of the network as processes: started, asked, stopped, cut off from each other."""

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, Queue
from typing import Any

import pytest

BIN = Path(os.environ.get("TB_BUILD_DIR", Path(__file__).parents[3] / "build")) / "bin"
ANSWER_MS = 2000
START_MS = 8000
WAIT_S = 60.0
"""For a line that must come; on a machine that is busy with other things."""


def has(provider: str) -> bool:
    """Whether the program was built with libfabric, that has this provider here, and it is to be tested (TB_PROVIDERS)."""
    if provider == "tcp":
        return True
    if provider not in os.environ.get("TB_PROVIDERS", provider):
        return False
    tried = subprocess.run([BIN / "net_provider", provider], capture_output=True, check=False)
    return tried.returncode == 0


def needs(*providers: str) -> list[Any]:
    """Cases of a test; those without their provider are skipped by its name."""
    return [
        pytest.param(p, marks=pytest.mark.skipif(not has(p), reason=f"no provider {p} here (libfabric)"))
        for p in providers
    ]


class Node:
    """One `net_node`; `enter` is the command that puts it into a namespace."""

    def __init__(
        self,
        folder: Path,
        name: str,
        n_nodes: int,
        interface: str = "lo",
        provider: str = "tcp",
        answer_ms: int = ANSWER_MS,
        start_ms: int = START_MS,
        enter: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.process = subprocess.Popen(
            [
                *enter,
                BIN / "net_node",
                folder,
                name,
                str(n_nodes),
                interface,
                provider,
                str(answer_ms),
                str(start_ms),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.said: list[str] = []
        self._is_stopped = False
        self._lines: Queue[str] = Queue()
        self._readers = [threading.Thread(target=self._read), threading.Thread(target=self._read_errors)]
        for reader in self._readers:
            reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self._lines.put(line.strip())

    def _read_errors(self) -> None:
        assert self.process.stderr
        for line in self.process.stderr:
            self.said.append(line.strip())

    def line(self, wait_s: float = WAIT_S) -> str:
        try:
            return self._lines.get(timeout=wait_s)
        except Empty:
            pytest.fail(f"node {self.name} says nothing; so far: {self.said}")

    def tell(self, command: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def ask(self, command: str) -> list[str]:
        self.tell(command)
        return self.line().split()

    def call(self, node: int, n_request: int = 16, n_answer: int = 100) -> int:
        """The result: the number of bytes that came, or -errno."""
        return int(self.ask(f"call {node} {n_request} {n_answer}")[1])

    def answers(self, node: int, n_request: int, n_answer: int, wait_s: float = WAIT_S) -> bool:
        """Whether a call gets its whole answer, now or soon: what a lost node has to make again may take longer than one call."""
        until = time.monotonic() + wait_s
        while time.monotonic() < until:
            if self.call(node, n_request, n_answer) == n_answer:
                return True
        return False

    def hears(self, words: str, wait_s: float = WAIT_S) -> bool:
        """Whether it says so on stderr, now or soon."""
        until = time.monotonic() + wait_s
        while time.monotonic() < until:
            if any(words in line for line in list(self.said)):
                return True
            time.sleep(0.02)
        return False

    def becomes(self, node: int, alive: bool, wait_s: float = WAIT_S) -> bool:
        until = time.monotonic() + wait_s
        while time.monotonic() < until:
            if self.ask(f"alive {node}") == ["alive", str(int(alive))]:
                return True
            time.sleep(0.05)
        return False

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        for left in Path("/dev/shm").glob(f"{self.process.pid}:*"):  # libfabric's provider shm makes it
            left.unlink()

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)
        self._is_stopped = True

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self._is_stopped = False

    def end(self) -> int:
        with suppress(BrokenPipeError):
            assert self.process.stdin
            self.process.stdin.close()
        if self._is_stopped:
            self.go_on()
        try:
            status = self.process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            pytest.fail(f"node {self.name} does not end: {self.said}")
        for reader in self._readers:
            reader.join()
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe
            pipe.close()
        return status


def make_secret(folder: Path) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)
    subprocess.run([BIN / "net_secret", folder], check=True)


@contextmanager
def several(folder: Path, names: str, **options: object) -> Iterator[list[Node]]:
    """Nodes of these names, a letter each, open to each other."""
    make_secret(folder)
    enters = options.pop("enters", [()] * len(names))
    nodes = [Node(folder, n, len(names), enter=e, **options) for n, e in zip(names, enters, strict=True)]  # type: ignore[arg-type, call-overload]
    try:
        for number, node in enumerate(nodes):
            assert node.line() == f"open {number} {','.join(names)}", (node.name, node.said)
        yield nodes
    finally:
        ends = {node.name: node.end() for node in nodes}
    killed = -signal.SIGKILL
    assert all(status in (0, killed) for status in ends.values()), (ends, [node.said for node in nodes])


def can_make_networks() -> bool:
    return (
        bool(shutil.which("ip") and shutil.which("nsenter"))
        and not subprocess.run(["unshare", "-n", "true"], capture_output=True, check=False).returncode
    )


class Networks:
    """A switch with so many nodes at it: each a network namespace, with `eth` at 10.77.0.N.

    `pids` are processes that have such namespaces already.
    """

    def __init__(self, n: int, pids: Sequence[int] = ()) -> None:
        made = n + 1 - len(pids)
        self.holders = [subprocess.Popen(["unshare", "-n", "sleep", "infinity"]) for _ in range(made)]
        self.switch = self.holders[-1].pid
        self._wait()
        nodes = [*pids, *(h.pid for h in self.holders[:-1])]
        self._in(self.switch, "link add name tbswitch type bridge", "link set tbswitch up")
        for i, pid in enumerate(nodes):
            self._in(
                self.switch,
                f"link add p{i} type veth peer name eth netns {pid}",
                f"link set p{i} master tbswitch",
                f"link set p{i} up",
            )
            self._in(pid, f"addr add 10.77.0.{i + 1}/24 dev eth", "link set eth up", "link set lo up")
        self.enters = [("nsenter", "--target", str(pid), "--net") for pid in nodes]

    def _wait(self) -> None:
        """`unshare` has moved when it is `sleep`."""
        own = Path("/proc/self/ns/net").readlink()
        for holder in self.holders:
            until = time.monotonic() + WAIT_S
            while Path(f"/proc/{holder.pid}/ns/net").readlink() == own and time.monotonic() < until:
                time.sleep(0.01)

    @staticmethod
    def _in(pid: int, *commands: str) -> None:
        for command in commands:
            subprocess.run(["nsenter", "--target", str(pid), "--net", "ip", *command.split()], check=True)

    def cut(self, i: int) -> None:
        self._in(self.switch, f"link set p{i} down")

    def heal(self, i: int) -> None:
        self._in(self.switch, f"link set p{i} up")

    def __enter__(self) -> "Networks":
        return self

    def __exit__(self, *_: object) -> None:
        for holder in self.holders:
            holder.kill()
            holder.wait()
