"""Names under a managed prefix as programs use them: argv[1] is the folder, which the PFS had before:

in/a "one\n", in/b "two\n", in/sub/c "three\n", in/empty/, relative -> in/a, absolute -> FOLDER/in/sub, locked/d (mode 555), kept/.
Everything here must hold on any file system; names.sh runs it on a bare one, too.
"""

import ctypes
import glob
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

top = Path(sys.argv[1])
os.chdir(top)


def read(name: str | Path) -> str:
    return Path(name).read_text()


def refuses(call: object, *args: object) -> str:
    try:
        call(*args)  # type: ignore[operator]
    except OSError as e:
        return os.strerror(e.errno or 0)
    return "done"


# What the PFS has is shown, with its types, sizes and links.
assert sorted(os.listdir(".")) == ["absolute", "in", "kept", "locked", "relative"], os.listdir(".")
kinds = {
    e.name: (e.is_symlink(), e.is_dir(follow_symlinks=False), e.is_file(follow_symlinks=False))
    for e in os.scandir("in")
}
assert kinds == {
    "a": (False, False, True),
    "b": (False, False, True),
    "sub": (False, True, False),
    "empty": (False, True, False),
}, kinds
assert read("relative") == "one\n" and read("absolute/c") == "three\n" and read("in/sub/../a") == "one\n"
assert os.readlink("absolute") == f"{top}/in/sub" and os.lstat("absolute").st_size == len(f"{top}/in/sub")
assert (
    stat.S_ISREG(os.lstat("in/a").st_mode)
    and os.stat("in/a").st_size == 4
    and refuses(os.readlink, "in/a") == "Invalid argument"
)
assert os.path.realpath("absolute/../b") == f"{top}/in/b" and os.path.realpath("relative") == f"{top}/in/a"
assert subprocess.check_output(["realpath", "absolute/c"], text=True) == f"{top}/in/sub/c\n"
assert sorted(glob.glob("in/*")) == ["in/a", "in/b", "in/empty", "in/sub"]
assert sorted(subprocess.check_output(["find", ".", "-type", "f"], text=True).split()) == [
    "./in/a",
    "./in/b",
    "./in/sub/c",
    *(f"./kept/{name}" for name in sorted(os.listdir("kept"))),
    "./locked/d",
]

# A descriptor for reading, or one that only names a file, changes what programs see of the file.
os.close(os.open("kept/emptied", os.O_RDONLY | os.O_TRUNC))
assert os.stat("kept/emptied").st_size == 0 and read("kept/emptied") == ""
given = {name: os.open(f"kept/{name}", os.O_RDONLY) for name in os.listdir("kept")}
os.fchmod(given["mode"], 0o640)
assert stat.S_IMODE(os.stat("kept/mode").st_mode) == 0o640
os.utime(given["times"], (1000, 2000))
assert os.stat("kept/times").st_mtime == 2000
if os.geteuid() == 0:
    os.fchown(given["owner"], 12, 13)
    assert os.stat("kept/owner").st_uid == 12
if refuses(os.setxattr, given["attribute"], "user.tried", b"1") == "done":
    assert os.getxattr("kept/attribute", "user.tried") == b"1"
os.truncate(f"/proc/self/fd/{given['cut']}", 1)
assert read("kept/cut") == "k"
libc = ctypes.CDLL(None)
here, follow = -100, 0x400  # AT_FDCWD, AT_SYMLINK_FOLLOW
assert libc.linkat(here, f"/proc/self/fd/{given['linked']}".encode(), here, b"kept/link", follow) == 0
with open("kept/link", "a") as f:
    f.write("of both\n")
assert read("kept/link") == "kept\nof both\n"
place = os.open("kept/named", os.O_PATH)
os.chmod(f"/proc/self/fd/{place}", 0o600)
assert stat.S_IMODE(os.stat("kept/named").st_mode) == 0o600
assert libc.lchmod(b"kept/named", 0o604) == 0 and stat.S_IMODE(os.stat("kept/named").st_mode) == 0o604
for descriptor in (place, *given.values()):
    os.close(descriptor)

# The working directory has the program's name, by whatever it was entered.
for directory in ("in/sub", "absolute"):
    os.chdir(top / directory)
    assert os.getcwd() == f"{top}/in/sub" and read("c") == "three\n" and read("../a") == "one\n", os.getcwd()
    assert subprocess.check_output(["/bin/pwd"], text=True) == f"{top}/in/sub\n"
    assert os.readlink("/proc/self/cwd") == f"{top}/in/sub"
