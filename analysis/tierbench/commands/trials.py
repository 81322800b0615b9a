"""`tierbench try` and `tierbench site init`: a program of your own, a site file of this machine."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tierbench.base import endings
from tierbench.base.endings import EndedError
from tierbench.base.errors import RunError
from tierbench.commands.arguments import Commands, count
from tierbench.commands.messages import complain, console, say
from tierbench.site import site_file, site_reader
from tierbench.trial import drivers, plan, start, tier_files

_TRY_USAGE = """\
tierbench try --pfs DIR [OPTIONS] -- COMMAND...
       tierbench try --pfs DIR [OPTIONS] --ior LINE | --recipe NAME"""
_TRY = """\
Runs a program on the PFS alone and under each tier configuration of the places at hand, in turn, through
ReFrame, and says what each buys. Write {pfs} where the program's data are: each run works in a new folder
below the PFS, into which the inputs that the command names are copied; nothing else is changed. The folder
is removed after the run.

  tierbench try --pfs /lustre/me --nvme /local/nvme --ram 8GiB -- python train.py {pfs}/data
  tierbench try --pfs /lustre/me --ram 8GiB -n 9 --read-only big -- ./model --in {pfs}/big --out {pfs}/out
  tierbench try --pfs /lustre/me -c mine.yaml -- ./model {pfs}/out
  tierbench try --site mysite.py --ram 8GiB --ior 'mpirun -n 4 ior -w -r -t 1m -b 256m -F'
