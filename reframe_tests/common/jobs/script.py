"""How launches are started in a job: by the site's launcher, through `tierctl run` where there are tiers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from tierbench.base import devices

from ..outcome.held import RUN
from ..outcome.launch_numbers import START
from ..sites.plan import Plan
from ..sites.programs import own_program
from ..sites.site import Site
from ..sites.tiers import ROOT, directories_of
from .limits import Limit, of_start

_DATE = "%s.%N %z"
DEVICES = Path(devices.__file__).resolve()  # of the checkout, or of an installation's Python
TRACE_COST = ROOT / "reframe_tests" / "common" / "jobs" / "trace_cost.py"
TOUCHED = ROOT / "reframe_tests" / "common" / "jobs" / "touched.py"
TOUCH = ("auto", "always", "never")  # memory, right before a launch
NOTHING = "/bin/true"
TIERCTL = own_program("tierctl")


def mark(name: str, word: str) -> str:
    """The command that prints that a launch `begins` or `ends`, and when; by the system's own date."""
    return f"command -p date +'tierbench: launch {name} {word} at {_DATE}'"


@dataclass(frozen=True)
class Script:
    """The commands of one job."""

    job: Any
    site: Site
    plan: Plan
    touch: str = "never"

    def run_options(self, stats: str | None, trace: Sequence[str]) -> list[str]:
        """The words between `tierctl` and the command that it starts."""
        counted = ["--stats", stats] if stats else []
        options = ["run", "-c", "tiers.yaml", "--mode", self.plan.mode, *counted, *trace]
        return [*options, *self.site.per_node_options(self.plan.nodes), "--"]

    def through_tierctl(self, stats: str, trace: Sequence[str], limit: Limit | None = None) -> None:
        """From here on the job's launcher is started by `tierctl run`."""
        self._start_by([str(TIERCTL), *self.run_options(stats, trace)], limit)

    def directly(self, limit: Limit | None = None) -> None:
        """From here on the job's launcher is started by itself."""
        self._start_by([], limit)

    def start_lines(self) -> list[str]:
        """A launch of a program that does nothing, as all others are made; none between published lines.

        What it takes is what a launch may take besides its work (`tierbench.judge.launch`).
        """
        if self.plan.to_the_letter:
            return []
        tiers = [str(TIERCTL), *self.run_options(None, ())] if self.plan.managed else []
        self._start_by(tiers, of_start())
        return [mark(START, "begins"), self.line(NOTHING, ()), mark(START, "ends")]

    def begins(self, name: str) -> list[str]:
        """The lines right before a launch, which is a measurement: memory is touched, and then it begins."""
        wanted = self.touch == "always" or (self.touch == "auto" and self.site.modelled)
        words = f"{TOUCHED} {self.touch} {self.plan.touched_bytes} touched-{name}.json"
        return [*([f"python3 {words}"] if wanted and self.plan.touched_bytes else []), mark(name, "begins")]

    def _start_by(self, words: list[str], limit: Limit | None) -> None:
        """Published lines are left as they are, without a limit."""
        within = limit.command() if limit and not self.plan.to_the_letter else []
        program, *options = [*within, *words] or [""]
        self.job.launcher.modifier, self.job.launcher.modifier_options = program, options

    def line(self, program: str, arguments: Sequence[str]) -> str:
        """One launch."""
        return " ".join([self.job.launcher.run_command(self.job), program, *arguments])

    def trace(
        self, name: str, program: str, size: int, pfs: object, *, wanted: bool
    ) -> tuple[list[str], list[str]]:
        """Lines before a launch and words of its `tierctl run`, for logs called `name`.

        Where a trace is needed without asking, on real tiers, a line measures whether it is cheap enough;
        `size`: bytes of a transfer, 0 of a launch that works on names.
        """
        words = ["--trace", f"{name}.darshan"]
        if wanted or (self.site.modelled and self.needs_witness(program)):
            return [], words
        if not self.needs_witness(program):
            return [], []
        variable = name.replace("-", "_")
        look = f"{TRACE_COST} {TIERCTL} tiers.yaml {self.plan.mode} {size} {pfs}/calibration {name}"
        return [f"{variable}=$(python3 {look})"], [f"${variable}"]

    def needs_witness(self, program: str) -> bool:
        """A trace without asking: of a program that is not ours, and on real tiers."""
        return not (PurePath(program).name.startswith("tb-") and self.site.modelled)

    def plan_lines(self, run: object = None) -> list[str]:
        """Keeps what the engine makes of the configuration, where there is one, and where real places are.

        `run` is the run's own folder on the PFS.
        """
        plan = f"{TIERCTL} plan --json --mode {self.plan.mode} tiers.yaml > plan.json"
        return [*([plan] if self.plan.managed else []), *self._device_lines(run)]

    def _device_lines(self, run: object) -> list[str]:
        """Keeps what the real places are on, also through links, bind mounts and loop devices."""
        looked_at = not (self.site.modelled or self.site.published)
        used = directories_of(self.plan.tiers) if looked_at else []
        places = {name: self.site.places[name] for name in dict.fromkeys(used) if name in self.site.places}
        places |= {RUN: str(run)} if run and places else {}
        words = " ".join(f"{name}={place}" for name, place in places.items())  # a shell may have to read them
        return [f"python3 {DEVICES} {words} > places.json"] if places else []
