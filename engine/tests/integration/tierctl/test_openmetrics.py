"""`tierctl status --openmetrics`: the counters of `--json`, in text that a strict reader takes; the dashboard's metrics."""

import json
import re
import subprocess
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from buffered import write_buffered
from instances import BIN, SOURCE, Instance, hold_lease

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
VALUE = r'"(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"({NAME})\{{({NAME}={VALUE}(?:,{NAME}={VALUE})*)\}} ([0-9]+)")
META = re.compile(rf"# (TYPE|HELP|UNIT) ({NAME}) (.+)")
# By their place in `status --json`, what is not called there as it is here.
RENAMED = {
    "tier_bytes_in": "tier_written",
    "tier_bytes_out": "tier_read",
    "pfs_bytes_written": "pfs_written",
    "pfs_bytes_read": "pfs_read",
    "passed": "passed_opens",
}


@dataclass
class Family:
    """A metric: its metadata, and its values by instance and tier."""

    meta: dict[str, str] = field(default_factory=dict)
    values: dict[tuple[str, str], int] = field(default_factory=dict)
    labels: list[dict[str, str]] = field(default_factory=list)


def parse(text: str) -> dict[str, Family]:
    """Families in one piece, types that node_exporter knows too, units that end the name, `# EOF` and no more."""
    assert text.endswith("\n# EOF\n")
    found: dict[str, Family] = {}
    last = ""
    for line in text.splitlines()[:-1]:
        if meta := META.fullmatch(line):
            what, last = meta[1], meta[2]
            assert last == next(reversed(found), "") or last not in found, f"{last} is in two pieces"
            family = found.setdefault(last, Family())
            assert what not in family.meta and not family.values, line
            family.meta[what] = meta[3]
            continue
        sample = SAMPLE.fullmatch(line)
        assert sample, line
        family = found[last]
        assert family.meta.keys() >= {"TYPE", "HELP"} and family.meta["TYPE"] in ("counter", "gauge")
        assert sample[1] == last + "_total" * (family.meta["TYPE"] == "counter")
        assert last.endswith("_" + family.meta.get("UNIT", last.rpartition("_")[2]))
        labels = dict(re.findall(rf"({NAME})=({VALUE})", sample[2]))
        labels = {name: re.sub(r"\\(.)", r"\1", value[1:-1]) for name, value in labels.items()}
        key = labels["instance"], labels.get("tier", "")
        assert key not in family.values, line
        family.values[key] = int(sample[3])
        family.labels.append(labels)
    return found


def expected(status: dict[str, Any]) -> dict[tuple[str, str], int]:
    """Every counter of `status --json`, by its metric without unit and tier."""
    made = {("region", ""): status["region"]["bytes"], ("daemon_up", ""): int(status["daemon_alive"])}
    made |= {("failed_files", ""): len(status["errors"]), ("waiting_processes", ""): len(status["waits"])}
    made |= {(n, ""): v for n, v in status.items() if type(v) is int and n != "daemon_pid"}
    made |= {(f"pfs_{n}", ""): v for n, v in status["pfs"].items()}
    made |= {(f"tier_{n}", t["name"]): v for t in status["tiers"] for n, v in t.items() if n != "name"}
    return {(RENAMED.get(name, name), tier): value for (name, tier), value in made.items()}


def openmetrics(instance: Instance, *args: object) -> dict[str, Family]:
    """Without -i those of other tests, too, which may be damaged: what is said of them is theirs."""
    done = instance.ctl("status", "--openmetrics", *args)
    said = done.stderr if args else "".join(s for s in done.stderr.splitlines(True) if instance.name in s)
    assert (done.returncode == 0 or not args) and not said, done.stderr
    return parse(done.stdout)