"""


def add(commands: Commands) -> None:
    """try and site."""
    _add_try(commands)
    _add_site(commands)


def _add_try(commands: Commands) -> None:
    one = commands.add_parser(
        "try",
        epilog="example:\n  tierbench try --pfs /me --ram 8GiB -- ./model {pfs}/out",
        help="which tiers pay for a program of your own",
        description=_TRY,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage=_TRY_USAGE,
    )
    one.add_argument(
        "--pfs",
        metavar="DIR",
        help="a directory of yours on the parallel file system (default: of --site; without it required)",
    )
    one.add_argument(
        "--site",
        type=Path,
        metavar="FILE",
        help="a site file: its pfs, nvme and bb where they are not given, and its environment "
        "(default: none)",
    )
    one.add_argument("--ram", metavar="SIZE", help="a tier in memory of that size, e.g. 8GiB (default: none)")
    one.add_argument(
        "--nvme",
        metavar="DIR[:SIZE]",
        help="a tier on a local disk (default: none; its SIZE: half of what is free)",
    )
    one.add_argument(
        "--bb",
        metavar="DIR[:SIZE]",
        help="a tier on a burst buffer, slower than NVMe (default: none; its SIZE: half of what is free)",
    )
    one.add_argument(
        "-c",
        dest="own",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="a tier configuration of your own; may be repeated (default: none)",
    )
    one.add_argument(
        "-n",
        dest="repetitions",
        type=count,
        default=5,
        metavar="N",
        help="runs of each configuration, 1 to 1000 (default: 5)",
    )
    one.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME",
        help="an input below the PFS that COMMAND does not name: copied for each run; may be "
        "repeated (default: none)",
    )
    one.add_argument(
        "--read-only",
        action="append",
        default=[],
        metavar="NAME",
        help="an input that is only read: linked, not copied; may be repeated (default: none)",
    )
    one.add_argument(
        "--require",
        action="append",
        default=[],
        metavar="LINE",
        help="what the configuration to keep must do: 'wall <= 30 s', also durable or io, or "
        "'bandwidth >= 90 MiB/s', and after a comma the source; may be repeated "
        "(default: nothing)",
    )
    one.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="DIR",
        help="where to keep it all (default: tierbench-try-TIME, here)",
    )
    what = one.add_mutually_exclusive_group()
    what.add_argument(
        "--ior",
        metavar="LINE",
        help="in the program's place: IOR's options, or its whole line after a launcher (default: COMMAND)",
    )
    what.add_argument(
        "--recipe",
        metavar="NAME",
        help="in the program's place: the pattern of a recipe of `tierbench recipes`, at this "
        "node's size (default: COMMAND)",
    )
    one.add_argument("command", nargs="*", metavar="COMMAND", help="the program and its arguments")
    one.set_defaults(function=_try)


def _add_site(commands: Commands) -> None:
    init = commands.add_parser(
        "site",
        epilog="example:\n  tierbench site init --pfs /lustre/me --nvme /local/nvme -o mysite.py",
        help="init: write a site file of this machine, with what can be detected, and check it",
    )
    init.add_argument("action", choices=["init"], metavar="init", help="write the site file and check it")
    init.add_argument("--pfs", required=True, metavar="DIR", help="a directory on the PFS (required)")
    init.add_argument("--nvme", metavar="DIR", help="a directory on a local disk (default: no such tier)")
    init.add_argument("--bb", metavar="DIR", help="a directory on a burst buffer (default: no such tier)")
    init.add_argument(
        "--scheduler",
        choices=site_file.SCHEDULERS,
        default="local",
        help="what starts jobs (default: local, on this machine)",
    )
    init.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("mysite.py"),
        metavar="FILE",
        help="the site file (default: mysite.py, here)",
    )
    init.set_defaults(function=_site_init)


def _site_init(options: argparse.Namespace) -> int:
    """1 where the site is written but its trial failed."""
    named = [(name, getattr(options, name)) for name in ("pfs", "nvme", "bb") if getattr(options, name)]
    places = {name: tier_files.directory(f"--{name}", path) for name, path in named}
    tier_files.check_apart(places)
    site_file.write(site_file.site(places, options.scheduler), options.output)
    if told := site_file.undetected(options.scheduler):
        say(f"{told} ({options.output})")
    for told in site_file.one_thing(places):
        say(f"{told}: tests run, and nothing is claimed of tiers (apart: False)")
    say(f"{options.output} is written; a trial of about 30 s checks it")
    try:
        with endings.noted():
            holds, told = site_file.check(options.output)
    except EndedError as e:
        complain([f"{e}: {options.output} is left, unchecked"])
        return e.status
    print(f"{options.output}: {told}")
    return 0 if holds else 1


def _places(options: argparse.Namespace, places: Mapping[str, str]) -> tuple[Path, list[tier_files.Tier]]:
    """The PFS, and the tiers from the fastest on; refused where there is no tier, or one is in another."""
    tiers = [tier_files.Tier("ram", None, tier_files.parse_size(options.ram, "--ram"))] if options.ram else []
    tiers += [tier_files.directory_tier(name, places[name]) for name in ("nvme", "bb") if name in places]
    if not tiers and not options.own:
        raise RunError("no tier: allowed: at least one of --ram, --nvme, --bb and -c")
    pfs = tier_files.directory("--pfs", places["pfs"])
    tier_files.check_apart({t.name: t.path for t in tiers if t.path} | {"pfs": pfs})
    return pfs, tiers


def _try(options: argparse.Namespace) -> int:
    """ReFrame's status where runs failed, 1 where a requirement does not hold; with an answer."""
    if options.require:
        from tierbench.pages import trial_rows

        trial_rows.parse(options.require)
    site = site_reader.read(options.site) if options.site else None
    given = {name: getattr(options, name) for name in ("pfs", "nvme", "bb") if getattr(options, name)}
    places = (site.places if site else {}) | given
    if "pfs" not in places:
        raise RunError("no PFS: allowed: --pfs DIR, or --site FILE")
    pfs, tiers = _places(options, places)
    folder = options.output or Path(time.strftime("tierbench-try-%Y%m%d-%H%M%S"))
    driver = _driver(options)
    elsewhere = f"{site.name} starts jobs by {site.scheduler}; this trial ran on this node" if site else ""
    wish = start.Wish(
        command=driver.command,
        pfs=pfs,
        tiers=tuple(tiers),
        own=tuple(options.own),
        inputs=tuple(options.input),
        read_only=tuple(options.read_only),
        repetitions=options.repetitions,
        required=tuple(options.require),
        folder=folder,
        notes=(*driver.notes, *([elsewhere] if site and site.scheduler != "local" else [])),
        variables=(*driver.variables, *(site.variables if site else ())),
    )
    try:
        with endings.noted():
            trial = start.prepare(wish, say)
            status = start.run(trial, folder.resolve(), say)
    except EndedError as e:
        complain([f"{e}: {start.left(folder.resolve())}"])
        return e.status
    held = print_answer(folder)
    return status or (0 if held else 1)


def _driver(options: argparse.Namespace) -> drivers.Driver:
    """What is run: one of three."""
    named = [f"--{name}" for name in ("ior", "recipe") if getattr(options, name)]
    if bool(options.command) == bool(named):
        raise RunError(
            f"{named[0] if named else 'nothing to run'}: allowed: one of COMMAND, --ior and --recipe"
        )
    if options.ior:
        return drivers.ior(options.ior)
    return drivers.recipe(options.recipe) if options.recipe else drivers.command(options.command)


def print_answer(folder: Path, required: Sequence[str] = ()) -> bool:
    """Make the answer of a trial's folder, write its pages and print it; whether all that is required holds.

    `required` goes in the place of what the trial was started with.
    """
    from tierbench.pages import trial_page, trial_rows
    from tierbench.trial import answer

    trial = plan.read(folder / "trial.json")
    made = answer.make(trial, folder.resolve())
    rows = trial_rows.make(made, folder.resolve(), trial_rows.parse(required or trial.required))
    written = trial_page.write(made, folder.resolve(), rows)
    trial_page.print_answer(made, console(), rows)
    print("\nWritten: " + ", ".join(os.path.relpath(path) for path in written))
    return trial_rows.holds(made, rows)
