"""`tierbench forwarding` and `tierbench allocate`: how many I/O nodes, and for which job."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from tierbench.base import atomic_write, schema, strict_yaml
from tierbench.base.errors import RunError
from tierbench.base.text import number, shown
from tierbench.commands.arguments import Commands, count
from tierbench.commands.messages import console
from tierbench.forwarding import allocation, measurements
from tierbench.forwarding.allocation import Job
from tierbench.forwarding.measurements import Scenario

_ALLOCATE = """\
Reads jobs from a YAML file and says how many I/O nodes of a pool each job gets, by each policy. A job's
bandwidths are those that were measured for its scenario; else they are modelled by a twin of the machine, and
said to be. With --map the exact allocation is written as the map that the clients of tb-forge follow while
they run: in the order of the file, as many clients as each job has processes.

  jobs:
    - name: climate
      compute_nodes: 8
      processes: 96
      layout: shared             # or file-per-process
      spatiality: strided        # or contiguous
      request_kib: 1024
"""


def add(commands: Commands) -> None:
    """forwarding and allocate."""
    shown_of = commands.add_parser(
        "forwarding",
        epilog="example:\n  tierbench forwarding marenostrum4 results/mine -o out",
        help="how many I/O nodes each access pattern should use",
    )
    published = ", ".join(measurements.machines())
    shown_of.add_argument(
        "sources",
        nargs="*",
        metavar="SOURCE",
        help=f"{measurements.SOURCES} (default: what was published: {published})",
    )
    shown_of.add_argument("--json", action="store_true", help="everything, for scripts (default: sentences)")
    shown_of.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="DIR",
        help="write forwarding.html, .md, .json, .csv and .parquet there (default: nothing is written)",
    )
    shown_of.set_defaults(function=_forwarding)
    share = commands.add_parser(
        "allocate",
        description=_ALLOCATE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example:\n  tierbench allocate jobs.yaml --on marenostrum4 --pool 8",
        help="which job gets how many I/O nodes of a pool",
    )
    share.add_argument("jobs", type=Path, metavar="JOBS", help="a YAML file of jobs")
    share.add_argument(
        "--on",
        required=True,
        metavar="SOURCE",
        help=f"where bandwidths are from: {measurements.SOURCES} (required)",
    )
    share.add_argument(
        "--pool", type=count, required=True, metavar="N", help="I/O nodes there are, 1 to 1000 (required)"
    )
    share.add_argument(
        "--map",
        type=Path,
        metavar="FILE",
        help="write the exact allocation there, for running clients (default: nothing is written)",
    )
    share.add_argument(
        "--epoch",
        type=count,
        default=1,
        metavar="N",
        help="of the map; clients follow a higher one than theirs, 1 to 1000 (default: 1)",
    )
    share.add_argument("--json", action="store_true", help="the figures, for scripts (default: a table)")
    share.set_defaults(function=_allocate)


def _forwarding(options: argparse.Namespace) -> None:
    from tierbench.forwarding import study
    from tierbench.pages import forwarding_page

    atomic_write.check(options.output)
    studies = [study.Study(measurements.read(s)) for s in options.sources or measurements.machines()]
    if options.json:
        print(json.dumps([study.as_json(s) for s in studies], indent=1, allow_nan=False))
    else:
        forwarding_page.print_studies(studies, console())
    if options.output:
        written = forwarding_page.write(studies, options.output)
        if not options.json:
            print("\nWritten: " + ", ".join(str(path) for path in written))


def _allocate(options: argparse.Namespace) -> None:
    from tierbench.pages import forwarding_page

    atomic_write.check(None, options.map)
    scenarios = _read_jobs(options.jobs)
    jobs, modelled = _jobs(scenarios, options.on)
    given = {name: policy(jobs, options.pool) for name, policy in allocation.POLICIES.items()}
    totals = {name: allocation.total(jobs, g) for name, g in given.items()}
    if options.map:
        document = allocation.live_map(
            given["best"], [s.processes for s in scenarios.values()], options.epoch
        )
        atomic_write.replace_all(
            options.map.parent, {options.map.name: json.dumps(document).encode() + b"\n"}
        )
    if options.json:
        lines = [
            {"job": job.name, "modelled": job.name in modelled, **{n: g[i] for n, g in given.items()}}
            for i, job in enumerate(jobs)
        ]
        print(json.dumps({"pool": options.pool, "jobs": lines, "total_mib_s": totals}, indent=1))
        return
    body = [
        [f"{job.name} (modelled)" if job.name in modelled else job.name, *(str(g[i]) for g in given.values())]
        for i, job in enumerate(jobs)
    ]
    body.append(["I/O nodes", *(str(sum(g)) for g in given.values())])
    body.append(["MiB/s, all jobs", *map(number, totals.values())])
    forwarding_page.print_allocation(body, ["Job", *given], console())


def _read_jobs(file: Path) -> dict[str, Scenario]:
    found: dict[str, Any] = strict_yaml.read(file, RunError)
    if told := schema.misfit(found, "forwarding-jobs"):
        raise RunError(f"{file}: {shown(told)}")
    names = [job["name"] for job in found["jobs"]]
    for name in names:
        if names.count(name) > 1:
            raise RunError(f"{file}: job {shown(name)!r} is there twice; allowed: once")
    return {job.pop("name"): Scenario(**job) for job in found["jobs"]}


def _jobs(scenarios: dict[str, Scenario], source: str) -> tuple[list[Job], set[str]]:
    """Jobs with their bandwidths, and the names of those that are modelled."""
    from tierbench.forwarding import twin

    known = twin.medians(measurements.read(source))
    modelled = {name for name, s in scenarios.items() if s not in known}
    fitted = twin.fit(source, known) if modelled else None
    numbers = sorted({k for cells in known.values() for k in cells})
    jobs = []
    for name, s in scenarios.items():
        if fitted and s not in known:
            if (s.layout, s.spatiality) not in fitted.parameters:
                raise RunError(
                    f"job {shown(name)}: {s.layout}, {s.spatiality}; allowed: what {source} has measured"
                )
            cells = {k: fitted.bandwidth_mib_s(s, k) for k in numbers}
        else:
            cells = known[s]
        jobs.append(Job(name, s.compute_nodes, cells))
    return jobs, modelled
