"""`tierctl plan --writes` says where writes go, for every policy, as a run then shows."""

import json
import re
import sys
from xml.etree import ElementTree

import pytest
from instances import Instance

from tierbench.base.policies import POLICIES

Writes = tuple[tuple[int, int, str], ...]

# In pieces that end inside buffers: less than the tiers hold; more, of one file, of another, then of the first again; and
# the third file, which has units in both tiers.
SEQUENCES = (
    ((12, 100, "a"), (8, 256, "b")),
    ((20, 100, "a"), (30, 256, "b"), (3, 1500, "a")),
    ((1, 4, "a"), (1, 4, "b"), (12, 256, "c")),
)
PROGRAM = """
import os, sys
ends = {}
for group in sys.argv[2:]:
    n, kib, name = group.split(":")
    fd = os.open(os.path.join(sys.argv[1], name), os.O_WRONLY | os.O_CREAT, 0o600)
    for _ in range(int(n)):
        at = ends.get(name, 0)
        assert os.pwrite(fd, bytes(int(kib) * 1024), at) == int(kib) * 1024
        ends[name] = at + int(kib) * 1024
"""


def configure(instance: Instance, policy: str) -> None:
    rules = ", rules: [{pattern: '*/b', tiers: [nvme]}]" if policy == "user-defined" else ""
    text = instance.config.read_text().replace(
        "fsync: tier", f"fsync: tier\nplacement: {{policy: {policy}{rules}}}"
    )
    large, small = "{units: 16, share: 1.0}", "{units: 16, share: 0.5}, {units: 1, share: 0.5}"
    instance.config.write_text(text.replace(large, small).replace(small, large, 1))


def planned(instance: Instance, writes: Writes) -> dict[str, int]:
    """Bytes by tier, and of the PFS."""
    done = instance.ctl(
        "plan",
        instance.config,
        "--writes",
        ", ".join(f"{n} x {kib} KiB to {name}" for n, kib, name in writes),
        "--json",
    )
    assert done.returncode == 0, done.stderr
    groups = json.loads(done.stdout)["writes"]
    return {t: sum(g["tier_bytes"][t] for g in groups) for t in ("ram", "nvme")} | {
        "PFS": sum(g["pfs_bytes"] for g in groups)
    }


def taken(instance: Instance, writes: Writes) -> dict[str, int]:
    """The same of a run."""
    stats, groups = instance.root / "stats.json", [f"{n}:{kib}:{name}" for n, kib, name in writes]
    program = (sys.executable, "-c", PROGRAM, instance.root / "pfs", *groups)
    instance.check(instance.ctl("run", "-c", instance.config, "--stats", stats, "--", *program), 0)
    for name in {name for _, _, name in writes}:
        (instance.root / "pfs" / name).unlink()
    seen = json.loads(stats.read_text())
    return {t["name"]: t["bytes_in"] for t in seen["tiers"]} | {"PFS": seen["spilled"]}


@pytest.mark.parametrize("writes", SEQUENCES, ids=["less", "more", "units"])
@pytest.mark.parametrize("policy", POLICIES)
def test_plan_says_where_writes_go(instance: Instance, policy: str, writes: Writes) -> None:
    configure(instance, policy)
    expected = planned(instance, writes)
    assert sum(expected.values()) == sum(n * kib * 1024 for n, kib, _ in writes)
    # Some policies look at queues and heat: a busy machine delays a move, and then a run goes another way.
    runs = (taken(instance, writes) for _ in range(6))
    assert any(run == expected for run in runs), expected


def test_plan_draws_where_writes_go(instance: Instance) -> None:
    configure(instance, "round-robin")
    picture = instance.root / "plan.svg"
    done = instance.ctl("plan", instance.config, "--writes", "4 x 64KiB to <a>", "--svg", picture)
    assert done.returncode == 0, done.stderr
    assert re.search(r"(?m)^4 x 64KiB to <a> +0\.12 +0\.12 +0\.00$", done.stdout)
    drawn = ElementTree.parse(picture).getroot()
    texts = ["".join(t.itertext()) for t in drawn.iter("{http://www.w3.org/2000/svg}text")]
    wanted = {
        "Where 4 writes go under round-robin",
        "1: 4 x 64 KiB to <a>",
        "ram: 128 KiB",
        "nvme: 128 KiB",
        "PFS: 0 KiB",
    }
    assert wanted <= set(texts)


@pytest.mark.parametrize(
    "writes",
    [
        "",
        "4",
        "0 x 1MiB",
        "4 x",
        "x 1MiB",
        "-1 x 1MiB",
        "4 y 1MiB",
        "4 x 1MB",
        "4 x 0B",
        "4 x 1MiB to ",
        "4 x 1MiB to " + "n" * 32,
        "4 x 1MiB,",
        "1000001 x 1B",
        "1000 x 1TiB",
        ", ".join(["1 x 1B"] * 17),
    ],
)
def test_plan_refuses_bad_writes(instance: Instance, writes: str) -> None:
    picture = instance.root / "plan.svg"
    done = instance.ctl("plan", instance.config, "--writes", writes, "--svg", picture)
    assert (done.returncode, done.stderr.count("\n"), done.stdout) == (2, 1, ""), done.stderr
    assert f"--writes '{writes}': " in done.stderr
    assert not picture.exists()


@pytest.mark.parametrize(
    ("above", "below", "does"),
    [
        (1, 16, "ram has: they are gathered in buffers of 65536 bytes of nvme"),
        (16, 1, "ram has: they are split into buffers of 4096 bytes of nvme"),
        (16, 16, None),
    ],
)
def test_what_an_fsync_does_with_other_sizes_is_said(
    instance: Instance, above: int, below: int, does: str | None
) -> None:
    """By plan and by check, for a slab of memory that no directory tier has."""
    text = re.sub(
        r"slabs: .*?\]", f"slabs: [{{units: {above}, share: 1.0}}]", instance.config.read_text(), count=1
    )
    head, tail = text.split("medium: directory", 1)
    tail = re.sub(r"slabs: .*?\]", f"slabs: [{{units: {below}, share: 1.0}}]", tail)
    instance.config.write_text(f"{head}medium: directory{tail}")
    planned, checked = instance.ctl("plan", instance.config), instance.ctl("check", instance.config)
    assert (planned.returncode, checked.returncode) == (0, 0), planned.stderr + checked.stderr
    said = f"fsync: no directory tier has buffers of {4096 * above} bytes, as {does}"
    assert (said in planned.stdout, said in checked.stderr) == (does is not None, does is not None)
    assert "no directory tier has" not in planned.stdout + checked.stderr or does
