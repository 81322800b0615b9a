"""`nodes: shared`: what one node committed another reads from its tiers, and not from the PFS.

Two nodes of this machine, as in test_nodes.py. Nothing is flushed before the end (`flush: manual`), so as long as the
program runs the PFS has none of the bytes: what is read came from the other node.
"""

from pathlib import Path
from threading import Event, Thread

from test_nodes import CONFIG, PROLOGUE, Nodes, nodes, piece  # noqa: F401

SHARED = CONFIG.replace("nodes: several", "nodes: shared\nnetwork: {{interface: lo}}")
# `on_pfs` is what the PFS itself has: a process without the adapter looks.
RAW = (
    PROLOGUE
    + """
asked = 0
def on_pfs(name: str) -> bytes:
    global asked
    asked += 1
    path = f"{root}/meet/{rank}.{asked}"
    with open(path + ".part", "w") as out:
        out.write(name)
    os.rename(path + ".part", path + ".ask")
    while not os.path.exists(path + ".told"):
        time.sleep(0.001)
    return open(path + ".told", "rb").read()
def write(name: str, data: bytes, at: int = 0, sync: bool = True, flags: int = 0) -> None:
    fd = os.open(f"{root}/pfs/{name}", os.O_RDWR | os.O_CREAT | flags, 0o600)
    while data:
        n = os.pwrite(fd, data, at)
        data, at = data[n:], at + n
    if sync:
        os.fsync(fd)
    os.close(fd)
def read(name: str, n: int = 1 << 24, at: int = 0) -> bytes:
    fd = os.open(f"{root}/pfs/{name}", os.O_RDONLY)
    parts = []
    while n and (part := os.pread(fd, n, at)):
        parts.append(part)
        n, at = n - len(part), at + len(part)
    os.close(fd)
    return b"".join(parts)
def check(what: bool, name: str) -> bool:
    if not what:
        print(f"rank {rank}: {name}", file=sys.stderr, flush=True)
    return what
right = True
"""
)
A_TO_B = (
    RAW
    + """
data = os.urandom(300000)
if rank == 0:
    write("a", data)
    open(root + "/meet/data", "wb").write(data)
meet("written")
data = open(root + "/meet/data", "rb").read()
right &= check(not any(on_pfs("a")), "the PFS has bytes of it")
right &= check(os.stat(root + "/pfs/a").st_size == 300000, "size")
right &= check(read("a") == data, "other bytes")
right &= check(read("a") == data, "other bytes, the second time")
meet("read")
right &= check(not any(on_pfs("a")), "the PFS has bytes of it, after")
end(right)
"""
)


def answer(root: Path, ends: Event) -> None:
    """For `on_pfs`."""
    while not ends.wait(0.001):
        for ask in (root / "meet").glob("*.ask"):
            part = ask.with_suffix(".reading")
            part.write_bytes((root / "pfs" / ask.read_text()).read_bytes())
            ask.unlink()
            part.rename(ask.with_suffix(".told"))


def run(nodes: Nodes, program: str, status: int = 0, *says: str, flush: str = "manual", text: str = SHARED) -> str:  # noqa: F811
    ends = Event()
    asked = Thread(target=answer, args=(nodes.root, ends))
    asked.start()
    try:
        return nodes.run_ranks(program, status, *says, flush=flush, text=text)
    finally:
        ends.set()
        asked.join()


def test_written_here_read_there(nodes: Nodes) -> None:  # noqa: F811
    run(nodes, A_TO_B)
    assert (nodes.root / "pfs" / "a").read_bytes() == (nodes.root / "meet" / "data").read_bytes()
    assert nodes.left() == []
    assert sorted(p.name for p in (nodes.root / "pfs").iterdir()) == ["a"]
