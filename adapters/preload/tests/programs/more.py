"""What buffers cannot serve themselves: mappings, kernel copies, children, threads, many descriptors."""

import mmap
import os
import subprocess
import sys
import threading

data = bytes(range(256)) * 4096


def show(path: str) -> None:
    """Size, and a sum of the bytes."""
    with open(path, "rb") as f:
        body = f.read()
    print(path, len(body), sum(body))


with open("m", "w+b") as f:
    f.write(data)
    f.flush()
    with mmap.mmap(f.fileno(), 0) as m:
        m[10:15] = b"mmap!"
        m.flush()
    f.seek(8)
    print(f.read(9))
    f.write(b"beyond the mapping")
show("m")

with open("m", "rb") as src, open("n", "wb") as dst:
    dst.write(b"head")
    dst.flush()
    sent = os.sendfile(dst.fileno(), src.fileno(), 0, 1000)
    sent += os.sendfile(dst.fileno(), src.fileno(), 1000, 500)
    print(sent, os.lseek(dst.fileno(), 0, os.SEEK_CUR))
show("n")
with open("m", "rb") as src, open("o", "wb") as dst:
    n = 1
    while n > 0:
        n = os.copy_file_range(src.fileno(), dst.fileno(), 1 << 18)
show("o")

r, w = os.pipe()
with open("m", "rb") as src, open("q", "wb") as dst:
    src.seek(100)
    print(os.splice(src.fileno(), w, 1000), os.splice(r, dst.fileno(), 1000))
    print(src.tell() >= 100, os.lseek(dst.fileno(), 0, os.SEEK_CUR))
    dst.write(b"after")
show("q")

os.posix_fallocate(os.open("fa", os.O_RDWR | os.O_CREAT), 0, 100_000)
print(os.path.getsize("fa"))

with open("log", "w") as log:
    log.write("parent first\n")
    log.flush()
    subprocess.run(["/bin/echo", "child"], stdout=log, check=True)
    subprocess.run([sys.executable, "-c", "print('grandchild')"], stdout=log, check=True)
    log.seek(0, os.SEEK_END)
    log.write("parent last\n")
print(open("log").read())
print(subprocess.run(["cat"], stdin=open("log"), capture_output=True, check=True).stdout.decode())
os.system("echo by system > sys; cat sys")
print(subprocess.check_output("cat sys log | wc -c", shell=True).decode().strip())

fd = os.open("forked", os.O_RDWR | os.O_CREAT)
os.write(fd, b"before ")
for i in range(3):
    pid = os.fork()
    if pid == 0:
        os.write(fd, b"child%d " % i)
        os._exit(0)
    os.waitpid(pid, 0)
os.write(fd, b"after")
os.close(fd)
print(open("forked").read())

fd = os.open("closed-first", os.O_RDWR | os.O_CREAT)
pid = os.fork()
if pid == 0:
    os.write(fd, b"by the child alone")
    os._exit(0)
os.close(fd)
os.waitpid(pid, 0)
print(open("closed-first").read())


def worker(i: int) -> None:
    """Its own slice of one shared file."""
    own = os.open("threads", os.O_WRONLY | os.O_CREAT)
    for k in range(50):
        os.pwrite(own, bytes([i]) * 1000, (k * 8 + i) * 1000)
    os.close(own)


threads = [threading.Thread(target=worker, args=(i,)) for i in range(8)]
for t in threads:
    t.start()
for t in threads:
    t.join()
show("threads")

files = [open(f"many{i}", "w+") for i in range(300)]
for i, f in enumerate(files):
    f.write(str(i))
for f in files:
    f.close()
print(sum(int(open(f"many{i}").read()) for i in range(300)))

fd = os.open("unlinked", os.O_RDWR | os.O_CREAT)
os.write(fd, b"still here")
os.unlink("unlinked")
print(os.pread(fd, 20, 0), os.path.exists("unlinked"))
os.close(fd)
fd = os.open("unlinked", os.O_RDWR | os.O_CREAT | os.O_EXCL)
print(os.pread(fd, 20, 0))
os.close(fd)

folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
fd = os.open("relative", os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=folder)
os.write(fd, b"by directory descriptor")
os.close(fd)
print(os.stat("relative", dir_fd=folder).st_size, os.stat(folder).st_mode & 0o40000)
os.rename("relative", "renamed", src_dir_fd=folder, dst_dir_fd=folder)
os.utime("renamed", (1, 2))
print(os.stat("renamed").st_mtime, open("renamed").read())
os.close(folder)
fd = os.open("stamped", os.O_WRONLY | os.O_CREAT)
os.write(fd, b"stamp")
os.utime(fd, (5, 6))
os.close(fd)
print(os.stat("stamped").st_mtime)
fd = os.open("stamped", os.O_WRONLY)
os.write(fd, b"again")
os.lseek(fd, 0, os.SEEK_DATA)
os.utime(fd, (5, 7))
os.close(fd)
print(os.stat("stamped").st_mtime)
for bad in ("absent", "absent/x", "m/x"):
    try:
        open(bad, "rb")
    except OSError as e:
        print(bad, e.errno)
