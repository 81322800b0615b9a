"""The load of a power cut's guest: the torture's client, which also says what a folder's sync promises about names.

power_client.py FOLDER CLIENT SEED
"""

import errno
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - no pathlib in the guest

from client import Client, content

BEGUN_STEPS = 20
ERROR_PAUSE_S = 0.02  # a device that fails everything must not fill the manifest


class PowerClient(Client):
    """Adds appends, atomic saves and syncs of the folder; an operation that fails has begun and never ends."""

    def sync_folder(self) -> None:
        """Sync the folder itself: names are promised from then on."""

        def sync(_: str) -> None:
            fd = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

        self.told("foldersync", sync)

    def append(self, file: str, fd: int) -> None:
        """One record at the end of a file of its own."""
        size = os.fstat(fd).st_size
        length = self.random.randint(1, 3000)
        self.told(
            "write", lambda op: self.write_at_end(file, op, length), file=file, offset=size, length=length
        )

    def write_at_end(self, file: str, operation: str, length: int) -> None:
        """By a descriptor with O_APPEND."""
        fd = os.open(f"{self.folder}/{self.own[file][0]}", os.O_WRONLY | os.O_APPEND)
        try:
            if os.write(fd, content(operation, length)) < length:
                raise OSError(errno.EIO, "short write")
        finally:
            os.close(fd)

    def reopen(self, file: str) -> None:
        """The new descriptor first: where that fails the old one is still the file's."""
        name, fd = self.own[file]
        self.own[file] = (name, os.open(f"{self.folder}/{name}", os.O_RDWR))
        os.close(fd)

    def save(self) -> None:
        """As editors do: a new file, fsync, rename over the old one, sync of the folder."""
        self.create()
        file = list(self.own)[-1]
        fd = self.own[file][1]
        self.write(file, fd)
        self.fsync(file, fd)
        self.rename(file)
        if self.random.random() < 0.5:
            self.sync_folder()

    def step(self) -> None:
        """One operation, or one that fails."""
        try:
            chance = self.random.random()
            if chance < 0.03:
                return self.sync_folder()
            if chance < 0.08:
                return self.save()
            if chance < 0.16 and self.own:
                file = self.random.choice(list(self.own))
                return self.append(file, self.own[file][1])
            return super().step()
        except OSError:  # told
            time.sleep(ERROR_PAUSE_S)


def main() -> None:
    """Until the power is cut.  The guest is told when the load has begun well."""
    client = PowerClient(*sys.argv[1:4])
    for _ in range(BEGUN_STEPS):
        client.step()
    os.close(os.open(f"/tmp/begun.{client.name}", os.O_CREAT | os.O_WRONLY))
    while True:
        client.step()


if __name__ == "__main__":
    main()
