"""Metadata: mdtest as the run rules of procurements ask for it, and the twelve phases of IO500.

The recipes are those of configs/recipes/rules. No number was published for them, so nothing is required; on
the twin, where the metadata server takes a known time for each operation, the right answer is known.
"""

from __future__ import annotations

import json
import math
import re
import sys
from pathlib import Path
from typing import Any

import reframe as rfm
from reframe.core.builtins import parameter, run_after

sys.path.append(str(Path(__file__).resolve().parent))  # ReFrame removes a path by its index

from common.jobs.launches import PRINTED_TENTH
from common.outcome.launch_numbers import outputs_of
from common.outcome.results import Results
from common.outcome.verify_bytes import check
from common.recipe_case import rules_of
from common.rules_case import RuleTest
from common.sites.twin import device
from tierbench.base.sizes import MIB
from tierbench.judge import io500
from tierbench.outputs import parse_mdtest

_ITEMS = re.compile(r"^(\d+) tasks, (\d+) files$", re.MULTILINE)


@rfm.simple_test
class Mdtest(RuleTest):
    """Creation, stat and removal at one level of concurrency.

    `-P nodes=2,4,8` searches the fewest nodes that reach the peak (recipes `-peak`),
    `-P ranks_per_node=8,16,32` the best number of processes on a node.
    """

    suite = "mdtest"
    recipe = parameter(list(rules_of("mdtest")), type=str, loggable=True)
    nodes = parameter([0], type=int, loggable=True)
    ranks_per_node = parameter([0], type=int, loggable=True)

    @property
    def searched(self) -> dict[str, int]:
        """Of a search; 0: as the recipe says."""
        return {"nodes": self.nodes, "ranks_per_node": self.ranks_per_node}

    @run_after("setup")
    def only_what_is_searched(self) -> None:
        """The other recipes state their nodes or processes."""
        self.skip_if(bool(self.nodes) and self.rule.nodes != "sweep", f"nodes: {self.rule.nodes}")
        told = self.rule.ranks_per_node
        self.skip_if(bool(self.ranks_per_node) and told != "cores", f"processes a node: {told}")

    def numbers(self, results: Results) -> dict[str, dict[str, Any]]:
        """The three rates, and whether all files were made and none is left."""
        text = outputs_of((results.stage / str(self.stdout)).read_text(errors="replace"))["mdtest"].text
        output, launch = parse_mdtest(text, "stdout"), self.rule.launches[0]
        rates = {r.operation: r.mean for r in output.rows if r.unit == "ops/s"}
        made = _ITEMS.search(text)
        wanted = (self.sizes.ranks, self.sizes.ranks * (self.sizes.files or 0))
        self.warnings = list(output.failures)
        pfs = self.places.pfs
        left = [str(p) for p in pfs.rglob("*") if not p.is_dir()] if pfs else []
        right = made is not None and (int(made[1]), int(made[2])) == wanted
        verified = right and not left and not self.warnings
        return {
            metric: {
                "metric": "rate",
                "unit": "op/s",
                "value": rates[operation],
                "driver": output.driver,
                "command": " ".join(self.lines["mdtest"]),
                "verified": verified,
            }
            for metric, operation in launch.measures.items()
        }

    def expected(self) -> dict[str, float]:
        """Each phase is one operation a file."""
        create, other = self.twin_rates()
        return {"create": create, "stat": other, "remove": other}

    def media_of(self, second: dict[str, float]) -> dict[str, float]:
        """Of making files."""
        return dict.fromkeys(self.metric_names(), second["metadata"])

    def problems(self) -> list[str]:
        """What mdtest warned of: a file that is missing is only a warning to it."""
        return list(getattr(self, "warnings", []))


