"""From mount points and a command to the runs of a trial: checks, files, profiles, a bare run, then ReFrame.

Everything is in the trial's folder: `trial.json`, `site.py`, `tiers/`, `profiles/`, `runs/`. Nothing else
is made but the folder of a run below the PFS, which the run itself removes.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tierbench.base import devices, endings, strict_yaml
from tierbench.base.errors import RunError
from tierbench.base.text import counted, ended, last_words, seconds, size
from tierbench.site.home import check_name, home, program
from tierbench.trial import results, tier_files
from tierbench.trial.lease import wait_for_runs
from tierbench.trial.plan import BARE, PFS, PLACEHOLDER, Trial, read
from tierbench.trial.tier_files import Tier
from tierbench.trial.working_folder import files_below

_LEAST_LIMIT_S = 600
_PATIENCE_S = 120  # for a run to clear what it made, after ReFrame has ended
_LIMIT_TIMES = 20  # the bare run's wall time, for a run that hangs
_SITE = '''"""This machine as it is: one process of the program's own at a time."""

site_configuration = {
    "systems": [
        {
            "name": "trial",
            "hostnames": [".*"],
            "partitions": [
                {
                    "name": "here",
                    "scheduler": "local",
                    "launcher": "local",
                    "max_jobs": 1,
                    "environs": ["builtin"],
                    "env_vars": VARIABLES,
                }
            ],
        }
    ],
    "general": [{"remote_detect": False, "trap_job_errors": True}],
}
'''


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What the user asked for."""

    command: tuple[str, ...]
    pfs: Path
    tiers: tuple[Tier, ...]
    own: tuple[Path, ...]  # configurations of the user's own
    inputs: tuple[str, ...]  # below the PFS, beside those that the command names
    read_only: tuple[str, ...]
    repetitions: int
    folder: Path
    notes: tuple[str, ...] = ()  # of what is run and where, for readers of the answer
    required: tuple[str, ...] = ()  # lines of --require, checked
    variables: tuple[tuple[str, str], ...] = ()  # of the environment, as a site says them


def prepare(wish: Wish, say: Callable[[str], None]) -> Trial:
    """Check, write the trial's folder, run the program once without Tierbench, profile the places."""
    inputs = _inputs(wish)
    if wish.folder.exists():
        raise RunError(f"{wish.folder}: is there already; allowed: a folder that is new (-o)")
    tierctl, folder = program("tierctl"), wish.folder.resolve()
    check_name("-o", folder)
    own = _check_own(wish, tierctl)
    _make(folder)
    trial = Trial(
        command=wish.command,
        directory=str(Path.cwd()),
        pfs=str(wish.pfs),
        folder=str(wish.pfs / f"tierbench-try-{os.getpid()}-{time.time_ns() % 10**9:09d}"),
        inputs=inputs,
        read_only=wish.read_only,
        configurations=tier_files.write_all(wish.tiers, wish.pfs, folder / "tiers", {}) | own,
        repetitions=wish.repetitions,
        tierctl=str(tierctl),
        notes=wish.notes,
        required=wish.required,
    )
    _check_all(trial, folder)
    trial.write(folder)
    (folder / "site.py").write_text(_SITE.replace("VARIABLES", repr([list(v) for v in wish.variables])))
    bare_s = _run_bare(folder, (*inputs, *wish.read_only), wish.variables, say)
    notes, profiles = _profile(wish, tierctl, folder, say)
    tier_files.write_all(wish.tiers, wish.pfs, folder / "tiers", profiles)
    limit_s = max(_LEAST_LIMIT_S, int(_LIMIT_TIMES * bare_s))
    trial = replace(trial, bare_s=bare_s, time_limit_s=limit_s, notes=(*wish.notes, *notes))
    trial.write(folder)
    return trial


def run(trial: Trial, folder: Path, say: Callable[[str], None]) -> int:
    """All runs, in turn through all configurations, by ReFrame; returns its exit status."""
    count = trial.repetitions * len(trial.configurations)
    work = seconds(count * (trial.bare_s or 0))
    names, turns = ", ".join(trial.configurations), counted(trial.repetitions, "time")
    say(f"{counted(count, 'run')}: {names}, {turns} in turn; the program itself needs about {work} s of it")
    environment = {**os.environ, "TIERBENCH_TRIAL": str(folder / "trial.json")}
    line = [
        sys.executable,
        "-P",
        "-m",
        "tierbench.site.session",
        str(folder),
        *reframe_line(trial, folder)[1:],
    ]
    status = endings.run(line, env=environment, start_new_session=True)
    wait_for_runs(folder, _PATIENCE_S)
    endings.heed()
    if Path(trial.folder).exists():
        say(left(folder))
    return status


def left(folder: Path) -> str:
    """What an ended trial left, in one line."""
    if not (folder / "trial.json").exists():
        return f"{folder} is left" if folder.exists() else "nothing is left"
    trial = read(folder / "trial.json")
    if not wait_for_runs(folder, 0):
        return f"a run goes on: {trial.folder} and an instance of the engine are left"
    if Path(trial.folder).exists():
        return f"{trial.folder} is left (why, is in {folder / 'runs'}); then `tierctl gc`, and remove it"
    return f"nothing is left but {folder}, with the runs until then"


def reframe_line(trial: Trial, folder: Path) -> list[str]:
    """The command that runs the trial; with TIERBENCH_TRIAL in its environment it can be repeated by hand."""
    suite = home() / "reframe_tests" / "program.py"
    line = [
        str(Path(sys.executable).with_name("reframe")),
        "-C",
        str(folder / "site.py"),
        "-c",
        str(suite),
        "-r",
    ]
    line += ["--system=trial", "--exec-policy=serial", f"--reruns={trial.repetitions - 1}", "--max-retries=0"]
    return [*line, f"--prefix={folder / 'reframe'}", f"--report-file={folder / 'reframe.json'}"]


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True)
    except OSError as e:
        raise RunError(f"{folder}: cannot be made: {e.strerror}") from e


def _inputs(wish: Wish) -> tuple[str, ...]:
    """What the command names below {pfs} and is there: copied for each run, except for what is read only."""
    if not any(PLACEHOLDER in word for word in wish.command):
        raise RunError(
            f"{' '.join(wish.command)}: no word names {PLACEHOLDER}: the program would not work on the PFS; "
            f"allowed: a command with {PLACEHOLDER} where its data are, e.g. {PLACEHOLDER}/data"
        )
    for option, names in {"--input": wish.inputs, "--read-only": wish.read_only}.items():
        for name in names:
            if not (wish.pfs / name).exists() or ".." in Path(name).parts or Path(name).is_absolute():
                raise RunError(f"{option}: {name!r}; allowed: the name of something below {wish.pfs}")
    named = {n.rstrip("/") for n in wish.inputs} | {
        m.rstrip("/") for w in wish.command for m in re.findall(r"\{pfs\}/+([^\s:;,'\"]+)", w)
    }
    there = [n for n in sorted(named) if (wish.pfs / n).exists() and not _is_below(n, wish.read_only)]
    found = tuple(n for n in there if not _is_below(n, [other for other in there if other != n]))
    if bad := next((n for n in found if ".." in Path(n).parts), None):
        raise RunError(f"{PLACEHOLDER}/{bad}: leads out of the PFS; allowed: names below it")
    needed, free = sum(_bytes(wish.pfs / n) for n in found), shutil.disk_usage(wish.pfs).free
    if needed > free:
        raise RunError(
            f"{wish.pfs}: a copy of {', '.join(found)} needs {size(needed)}, {size(free)} are free; "
            "allowed: --read-only NAME for inputs that the program does not change"
        )
    return found


def _is_below(name: str, others: Sequence[str]) -> bool:
    return any(Path(name).is_relative_to(other) for other in others)


def _bytes(place: Path) -> int:
    return sum(f.stat().st_size for f in ([place] if place.is_file() else files_below(place)))


def _check_own(wish: Wish, tierctl: Path) -> dict[str, str]:
    """Configurations of the user's own have names of their own and buffer the PFS that the trial is of."""
    taken = {PFS, BARE, *("-".join(t.name for t in c) for c in tier_files.combinations(wish.tiers))}
    own: dict[str, str] = {}
    for given in wish.own:
        if given.stem in taken | own.keys():
            raise RunError(
                f"-c {given}: a configuration is called {given.stem!r} already; allowed: another file name"
            )
        own[given.stem] = str(given.absolute())
        _check(tierctl, own[given.stem])
        plan = json.loads(_tierctl(tierctl, "plan", "--json", own[given.stem]))
        path = Path(plan["pfs"]["path"]).resolve()
        if not wish.pfs.is_relative_to(path):
            raise RunError(
                f"-c {given}: pfs.path: {path}; allowed: {wish.pfs}, the PFS of the trial, or above it"
            )
    return own


def _check_all(trial: Trial, folder: Path) -> None:
    """Where one is refused nothing was run: the folder, which holds only them, goes."""
    try:
        for file in trial.configurations.values():
            _check(Path(trial.tierctl), file)
    except RunError:
        shutil.rmtree(folder)
        raise


def _check(tierctl: Path, file: str) -> None:
    """Refuse what the engine would refuse, in its words."""
    _tierctl(tierctl, "check", file)


def _tierctl(tierctl: Path, command: str, *words: str) -> str:
    """What it prints; `RunError` with its last line where it refuses."""
    done = subprocess.run([tierctl, command, *words], capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or [
            f"{words[-1]}: tierctl {command} failed"
        ]
        raise RunError(lines[-1].removeprefix("tierctl: "))
    return done.stdout


def _profile(
    wish: Wish, tierctl: Path, folder: Path, say: Callable[[str], None]
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Measure the PFS and each tier; returns what is wrong with the places, and the device files."""
    notes = [told for t in wish.tiers if t.path and (told := _one_device(t, wish.pfs))]
    if not wish.tiers:
        return tuple(notes), {}
    names = ", ".join([*(t.name for t in wish.tiers), PFS])
    say(f"measuring {names}: about {11 * (len(wish.tiers) + 1)} s")
    all_tiers = folder / "tiers" / f"{'-'.join(t.name for t in wish.tiers)}.yaml"
    profiles = folder / "profiles"
    told = folder / "profile.txt"
    with told.open("wb") as out:
        words = [str(tierctl), "profile", str(all_tiers), "-o", str(profiles)]
        status = endings.run(words, stdout=out, stderr=out, start_new_session=True)
    endings.heed()
    if status:
        last = told.read_text(errors="replace").strip().splitlines() or ["tierctl profile failed"]
        raise RunError(last[-1].removeprefix("tierctl: "))
    measured = {name: str(profiles / f"{name}.yaml") for name in [*(t.name for t in wish.tiers), PFS]}
    return tuple(notes + _slower(measured)), measured


def _one_device(tier: Tier, pfs: Path) -> str | None:
    both = {tier.name: devices.described(str(tier.path)), PFS: devices.described(str(pfs))}
    words = [words for _, _, words in devices.shared(both)]
    if not words:
        return None
    told = f"{tier.name}: {tier.path} and the PFS {pfs} are on one file system"
    return f"{told} ({words[0]}): it is no faster place of its own"


def _slower(measured: dict[str, str]) -> list[str]:
    """Tiers that their profile says are slower than the PFS."""
    told, devices = [], {name: strict_yaml.read(Path(file), RunError) for name, file in measured.items()}
    for name, device in devices.items():
        for access in ("write", "read"):
            mine, pfs = (_mib_s(d[f"{access}_bandwidth"]) for d in (device, devices[PFS]))
            if name != PFS and mine < 0.9 * pfs:
                told.append(
                    f"{name}: {access}s {mine:.0f} MiB/s, less than the PFS's {pfs:.0f} MiB/s (profiles/)"
                )
    return told


def _mib_s(text: str) -> float:
    return float(text.removesuffix("MiB/s"))


def _run_bare(
    folder: Path,
    inputs: Sequence[str],
    variables: Sequence[tuple[str, str]],
    say: Callable[[str], None],
) -> float:
    """Seconds of the program without Tierbench; `RunError` where it does not end well."""
    say("the program once without Tierbench")
    place = results.next_folder(folder, BARE)
    line = [sys.executable, "-m", "tierbench.trial.one_run", str(folder / "trial.json"), BARE]
    with (place / "stdout.txt").open("wb") as out, (place / "stderr.txt").open("wb") as err:
        environment = os.environ | {name: os.path.expandvars(value) for name, value in variables}
        status = endings.run(line, cwd=place, env=environment, stdout=out, stderr=err, start_new_session=True)
    endings.heed()
    if status:
        last = last_words((place / "stderr.txt").read_text(errors="replace"))
        if not (place / "run.json").exists() and last.startswith("tierbench: "):
            raise RunError(f"{last.removeprefix('tierbench: ')} ({place / 'stderr.txt'})")
        raise RunError(
            f"the program {ended(status)} without Tierbench: {last} ({place / 'stderr.txt'}); it had "
            f"{', '.join(inputs) or 'no input'} below {PLACEHOLDER} (--input NAME copies what COMMAND does "
            "not name)"
        )
    found = results.read(place / "run.json")
    say(f"it took {seconds(found.wall_s)} s and left {counted(len(found.outputs), 'file')}")
    return found.wall_s
