"""The rooms of the C code and the one way its arrows run: rooms.py SOURCE_ROOT OBJECTS

OBJECTS is a file that names the object files, one a line.

A file uses its own room and those named before it, by includes and by symbols.  A header declares what the .c file of its
own name defines, so a reader knows where to look for a definition.  No room has more than 20 files; a test (test_NAME.c)
is of no room.
"""

import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

# Lowest first.  A folder that is not named here has no room below it.
ROOMS = {
    "engine/src": [
        "base",
        "copy",
        "text",
        "config",
        "trace",
        "io",
        "chain/model",
        "chain/undo",
        "chain/fault",
        "chain/trace",
        "chain",
        "region",
        "file",
        "journal",
        "buffer",
        "shared",
        "placement",
        "namespace",
        "flush",
        "tiering",
        "layer",
        "instance",
        "recovery",
    ],
    "engine/net": ["proof", "start", "transport", "."],
    "engine/stage": ["log", "copy", "."],
    "engine/ctl": ["common", "nodes", "darshan", "staging", "requirements", "plan", "."],
    "adapters/preload": ["core", "wrap/names", "wrap/spawn", "wrap"],
}
# What the names of a folder's objects have, and others' do not; the path of the source follows.
OBJECTS = {
    "engine/src": "tierbench_objects.dir/src/",
    "engine/net": "tierbench_net.dir/",
    "engine/stage": "tierbench_stage.dir/",
    "engine/ctl": "tierctl.dir/",
    "adapters/preload": "tierbench_preload.dir/",
}
# The network uses these rooms of the engine. Only these folders may open the network, or make its secret.
NET_USES = {"base"}
NET_IS_USED_BY = ("engine/net/", "engine/daemon/", "engine/ctl/")
MOST_FILES = 20
# Tables of what other files define.
TABLES = {"engine/ctl/commands.h"}
INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)
PROTOTYPE = re.compile(r"^[a-z][\w \t]*?[ *](\w+)\([^;{}]*\)[^;{}]*;", re.M)


def room_of(base: str, path: str) -> str:
    folder = path.rsplit("/", 1)[0] if "/" in path else "."
    if folder not in ROOMS[base]:
        raise SystemExit(
            f"{base}/{path}: no room of that name; there are {', '.join(ROOMS[base])}: engine/tests/rooms.py"
        )
    return folder


def is_up(base: str, user: str, used: str) -> bool:
    return ROOMS[base].index(room_of(base, user)) < ROOMS[base].index(room_of(base, used))


def sources(root: Path, base: str) -> dict[str, str]:
    """Text by path from the base."""
    folder = root / base
    found = {str(f.relative_to(folder)): f.read_text() for f in sorted(folder.rglob("*.[ch]"))}
    return {path: text for path, text in found.items() if not re.match(r"tests/|(.*/)?test_", path)}


def too_full(base: str, texts: dict[str, str]) -> Iterator[str]:
    for room in ROOMS[base]:
        n = sum(room_of(base, path) == room for path in texts)
        if n > MOST_FILES:
            yield f"{base}/{room} has {n} files: at most {MOST_FILES}"


def includes_up(base: str, texts: dict[str, str]) -> Iterator[str]:
    for path, text in texts.items():
        for name in (n.removeprefix(Path(base).name + "/") for n in INCLUDE.findall(text)):
            if name in texts and is_up(base, path, name):
                yield f"{base}/{path} includes {name}: up"


def network_apart(root: Path) -> Iterator[str]:
    """Only the daemon opens the network, and the network knows nothing of the engine but its base."""
    rooms = {room.split("/")[0] for room in ROOMS["engine/src"]} - NET_USES
    for file in sorted(f for top in ("engine", "adapters") for f in (root / top).rglob("*.[ch]")):
        path = str(file.relative_to(root))
        if "/tests/" in path or "/bench/" in path:
            continue
        for name in INCLUDE.findall(file.read_text()):
            if path.startswith("engine/net/") and name.split("/")[0] in rooms:
                yield f"{path} includes {name}: the network uses {', '.join(NET_USES)} alone"
            if name.startswith("net/") and not path.startswith(NET_IS_USED_BY):
                yield f"{path} includes {name}: only {', '.join(NET_IS_USED_BY)} may"


def symbols(objects: list[str], base: str) -> tuple[dict[str, str], dict[str, set[str]]]:
    """Which source defines each symbol, and what each source uses."""
    defined: dict[str, str] = {}
    used: dict[str, set[str]] = defaultdict(set)
    for name in objects:
        path = name.split(OBJECTS[base], 1)[1].removesuffix(".o")
        for line in subprocess.run(
            ["nm", name], capture_output=True, text=True, check=True
        ).stdout.splitlines():
            *_, kind, symbol = line.split()
            if kind == "U":
                used[path].add(symbol)
            elif kind.isupper():
                defined[symbol] = path
    return defined, used


def symbols_up(base: str, defined: dict[str, str], used: dict[str, set[str]]) -> Iterator[str]:
    for path, names in sorted(used.items()):
        for name in sorted(names):
            if name in defined and is_up(base, path, defined[name]):
                yield f"{base}/{path} calls {name} of {defined[name]}: up"


def declared_elsewhere(base: str, texts: dict[str, str], defined: dict[str, str]) -> Iterator[str]:
    for path, text in texts.items():
        if path.endswith(".h") and f"{base}/{path}" not in TABLES:
            for name in PROTOTYPE.findall(text):
                if name in defined and defined[name] != path[:-1] + "c":
                    yield f"{base}/{path} declares {name} of {defined[name]}"


def main(root: Path, objects: list[str]) -> int:
    wrong: list[str] = []
    for base in ROOMS:
        texts = sources(root, base)
        own = [name for name in objects if OBJECTS[base] in name and "/__/" not in name]
        defined, used = symbols(own, base)
        if not defined:
            wrong.append(f"{base}: none of its objects was given")
        wrong += [
            *too_full(base, texts),
            *includes_up(base, texts),
            *symbols_up(base, defined, used),
            *declared_elsewhere(base, texts, defined),
        ]
    wrong += network_apart(root)
    print("\n".join(wrong) or "every arrow runs down")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]).read_text().replace("/./", "/").split()))
