"""What runs on both guests, as source: two ranks a node (PROLOGUE of test_nodes.py), of which 0 is of the first node and 2 of the second."""

from test_remote import LOOK

# No birth times here, and a number is used again at once: what has another keeper stays until there is one that is right.
KEPT = (
    LOOK
    + """
def keep(name: str, keeper: int) -> None:
    wrong = []
    while not wrong or mix(os.stat(wrong[-1]).st_ino ^ mix(0)) % 2 != keeper:
        wrong.append(f"{root}/pfs/{name}.{len(wrong)}")
        open(wrong[-1], "w").close()
    os.rename(wrong.pop(), f"{root}/pfs/{name}")
    for path in wrong:
        os.unlink(path)
"""
)
# The first node promises; the second one has newer bytes of some of it; then the first one's power is cut, and the second one looks.
# Each of the files once with each node as its keeper.
POWER = (
    KEPT
    + """
import random
A, B = (random.Random(seed).randbytes(300000) for seed in (1, 2))
kinds = ("synced", "over", "cut", "gone", "late")
if rank == 0:
    held = []
    for keeper in (0, 1):
        for kind in kinds:
            keep(f"{kind}{keeper}", keeper)
            write(f"{kind}{keeper}", A)
        held.append(os.open(f"{root}/pfs/late{keeper}", os.O_RDWR))
        os.pwrite(held[-1], b"x" * 1000, 290000)  # in no commit
meet("written")
if rank == 2:
    for keeper in (0, 1):
        right &= check(read(f"synced{keeper}", 100000) == A[:100000], f"synced{keeper} before")
        write(f"over{keeper}", B[:10000], 50000)
        os.truncate(f"{root}/pfs/cut{keeper}", 70001)
        os.unlink(f"{root}/pfs/gone{keeper}")
        write(f"born{keeper}", B)
meet("written over")
if rank in (0, 1):
    while True:
        time.sleep(1)
if rank == 3:
    os._exit(0)
open(f"{root}/meet/cut.ask", "w").close()
while not os.path.exists(f"{root}/meet/cut.done"):
    time.sleep(0.01)
told = {}
for keeper in (0, 1):
    for name, n in ((f"synced{keeper}", 300000), (f"over{keeper}", 300000), (f"cut{keeper}", 70001), (f"late{keeper}", 290000), (f"born{keeper}", 300000)):
        data = bytearray(B if "born" in name else A)
        if "over" in name:
            data[50000:60000] = B[:10000]
        began = time.time()
        try:
            seen = read(name, n)
            said = "right" if seen == data[:n] else f"wrong: {len(seen)} bytes, {next((i for i, (x, y) in enumerate(zip(seen, data)) if x != y), -1)}"
        except OSError as error:
            said = "EIO" if error.errno == 5 else str(error)
        told[name] = [said, time.time() - began]
words = [os.environ["TB_TIERCTL"], "status", "-i", os.environ["TIERBENCH_INSTANCE"]]
told["status"] = subprocess.run(words, capture_output=True, text=True, check=True).stdout
open(f"{root}/meet/verdict.part", "w").write(json.dumps(told))
os.rename(f"{root}/meet/verdict.part", f"{root}/meet/verdict")
os._exit(0 if right else 8)
"""
)
# Pieces of 1000 bytes of the two nodes in turn, so that blocks have bytes of both. Each is written again and again by its node, with the
# number of the turn, and synced; before and after it is told what began and what was acknowledged. It ends with the power, or by errors.
LOAD = (
    LOOK
    + """
import random
chance = random.Random(f"{open(root + '/meet/seed').read()}.{rank}")
mine = rank // 2
out = os.open(f"{root}/meet/told.{rank}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
if rank == 0:  # virtiofsd aborts where two guests create a file at the same time
    for i in range(6):
        os.close(os.open(f"{root}/pfs/file{i}", os.O_RDWR | os.O_CREAT, 0o600))
meet("begun")
if rank in (1, 3):
    if rank == 1:
        while True:
            time.sleep(1)
    os._exit(0)
turn, failed = 0, 0
while failed < 20:
    turn += 1
    name = f"file{chance.randrange(6)}"
    pieces = [2 * chance.randrange(40) + mine for _ in range(chance.choice((1, 3, 8)))]
    line = f"{name} {turn} {' '.join(map(str, pieces))}\\n".encode()
    os.write(out, b"begin " + line)
    try:
        fd = os.open(f"{root}/pfs/{name}", os.O_RDWR)
        try:
            for at in pieces:
                if os.pwrite(fd, turn.to_bytes(4, "little") * 250, at * 1000) != 1000:
                    raise OSError("short")
            if chance.random() < 0.9:
                os.fsync(fd)
                os.write(out, b"end " + line)
        finally:
            os.close(fd)
    except OSError:
        failed += 1
os._exit(0)
"""
)
