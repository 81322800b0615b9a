"""Every ordinary way to write and read a file in Python; prints what it saw."""

import hashlib
import os
import pathlib
import pickle
import random
import shutil
import tempfile

rng = random.Random(7)
data = rng.randbytes(3_000_001)


def digest(path: str) -> str:
    """Of the bytes that a plain read gives."""
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()[:16]


with open("a", "wb") as f:
    f.write(data)
    f.seek(1000)
    f.write(b"X" * 5000)
    print(f.tell(), os.fstat(f.fileno()).st_size)
print(digest("a"), os.path.getsize("a"))

with open("a", "r+b") as f:
    f.seek(-10, os.SEEK_END)
    f.write(b"tail that grows")
    f.truncate(2_999_000)
    f.flush()
    os.fsync(f.fileno())
    f.seek(0, os.SEEK_END)
    print(f.tell())
with open("a", "ab") as f:
    f.write(b"appended")
    print(f.tell())
print(digest("a"))

fd = os.open("b", os.O_RDWR | os.O_CREAT, 0o644)
for i in rng.sample(range(400), 400):
    os.pwrite(fd, data[i * 4096 : (i + 1) * 4096], i * 4096)
print(os.pread(fd, 10, 8192) == data[8192:8202], os.lseek(fd, 0, os.SEEK_END))
print(os.preadv(fd, [bytearray(10), bytearray(20)], 5), os.pwritev(fd, [b"one", b"two"], 7_000_000))
copy = os.dup(fd)
os.lseek(copy, 100, os.SEEK_SET)
print(os.lseek(fd, 0, os.SEEK_CUR), os.read(fd, 5) == data[100:105], os.lseek(copy, 0, os.SEEK_CUR))
os.close(fd)
os.write(copy, b"through the copy")
os.close(copy)
print(digest("b"))

shutil.copy("a", "c")
shutil.copyfile("b", "d")
shutil.copy2("a", "e")
shutil.move("e", "g")
print(digest("c"), digest("d"), digest("g"))
os.replace("g", "c")
pathlib.Path("text").write_text("héllo\nworld\n" * 1000)
print(len(pathlib.Path("text").read_text().splitlines()), pathlib.Path("text").stat().st_size)
with open("p", "wb") as f:
    pickle.dump({"k": list(range(10000))}, f)
with open("p", "rb") as f:
    print(len(pickle.load(f)["k"]))
with tempfile.NamedTemporaryFile(dir=".", delete=True) as f:
    f.write(b"temporary")
    f.flush()
    print(os.path.getsize(f.name))
with tempfile.TemporaryFile(dir=".") as f:
    f.write(b"nameless")
    f.seek(0)
    print(f.read())
with tempfile.TemporaryDirectory(dir=".") as folder:
    pathlib.Path(folder, "x").write_bytes(data[:100])
    print(sorted(os.listdir(folder)))
print(sorted(os.listdir(".")), sorted(e.name for e in os.scandir(".") if e.is_file()))