@rfm.simple_test
class Io500(RuleTest):
    """The phases in their order, the two means and the score, valid or not."""

    suite = "io500"
    recipe = parameter(list(rules_of("io500")), type=str, loggable=True)

    def bytes_per_node(self) -> int:
        """What the twin writes before both stonewalls, and its wear-out; on a real site a node's memory."""
        if not self.site.modelled:
            return self.site.memory
        rate = float(str(device(self.rule.twin.device)["write_bandwidth"]).removesuffix("MiB/s"))
        return int(2.5 * (self.sizes.seconds or 0) * rate / self.factor) * MIB

    def files_per_node(self) -> int:
        """What its metadata server creates in both."""
        rate = max(self.twin_rates()) / self.sizes.nodes if self.site.modelled else 1e6
        return int(2 * (self.sizes.seconds or 0) * rate)

    def files_of(self, name: str) -> int | None:
        """What the phase that writes left in its status file, for the later ones."""
        count = _text(Path(self.stagedir) / "status" / name.rpartition("-")[0]).strip()
        return int(count) if count.isdigit() else None

    def metric_names(self) -> list[str]:
        """The phases and what is made of them."""
        return [*super().metric_names(), "bandwidth", "metadata", "score"]

    def numbers(self, results: Results) -> dict[str, dict[str, Any]]:
        """A case for each number there is; io500.json for all of the run, valid or not."""
        ran = {name: self._ran(results.stage, name) for name in io500.PHASES}
        self.outcome = io500.outcome(ran, self.sizes.ranks)
        summary = "\n".join(io500.lines(self.outcome)) + "\n"
        told = io500.as_json(self.outcome) | {
            "tiers": self.tiers,
            "factor": self.factor,
            "scale": self.plan.scale,
        }
        for metric in self.metric_names():
            (results.folder(metric) / "summary.txt").write_text(summary)
        (results.folder("score") / "io500.json").write_text(json.dumps(told, indent=1))
        verified = self._bytes_are_right()
        found = {p.name: self._phase(p, verified) for p in self.outcome.phases if p.value}
        invalid = list(self.outcome.invalid)
        drivers = ", ".join(sorted({p.driver for p in self.outcome.phases if p.driver}))
        for name, unit in (("bandwidth", "GiB/s"), ("metadata", "kIOPS"), ("score", "score")):
            value = getattr(self.outcome, name)
            if value:
                found[name] = {
                    "metric": "bandwidth" if name == "bandwidth" else "rate",
                    "unit": unit,
                    "value": value,
                    "driver": drivers,
                    "command": "the twelve phases",
                    "verified": verified,
                    "invalid": invalid,
                }
        return found

    def _ran(self, stage: Path, name: str) -> io500.Ran:
        """What a phase left; the command line is the one that the program says it ran."""
        out, err, status = (
            _text(stage / "launches" / f"{name}.{suffix}") for suffix in ("out", "err", "status")
        )
        count = _text(stage / "status" / "mdtest-hard").strip()
        return io500.Ran(
            io500.command_of(out) or self.lines[name][1:],
            int(status or 255),
            out,
            err,
            int(count) if count.isdigit() else None,
        )

    def _phase(self, p: io500.Phase, verified: bool | None) -> dict[str, Any]:
        bandwidth = io500.PHASES[p.name] == io500.BANDWIDTH
        stonewall = io500.stonewall_of(self.lines[p.name])
        case = {
            "metric": "bandwidth" if bandwidth else "rate",
            "unit": p.unit,
            "value": p.value,
            "total_s": p.seconds,
            "driver": p.driver,
            "command": " ".join(self.lines[p.name]),
            "verified": verified,
            "sustained_by": "no stonewall",
        }
        if bandwidth:
            case["bytes"] = round((p.amount or 0) * MIB)
        if self.site.modelled and p.name.startswith("ior") and p.name.endswith("read"):
            case["read_limit"] = self.expected()[p.name]
        if stonewall:
            case |= {
                "sustained": (p.seconds or 0) >= stonewall,
                "sustained_by": f"wrote for {p.seconds:.1f} s, stonewall {stonewall} s",
            }
        return case

    def expected(self) -> dict[str, float]:
        """Not of `find`, because listing a directory costs nothing on the twin."""
        model = device(self.rule.twin.device)
        write, read = (
            float(str(model[key]).removesuffix("MiB/s")) / 1024 / self.factor * self.sizes.nodes
            for key in ("write_bandwidth", "read_bandwidth")
        )
        create, other = (rate / 1000 for rate in self.twin_rates())
        return self._of_phases(write, read, create, other)

    def media_of(self, second: dict[str, float]) -> dict[str, float]:
        """Of large transfers and of making files."""
        write, read = second["write"] / 1024, second["read"] / 1024
        return self._of_phases(write, read, second["metadata"] / 1000, second["metadata"] / 1000)

    @staticmethod
    def _of_phases(write: float, read: float, create: float, other: float) -> dict[str, float]:
        """GiB/s and kIOPS of each phase but `find`, and of the bandwidths together."""
        found = {
            name: (write if name.endswith("write") else read)
            if group == io500.BANDWIDTH
            else (create if name.endswith("write") else other)
            for name, group in io500.PHASES.items()
            if name != "find"
        }
        return found | {"bandwidth": math.sqrt(write * read)}

    def _bytes_are_right(self) -> bool | None:
        """All that ior wrote is on the PFS; on a real site its own checks (-R, -X) must do."""
        if not self.site.modelled or not self.places.pfs:
            return None
        amounts = {p.name: p.amount for p in self.outcome.phases}
        for name, file, transfer, shared in (
            ("ior-easy-write", "ior-easy/ior_file_easy", 2 * MIB, False),
            ("ior-hard-write", "ior-hard/file", 47008, True),
        ):
            block = transfer if shared else 1 << 40
            try:
                found = check(self.places.pfs / file, self.sizes.ranks, transfer, block, shared=shared)
            except FileNotFoundError:  # the phase failed
                return False
            wanted = (amounts[name] or 0) * MIB
            if found.wrong or abs(found.right - wanted) > PRINTED_TENTH:
                return False
        return True

    def problems(self) -> list[str]:
        """What went wrong in a phase; that a stonewall is shorter than the rules ask is the scale's."""
        return list(self.outcome.problems) if hasattr(self, "outcome") else []


def _text(file: Path) -> str:
    return file.read_text(errors="replace") if file.exists() else ""