def test_counters_are_those_of_json(instance: Instance) -> None:
    instance.start()
    write_buffered(instance)
    found = openmetrics(instance, "-i", instance.name)
    info, status = found.pop("tierbench_instance_info").labels, instance.status()
    assert info == [
        {
            "instance": instance.name,
            "config": str(instance.config),
            "fsync": "tier",
            "placement": status["policy"],
            "mode": status["mode"],
            "devices": "real",
            "copy": status["copy"]["way"],
        }
    ]
    shown = {
        (name.removeprefix("tierbench_").removesuffix("_bytes"), tier): value
        for name, family in found.items()
        for (_, tier), value in family.values.items()
    }
    assert shown == expected(status)
    assert shown["tier_dirty", "nvme"] == 256 * 1024
    instance.check(instance.ctl("drain", "-i", instance.name), 0)
    after = openmetrics(instance, "-i", instance.name)
    assert after["tierbench_tier_dirty_bytes"].values[instance.name, "nvme"] == 0
    assert after["tierbench_pfs_written_bytes"].values[instance.name, ""] == 256 * 1024


def test_all_instances_and_a_daemon_that_is_gone(instance: Instance) -> None:
    instance.start()
    other = instance.name + "-b"
    instance.check(instance.ctl("start", "-c", instance.config, "-i", other), 0)
    found = openmetrics(instance)
    assert {(instance.name, "ram"), (other, "nvme")} <= found["tierbench_tier_used_bytes"].values.keys()
    instance.check(instance.ctl("stop", "-i", other), 0)
    instance.kill_daemons()
    up = openmetrics(instance)["tierbench_daemon_up"].values
    assert up[instance.name, ""] == 0 and (other, "") not in up


def test_one_that_is_being_recovered_is_none(instance: Instance) -> None:
    instance.crash("promised")
    with hold_lease(instance.directory() / "lease"):
        assert (instance.name, "") not in openmetrics(instance)["tierbench_daemon_up"].values
    assert openmetrics(instance)["tierbench_daemon_up"].values[instance.name, ""] == 0


def test_one_that_goes_while_it_is_looked_at_is_none(instance: Instance) -> None:
    """The tier's folder is gone, its region soon; where the region stays, that is said."""
    instance.crash("promised")
    instance.directory().rename(instance.root / "gone")
    end = threading.Timer(0.3, instance.shm().unlink)
    end.start()
    assert (instance.name, "") not in openmetrics(instance)["tierbench_daemon_up"].values
    end.join()


def test_one_that_lacks_its_folder_is_said(instance: Instance) -> None:
    instance.crash("promised")
    instance.directory().rename(instance.root / "gone")
    instance.check(instance.ctl("status", "--openmetrics"), 2, instance.name, "directories are gone", "# EOF")


def test_a_file_is_replaced_at_once(instance: Instance) -> None:
    """A reader that has the old file open keeps the whole old text; nothing stays beside it."""
    folder = instance.root / "metrics"
    folder.mkdir()
    file = folder / "tierbench.prom"
    file.write_text("old\n")
    instance.start()
    with file.open() as reader:
        instance.check(instance.ctl("status", "-i", instance.name, "--openmetrics", "-o", file), 0)
        assert reader.read() == "old\n"
    assert parse(file.read_text())["tierbench_daemon_up"].values == {(instance.name, ""): 1}
    assert file.stat().st_mode & 0o044, "another user's collector reads it"
    instance.stop()
    instance.check(instance.ctl("status", "-i", instance.name, "--openmetrics", "-o", file), 1, instance.name)
    assert all(not family.values for family in parse(file.read_text()).values()), "no old number stays"
    assert list(folder.iterdir()) == [file]


def test_a_link_with_the_number_of_the_process_is_not_followed(instance: Instance) -> None:
    """In a folder that others write, too: a name that could be foreseen would lead elsewhere."""
    folder = instance.root / "metrics"
    folder.mkdir()
    theirs, file = folder / "theirs", folder / "tierbench.prom"
    theirs.write_text("keep\n")
    instance.start()
    line = 'ln -s "$2" "$1.$$.part"; exec "$3" status -i "$4" --openmetrics -o "$1"'
    words = [str(w) for w in (file, theirs, BIN / "tierctl", instance.name)]
    subprocess.run(["sh", "-c", line, "sh", *words], check=True)
    assert theirs.read_text() == "keep\n" and parse(file.read_text())


