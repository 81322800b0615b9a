"""Scripts with a "#!" line that names a program in this folder, executed in each way there is; what they print names no place.

The kernel reads that line itself, so these show whether it is given names that it has.
"""

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial

HERE = os.getcwd()
SHOW = 'echo "$0" "$#" "$1" "$2" "$KEY"'


def put(name: str, text: str, mode: int = 0o755) -> str:
    """A script in this folder: its absolute name."""
    path = f"{HERE}/{name}"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)
    os.chmod(path, mode)
    return path


def child(what: Callable[[], object]) -> None:
    """Run `what` in a forked child, which mostly becomes another program."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        try:
            what()
        except OSError as e:
            print(f"{errno.errorcode[e.errno or 0]}")
            sys.stdout.flush()
        os._exit(9)
    print("  status", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def spawned(call: Callable[..., int], name: str, words: list[str]) -> None:
    """posix_spawn and posix_spawnp tell an error in the parent."""
    sys.stdout.flush()
    try:
        status = os.waitpid(call(name, words, os.environ), 0)[1]
        print("  status", os.waitstatus_to_exitcode(status))
    except OSError as e:
        print(f"  {errno.errorcode[e.errno or 0]}")


def each_way(path: str) -> None:
    """By exec, spawn, shell; by name, by PATH, from this folder and by descriptor."""
    relative, words, environment = (
        os.path.relpath(path),
        ["zero", "one word", ""],
        {**os.environ, "KEY": "own"},
    )
    child(lambda: os.execv(path, words))
    child(lambda: os.execve(relative, words, environment))
    child(lambda: os.execvp(os.path.basename(path), words))
    child(lambda: os.execvpe(os.path.basename(path), words, environment))
    child(lambda: os.execl(f"./{relative}", "zero"))
    spawned(os.posix_spawn, path, words)
    spawned(os.posix_spawnp, os.path.basename(path), words)
    sys.stdout.flush()
    print("  system", os.system(f"{relative} one 'two three'"))
    print("  popen", repr(os.popen(f"{path} one").read().replace(HERE, "HERE")))
    try:
        done = subprocess.run([path, "one"], capture_output=True, text=True, cwd="/")
        print("  subprocess", done.returncode, done.stdout.replace(HERE, "HERE"))
    except OSError as e:
        print("  subprocess", errno.errorcode[e.errno or 0])


def main() -> None:
    """Everything goes again at the end: the names in it differ from place to place."""
    os.environ["KEY"] = "-"
    os.environ["PATH"] += f":{HERE}/t"
    shell = shutil.which("dash") or shutil.which("sh") or "sh"
    os.makedirs("t")
    os.symlink(shell, "t/linked-shell")
    shutil.copy(shell, "t/copied-shell")
    put("t/wrapped-shell", f'#!{HERE}/t/copied-shell\necho wrapped; . "$1"\n')
    heads = {
        "linked": f"#!{HERE}/t/linked-shell",
        "copied": f"#! {HERE}/t/copied-shell -e ",
        "relative": "#!t/copied-shell",
        "outside": "#!/bin/sh",
        "env": "#!/usr/bin/env copied-shell",
        "nested": f"#!{HERE}/t/wrapped-shell",
        "missing": f"#!{HERE}/t/no-shell",
        "not-executable": f"#!{HERE}/t/plain",
        "loop": f"#!{HERE}/t/loop",
        "bare": "",
    }
    put("t/plain", "echo plain\n", 0o644)
    for name, head in heads.items():
        put(f"t/{name}", f"{head}\n{SHOW}\n" if head else f"{SHOW}\n")
        print(name)
        each_way(f"{HERE}/t/{name}")
    put("t/denied", f"#!{HERE}/t/linked-shell\n{SHOW}\n", 0o644)
    if os.getuid():
        child(lambda: os.execv("t/denied", ["zero"]))
    print("by descriptor")
    fd = os.open("t/linked", os.O_RDONLY)
    child(lambda: os.execve(fd, ["zero"], os.environ))
    os.dup2(fd, 100)
    child(lambda: os.execve(100, ["zero"], os.environ))
    os.close(100)
    os.close(fd)
    for level in range(6):  # the kernel follows five
        put(
            f"t/level{level}",
            f"#!{HERE}/t/level{level - 1}\n" if level else f"#!{HERE}/t/linked-shell\necho deep\n",
        )
        print("level", level)
        child(partial(os.execv, f"t/level{level}", ["zero"]))
    shutil.rmtree("t")


if __name__ == "__main__":
    # Programs print past this one's buffers: through a pipe all of it comes in order, without the place.
    if sys.argv[1:] == ["inner"]:
        main()
    else:
        done = subprocess.run(
            [sys.executable, "-u", __file__, "inner"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        print(done.stdout.replace(HERE, "HERE"))
        sys.exit(done.returncode)