here = os.open(top, os.O_RDONLY)
os.fchdir(here)
assert (
    os.getcwd() == str(top)
    and os.readlink(f"/proc/self/fd/{here}") == str(top)
    and os.stat("in/a", dir_fd=here).st_size == 4
)

# What is changed: bytes, sizes, permissions, times, by name and by descriptor.
Path("in/a").write_text("changed\n")
assert read("in/a") == read("relative") == "changed\n"
with open("in/b", "a") as f:
    f.write("more\n")
assert read("in/b") == "two\nmore\n" and subprocess.check_output(["cat", "in/b"], text=True) == "two\nmore\n"
os.truncate("in/sub/c", 2)
assert read("absolute/c") == "th"
os.chmod("in/sub/c", 0o640)
os.utime("in/sub/c", (1, 2))
assert os.stat("in/sub/c").st_mode & 0o777 == 0o640 and os.stat("in/sub/c").st_mtime == 2
Path("locked/d").write_text("in a directory that may not be written\n")
assert refuses(os.open, "in/a", os.O_CREAT | os.O_EXCL | os.O_WRONLY) == "File exists"
assert refuses(os.mkdir, "in/sub") == "File exists" and refuses(os.rmdir, "in/sub") == "Directory not empty"
assert refuses(os.unlink, "in/sub") == "Is a directory" and refuses(os.rmdir, "in/b") == "Not a directory"
assert (
    refuses(os.open, "in/a/x", os.O_RDONLY) == "Not a directory"
    and refuses(os.stat, "none/x") == "No such file or directory"
)

# What is renamed, linked and removed: files, directories, links.
os.rename("in/sub", "moved")
assert (
    os.listdir("moved") == ["c"]
    and not os.path.exists("in/sub")
    and refuses(os.stat, "absolute/c") == "No such file or directory"
)
os.mkdir("in/sub")
assert os.listdir("in/sub") == [] and os.listdir("absolute") == []
os.rename("in/b", "in/sub/b")
os.link("in/sub/b", "in/sub/hard")
Path("in/sub/hard").write_text("both\n")
assert read("in/sub/b") == "both\n" and os.stat("in/sub/b").st_nlink == 2
os.symlink(f"{top}/in/sub/b", "new")
os.symlink("../sub/b", "in/empty/up")
assert read("new") == read("in/empty/up") == "both\n" and os.readlink("new") == f"{top}/in/sub/b"
os.rename("moved/c", "new")
assert not os.path.islink("new") and read("new") == "th" and read("in/sub/b") == "both\n"
os.unlink("in/a")
assert not os.path.exists("relative") and os.path.islink("relative") and "a" not in os.listdir("in")
with open("relative", "w") as f:
    f.write("through a link\n")
assert read("in/a") == "through a link\n"
os.rmdir("moved")
for root, directories, files in os.walk("in", topdown=False):
    for name in files:
        os.unlink(f"{root}/{name}")
    for name in directories:
        (os.unlink if os.path.islink(f"{root}/{name}") else os.rmdir)(f"{root}/{name}")
os.rmdir("in")
os.mkdir("in")
assert os.listdir("in") == [] and refuses(os.open, "in/a", os.O_RDONLY) == "No such file or directory"

# A directory that gave its name to a link: what was known of it is forgotten.
os.makedirs("d/e")
Path("d/e/f").write_text("in a directory")
Path("d/e/f").unlink()
os.rmdir("d/e")
os.mkdir("other")
os.symlink("../other", "d/e")
Path("d/e/f").write_text("through a link")
assert read("other/f") == "through a link" and os.path.realpath("d/e/f") == f"{top}/other/f"

# Pipes and sockets have names, too; an address may be longer in its real place than as it was given.
os.mkfifo("pipe")
assert stat.S_ISFIFO(os.stat("pipe").st_mode)
listener = socket.socket(socket.AF_UNIX)
listener.bind("socket")
listener.listen()
peer = socket.socket(socket.AF_UNIX)
peer.connect("socket")
accepted, _ = listener.accept()
peer.send(b"x")
assert accepted.recv(1) == b"x" and stat.S_ISSOCK(os.stat("socket").st_mode)
os.unlink("socket")
print("names hold")
