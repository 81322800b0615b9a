"""A program that does one repetition each time it is told to, so that both sides of a ratio take turns."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rows import CannotMeasureError
from setting import SHM


class Server:
    """A tb-bench that waits for the word to do one repetition."""

    def __init__(self, command: list[str]) -> None:
        self.command = command
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - lives as long as the process
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=self.log, text=True)  # noqa: S603

    def failed(self, how: str) -> CannotMeasureError:
        """What to raise: how it failed, the command and what it said last."""
        self.log.seek(0)
        return CannotMeasureError(f"{how}: {' '.join(self.command)}: {self.log.read()[-600:].strip()}")

    def line(self) -> str:
        """The next line it says."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        if not line:
            raise self.failed("ended early")
        return line

    def expect(self, word: str) -> None:
        """Check the next line it says."""
        if (line := self.line()) != word:
            raise self.failed(f"said {line!r} instead of {word!r}")

    def repeat(self) -> float:
        """Seconds of one repetition."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self.line())

    def end(self) -> None:
        """Let it clean up; checks its exit status."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        if self.process.wait(timeout=120) != 0:
            raise self.failed(f"exit status {self.process.returncode}")

    def remove_instance(self) -> None:
        """Remove what `tierctl run` keeps when its drain fails: an instance named after the process."""
        if self.command[0].endswith("tierctl"):
            for name in self.instances():
                stop = [self.command[0], "stop", "--force", "-i", name]
                subprocess.run(stop, capture_output=True, check=False)  # noqa: S603

    def instances(self) -> list[str]:
        """Of this `tierctl run`: named after its process and random digits, which cannot be told before."""
        regions = Path(SHM).glob(f"tierbench.{os.getuid()}.run-{self.process.pid}-*")
        return [region.name.split(".", 2)[2] for region in regions if region.is_file()]


@contextlib.contextmanager
def serving(command: list[str]) -> Iterator[Server]:
    """Run a server; whatever happens, it and its instance are gone afterwards."""
    server = Server(command)
    try:
        server.expect("ready")
        yield server
        server.end()
    except BaseException:
        server.process.terminate()  # a no-op where it has ended
        server.process.wait()
        server.remove_instance()
        raise
