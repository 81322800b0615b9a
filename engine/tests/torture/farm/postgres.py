"""PostgreSQL for the farm: a cluster made before the round, and read after it without the adapter."""

import shutil
import subprocess
from pathlib import Path

from check_records import check_rows
from manifest import Act

LIMIT_S = 180  # of its own programs, on a busy machine
OPTIONS = (
    "-c listen_addresses='' -c dynamic_shared_memory_type=mmap -c shared_buffers=2MB -c max_connections=10"
)


def program(name: str) -> str:
    """Debian keeps the server's programs out of PATH."""
    return shutil.which(name) or max(map(str, Path("/usr/lib/postgresql").glob(f"*/bin/{name}")), default="")


def missing() -> str:
    """Why it can't run; empty: it can."""
    return (
        "" if all(map(program, ("initdb", "postgres", "pg_ctl", "psql"))) else "postgresql is not installed"
    )


def run(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode:
        raise OSError(f"{Path(words[0]).name}: {done.stderr.strip()[-300:]}")
    return done.stdout


def prepare(folder: Path) -> None:
    """A cluster, and a folder for its socket beside the PFS."""
    run(program("initdb"), "-D", str(folder / "data"), "-A", "trust", "-U", "tb", "--no-sync")
    socket_folder(folder).mkdir()


def socket_folder(folder: Path) -> Path:
    return folder.parent / "s"


def psql(folder: Path) -> list[str]:
    """The client: no settings of the user's own, and rows without a frame."""
    return [program("psql"), *"-X -A -t -U tb -d postgres -h".split(), str(socket_folder(folder))]


def ask(folder: Path, query: str) -> list[str]:
    return run(*psql(folder), "-c", query).split()


def check(acts: list[Act], folder: Path, crash: bool) -> tuple[int, list[str]]:
    """The server starts, repairs itself, and has what was committed; its index is whole."""
    del crash  # a commit syncs
    commits = [act for act in acts if act.kind == "commit"]
    control = [program("pg_ctl"), "-D", str(folder / "data"), "-w", "-t", "30"]
    for left in [folder / "data/postmaster.pid", *socket_folder(folder).iterdir()]:  # a killed server's
        left.unlink(missing_ok=True)
    try:
        run(
            *control,
            "-l",
            str(folder.parent / "server.log"),
            "-o",
            f"{OPTIONS} -k {socket_folder(folder)}",
            "start",
        )
    except OSError as error:
        log = folder.parent / "server.log"
        return len(commits), [f"postgres: {error}: {log.read_text()[-300:] if log.exists() else ''}"]
    try:
        there = ask(folder, "SELECT to_regclass('t')") == ["t"]
        found = check_rows("postgres", commits, set(ask(folder, "SELECT op FROM t")) if there else set())
        if there:
            ask(folder, "CREATE EXTENSION IF NOT EXISTS amcheck; SELECT bt_index_check('t_pkey', true)")
    except OSError as error:
        return len(commits), [str(error)]
    finally:
        run(*control, "-m", "fast", "stop")
    return found
