"""shutil, sqlite3, mmap, tempfile, zipfile, shelve and subprocess with inherited files; prints what they see."""

import hashlib
import mmap
import os
import pathlib
import random
import shelve
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import zipfile

rng = random.Random(int(sys.argv[1]))
tempfile.tempdir = os.getcwd()


def digest(path: str | os.PathLike[str]) -> str:
    """Of the bytes that a plain read gives."""
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()[:16]


# shutil: a tree, its copy, its archive, its move, its end
for i in range(40):
    folder = pathlib.Path("tree", f"d{i % 5}")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"f{i}").write_bytes(rng.randbytes(rng.randrange(100_000)))
shutil.copytree("tree", "copied")
print(
    shutil.make_archive("packed", "tar", "copied")
    and sorted(p.name for p in pathlib.Path("copied").rglob("f*"))[:3]
)
shutil.unpack_archive("packed.tar", "unpacked")
pathlib.Path("packed.tar").unlink()  # it holds the times of the moment
for p in sorted(pathlib.Path("tree").rglob("f*")):
    assert digest(p) == digest(pathlib.Path("unpacked", *p.parts[1:])), p
shutil.move("unpacked", "moved")
shutil.rmtree("copied")
print(sorted(os.listdir("moved")), pathlib.Path("copied").exists())

# sqlite3, two connections
for journal in ("wal", "delete"):
    a, b = sqlite3.connect(f"{journal}.db"), sqlite3.connect(f"{journal}.db")
    print(a.execute(f"pragma journal_mode={journal}").fetchone())
    a.execute("create table t (k, v)")
    a.executemany("insert into t values (?, ?)", ((i, rng.randbytes(200)) for i in range(1000)))
    a.commit()
    print(b.execute("select count(*), sum(length(v)) from t").fetchone())
    a.close()
    print(b.execute("pragma integrity_check").fetchone())
    b.close()

# mmap beside read and write, in this process and in a child
body = bytearray(rng.randbytes(300_000))
pathlib.Path("mapped").write_bytes(body)
with open("mapped", "r+b") as f, mmap.mmap(f.fileno(), 0) as m:
    m[1000:1005] = b"mmap!"
    body[1000:1005] = b"mmap!"
    f.seek(2000)
    f.write(b"write")
    f.flush()
    body[2000:2005] = b"write"
    print(m[2000:2005], m[:] == bytes(body))
    m.resize(400_000)
    pid = os.fork()
    if pid == 0:
        m[350_000:350_005] = b"child"
        os._exit(0)
    os.waitpid(pid, 0)
    print(m[350_000:350_005], os.fstat(f.fileno()).st_size)
print(digest("mapped"))

# tempfile
with tempfile.SpooledTemporaryFile(max_size=1000) as spool:
    spool.write(rng.randbytes(5000))
    spool.seek(0)
    print(hashlib.sha256(spool.read()).hexdigest()[:8])
with (
    tempfile.TemporaryDirectory() as there,
    zipfile.ZipFile(f"{there}/z.zip", "w", zipfile.ZIP_DEFLATED) as z,
):
    z.write("mapped")
    print(z.testzip(), z.getinfo("mapped").file_size)
with shelve.open("shelf") as s:
    s["a"] = list(range(1000))
with shelve.open("shelf") as s:
    print(sum(s["a"]))
for p in pathlib.Path(".").glob("shelf*"):
    p.unlink()  # its format holds what was in memory by chance

# files that children inherit: at our offset, appended to, read on
with open("inherited", "w+b") as f:
    f.write(b"parent ")
    f.flush()
    child = "import os, sys; fd = int(sys.argv[1]); os.write(fd, b'child %d ' % os.lseek(fd, 0, 1))"
    subprocess.run([sys.executable, "-c", child, str(f.fileno())], pass_fds=[f.fileno()], check=True)
    f.seek(0, os.SEEK_END)
    f.write(b"parent again ")
    f.flush()
    subprocess.run(["cat", "tree/d0/f0"], stdout=f, check=True)
    f.seek(7)
    print(f.read(8), digest("inherited"))
with open("lines", "w") as out:
    subprocess.run(
        "for i in 1 2 3; do echo line $i; done; ls tree", shell=True, stdout=out, stderr=out, check=True
    )
with open("lines") as f:
    f.readline()
    print(
        f.readline().strip(),
        subprocess.run(["wc", "-l"], stdin=open("lines"), capture_output=True, text=True).stdout,
    )
pipe = subprocess.Popen(["tee", "teed"], stdin=open("lines"), stdout=subprocess.PIPE)
print(len(pipe.communicate()[0]), digest("teed") == digest("lines"))