def test_what_cannot_be_written_is_said(instance: Instance) -> None:
    instance.start()
    nowhere = instance.root / "none" / "x.prom"
    only = ("status", "-i", instance.name, "--openmetrics")
    instance.check(instance.ctl(*only, "-o", nowhere), 2, f"-o {nowhere}: {nowhere.parent}: No such file")
    full = instance.root / "full"
    full.mkdir()
    instance.check(instance.ctl(*only, "-o", full), 2, f"-o {full}: is a directory")
    assert not list(instance.root.glob("*.part")), "nothing half written stays"
    with Path("/dev/full").open("w") as device:
        done = subprocess.run([BIN / "tierctl", *only], stdout=device, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (2, "tierctl: stdout: cannot write: No space left on device\n")


@pytest.mark.parametrize("other", [["--json"], ["--watch"], ["--wait"]])
def test_one_form_at_a_time(instance: Instance, other: list[str]) -> None:
    instance.check(instance.ctl("status", "--openmetrics", *other), 2, "--openmetrics", "allowed")


def test_output_needs_openmetrics(instance: Instance) -> None:
    instance.check(instance.ctl("status", "-o", instance.root / "x"), 2, "-o needs --openmetrics")


def test_names_of_paths_are_escaped(instance: Instance) -> None:
    folder = instance.root / 'a "b" \\c\nd é'
    folder.mkdir()
    instance.config = instance.config.rename(folder / instance.config.name)
    instance.start()
    info = openmetrics(instance, "-i", instance.name)["tierbench_instance_info"].labels
    assert info[0]["config"] == f'{instance.root}/a "b" \\c?d ??/{instance.config.name}'


def queries(panel: dict[str, Any]) -> list[str]:
    inner = [q for p in panel.get("panels", []) for q in queries(p)]
    return [t["expr"] for t in panel.get("targets", [])] + inner


def asks_rightly(query: str, samples: set[str]) -> None:
    """Of metrics that exist, and a rate of a counter and of nothing else."""
    names = re.findall(r"tierbench_\w+", query)
    assert names, query
    for name in names:
        assert name in samples, f"{query}: {name}"
        is_rate = re.search(rf"(rate|increase)\({name}\b", query)
        assert bool(is_rate) == name.endswith("_total"), query


def shown_by(instance: Instance) -> set[str]:
    """Names of samples, as Prometheus keeps them."""
    instance.start()
    found = openmetrics(instance, "-i", instance.name)
    return {n + "_total" * (f.meta["TYPE"] == "counter") for n, f in found.items()}


def test_the_dashboard_asks_for_metrics_that_exist(instance: Instance) -> None:
    board = json.loads((SOURCE / "docs/monitoring/grafana-dashboard.json").read_text())
    asked = [q for panel in board["panels"] for q in queries(panel)]
    asked += [v["query"] for v in board["templating"]["list"] if v["type"] == "query"]
    assert len(asked) >= 12
    samples = shown_by(instance)
    for query in asked:
        asks_rightly(query, samples)
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)


def test_the_page_is_true(instance: Instance) -> None:
    """Its table is what an instance shows, and its alerts ask for that."""
    page = (SOURCE / "docs/monitoring/README.md").read_text()
    samples = shown_by(instance)
    assert set(re.findall(r"^\| `(tierbench_\w+)` ", page, re.M)) == samples
    alerts = re.findall(r"^\| `([^`]*tierbench_[^`]* [^`]*)` ", page, re.M)
    assert len(alerts) >= 5
    for query in alerts:
        asks_rightly(query.replace("min_over_time(", ""), samples)
