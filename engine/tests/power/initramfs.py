"""Make the guest's first file system: an archive in memory that the kernel unpacks (cpio, "newc").

Everything in it comes from this machine: busybox, the programs under test with the libraries that the dynamic linker
names for them, this Python with the modules that the client imports, and the kernel's modules.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
TORTURE = HERE.parent / "torture"
FARM = TORTURE / "farm"
MODULES = ("virtio_pci", "virtio_blk", "virtio_console", "virtio-rng", "dm-flakey", "dm-log-writes", "loop")
CLIENT_IMPORTS = "import power_client, encodings.utf_8, encodings.ascii"
CLIENT_FILES = (FARM / "manifest.py", FARM / "client.py", HERE / "power_client.py")


class MissingError(Exception):
    """What the guest needs is not on this machine: the test is skipped."""


@dataclass
class Archive:
    """Files by their path in the guest, without the leading slash."""

    parts: list[bytes] = field(default_factory=list)
    names: set[str] = field(default_factory=set)

    def add(self, name: str, mode: int, data: bytes = b"") -> None:
        """Add a file or directory once, after the directories above it."""
        name = name.strip("/")
        if not name or name in self.names:
            return
        self.add(os.path.dirname(name), 0o040755)  # noqa: PTH120 - a name in the guest
        self.names.add(name)
        words = (len(self.names), mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
        head = b"070701" + b"".join(b"%08x" % word for word in words) + name.encode() + b"\0"
        self.parts.append(
            head.ljust(-(-len(head) // 4) * 4, b"\0") + data.ljust(-(-len(data) // 4) * 4, b"\0")
        )

    def add_file(self, source: Path, name: str | None = None) -> None:
        """Add a file of this machine, at the same path where `name` is not given."""
        executable = 0o100755 if os.access(source, os.X_OK) else 0o100644
        self.add(name or str(source), executable, source.read_bytes())

    def bytes(self) -> bytes:
        """The whole archive."""
        end = Archive()
        end.add("TRAILER!!!", 0)
        return b"".join(self.parts + end.parts)


def libraries(program: Path) -> Iterator[Path]:
    """The shared libraries of a program or library, the dynamic linker among them."""
    listed = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False).stdout
    yield from (Path(path) for path in re.findall(r"(/\S+) \(0x", listed))


def add_program(archive: Archive, program: Path, name: str) -> None:
    """Add a program as `name`, with its libraries where they are here."""
    archive.add_file(program.resolve(), name)
    for library in libraries(program):
        archive.add_file(library)


def python_files(imports: str, options: tuple[str, ...], folders: tuple[Path, ...]) -> list[Path]:
    """What this Python reads when it starts and imports that, and `os`, by which it finds its library."""
    code = f"import sys; sys.path[:0] = sys.argv[1:]; {imports}, os\n"
    code += "print(*[m.__file__ for m in sys.modules.values() if getattr(m, '__file__', None)], os.__file__, sep='\\n')"
    command = [sys.executable, *options, "-c", code, *map(str, folders)]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [Path(line) for line in dict.fromkeys(listed.split()) if Path(line).parent not in folders]


def interpreter() -> Path:
    """The Python that runs this, not the link or script that started it."""
    return Path("/proc/self/exe").resolve()


def add_python(
    archive: Archive, imports: str, options: tuple[str, ...], folders: tuple[Path, ...] = ()
) -> None:
    """Add Python at the path it has here, so that it finds its library, with what it reads when it imports that."""
    python = interpreter()
    add_program(archive, python, str(python))
    for path in python_files(imports, options, folders):
        archive.add_file(path)
        if path.suffix == ".so":
            for library in libraries(path):
                archive.add_file(library)


def add_client(archive: Archive) -> None:
    """The client of a power cut, and its Python."""
    add_python(archive, CLIENT_IMPORTS, ("-I", "-S"), (FARM, HERE))
    for path in CLIENT_FILES:
        archive.add_file(path, f"client/{path.name}")


def module_order(folder: Path, names: Iterable[str]) -> list[Path]:
    """The kernel modules that the guest loads, each after those that it needs."""
    found = {path.stem.replace("-", "_"): path for path in folder.rglob("*.ko")}
    order: dict[str, Path] = {}

    def need(name: str) -> None:
        name = name.replace("-", "_")
        if name in found and name not in order:  # one that is not there is built in
            needs = re.search(rb"\0depends=([^\0]*)\0", found[name].read_bytes())
            for other in (needs.group(1).decode() if needs else "").split(","):
                need(other)
            order[name] = found[name]

    for name in names:
        need(name)
    return list(order.values())


def find_kernel(folder: Path) -> tuple[Path, Path]:
    """The kernel and the folder of its modules in an unpacked package."""
    kernels = sorted(folder.glob("boot/vmlinuz-*"))
    if not kernels:
        raise MissingError(f"no kernel for a guest in {folder}: ci/bootstrap torture puts one there")
    return kernels[-1], folder / "lib/modules" / kernels[-1].name.removeprefix("vmlinuz-")


def find_program(name: str) -> Path:
    """A program of this machine."""
    found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if not found:
        raise MissingError(f"no {name} here: ci/bootstrap torture installs it")
    return Path(found)


def build(bin_folder: Path, lib_folder: Path, modules: Path, file_system: str) -> bytes:
    """The guest's first file system, for disks with file systems of one kind."""
    archive = Archive()
    for name in ("bin", "proc", "sys", "dev", "tmp", "job", "mnt"):
        archive.add(name, 0o040755)
    archive.add_file(HERE / "guest.sh", "init")
    archive.add_file(find_program("busybox"), "bin/busybox")
    for name in ("tierctl", "tierd"):
        add_program(archive, bin_folder / name, f"bin/{name}")
    add_program(archive, find_program("dmsetup"), "bin/dmsetup")
    add_program(archive, lib_folder / "libtierbench_preload.so", "lib/libtierbench_preload.so")
    add_client(archive)
    archive.add("python", 0o120777, str(interpreter()).encode())
    order = module_order(modules, (*MODULES, file_system))
    for path in order:
        archive.add_file(path, f"modules/{path.name}")
    archive.add("modules/order", 0o100644, "".join(f"{path.name}\n" for path in order).encode())
    return archive.bytes()
