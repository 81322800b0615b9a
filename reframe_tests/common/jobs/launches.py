"""The launches of a published recipe in one job: datasets, what is measured, a launch that keeps the bytes.

A mark is printed before and after each, so that outputs can be told apart and no published line is
redirected. Where the program removed its files, the writes are launched once more, not measured, for the
check of the bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tierbench.base.sizes import MIB
from tierbench.judge.asked import IorAsked
from tierbench.recipes.published import Recipe

from ..outcome import held
from ..outcome.held import Held
from ..outcome.launch_numbers import LaunchOutput, content_of, duration_of, measured
from ..scales.scale import Sizes, size_of, value_of, with_value
from ..scales.shares import Shares
from ..sites.tiers import ROOT
from .driver_flags import respelled
from .limits import LEAST_BYTES_S, LEAST_OPERATIONS_S, Limit, of_bytes, of_deadline, of_operations
from .script import Script, mark

SIGNATURE = "1638301383"  # -G of the launch that is only checked
PRINTED_TENTH = MIB // 20 + 1  # drivers print the bytes moved in tenths of a MiB, and 66.25 as 66.2


# What a recipe sets on the user's directory, and leaves there, is undone when the job ends, however it ends.
_OWN_FILES = ROOT / "reframe_tests" / "common" / "jobs" / "own_files.py"
_LIST = "own-files.json"
_UNDISTURBED = (
    'trap "" TERM INT HUP'  # a second signal, as a scheduler sends one, would leave half of it undone
)
# The stripes as they were are noted in the directory: what a killed job has set the next one there undoes.
_NOTE = "{folder}/.tierbench-stripes.yaml"
_KEPT_STRIPES = (
    "[ -e {note} ] || lfs getstripe -d --yaml {folder} > stripes.yaml\n"
    "[ -e {note} ] || cp stripes.yaml {note}"
)
_SET_BACK = "{{ lfs setstripe --yaml {note} {folder} || lfs setstripe -d {folder}; }} && rm -f {note}"
_RESTORED = _SET_BACK + ' || echo "tierbench: {folder} keeps its stripes: set back those of {note}" >&2'
_INHERITED = "[ ! -e {note} ] || {{ " + _SET_BACK + "; }}"


def _of_folder(line: str, folder: str) -> str:
    return line.format(folder=folder, note=_NOTE.format(folder=folder))


def _striped(conditions: list[str]) -> list[str]:
    """The directories that get stripes."""
    return [line.split()[-1] for line in conditions if line.startswith("lfs setstripe ")]


def writers(recipe: Recipe) -> list[int]:
    """The launches that write: without -w and -r IOR does both."""
    return [i for i, x in enumerate(recipe.launches) if "-w" in x.arguments or "-r" not in x.arguments]


@dataclass
class Launches:
    """What is launched here, and how the bytes it leaves are checked; `file` is what -o names."""

    recipe: Recipe
    sizes: Sizes
    script: Script
    program: str
    file: str | None
    shares: Shares
    memory_hog: str
    trace_wanted: bool
    arguments: list[tuple[str, ...]] = field(default_factory=list)
    unspelled: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.home = self.script.plan.to_the_letter
        self.arguments = [self._arguments(number) for number in range(len(self.recipe.launches))]
        self.kept = "-k" in self.recipe.launches[-1].arguments
        self.checked_file, self.checked = self.file, self.arguments[writers(self.recipe)[0]]
        self.checks_once_more = not (self.kept or self.home or not value_of(self.checked, "-o"))
        if self.checks_once_more:
            self.checked_file = f"{self.file}.check"
            flags = [a for a in self.checked if a not in ("-r", "-w", "-k")]
            flags[flags.index("-o") + 1] = self.checked_file
            self.checked = (*flags, "-w", "-k", "-G", SIGNATURE)

    def _arguments(self, number: int) -> tuple[str, ...]:
        """The arguments of a launch here: the sizes of the scale, the site's file, a hog where asked for."""
        arguments = self.sizes.arguments[number]
        if self.recipe.launches[number].program_name != "ior":
            return arguments
        if not self.home:
            arguments = with_value(arguments, "-o", str(self.file))
            arguments, self.unspelled = respelled(self.program, arguments)
        return (*arguments, "-M", self.memory_hog) if self.memory_hog else arguments

    # --- the job ---------------------------------------------------------------------------------------

    @property
    def main(self) -> int:
        """The first launch that is measured: ReFrame's executable."""
        return next(i for i, launch in enumerate(self.recipe.launches) if launch.measures)

    def set_launcher(self, pfs: Path | None) -> None:
        """What the published line gives its launcher beyond counts; the directory of a program without -o."""
        launcher, launch = self.script.job.launcher, self.recipe.launches[0]
        if hasattr(launcher, "sets_per_node"):
            launcher.sets_per_node = self.recipe.sets_per_node
        if self.home:
            generated = launcher.command(self.script.job)
            launcher.options = list(launch.launcher[len(generated) :])
        elif not value_of(launch.arguments, "-o"):
            launcher.options = [f"--chdir={pfs}"] if self.script.site.srun else ["--wdir", str(pfs)]

    def hints(self, stage: Path) -> dict[str, str]:
        """Variables that hand MPI-IO its hints, for ROMIO anywhere and for Cray's."""
        hints, file = self.recipe.hints, stage / "romio-hints"
        if not hints:
            return {}
        file.write_text("".join(f"{name} {value}\n" for name, value in hints.items()))
        cray = "*:" + ":".join(f"{name}={value}" for name, value in hints.items())
        # OpenMPI's own MPI-IO knows none of them.
        return {"ROMIO_HINTS": str(file), "OMPI_MCA_io": "romio321", "MPICH_MPIIO_HINTS": cray}

    def lines(self) -> tuple[list[str], list[str]]:
        """The lines before the main launch, with its first mark, and after; the launcher is left for it."""
        before: list[str] = self.script.start_lines()
        after: list[str] = []
        for number, launch in enumerate(self.recipe.launches):
            lines, arguments = (before if number <= self.main else after), self.arguments[number]
            if "-r" in arguments and "-w" not in arguments:
                lines.append(self._dataset_check(arguments))
            stats = f"stats-{number + 1}.json" if launch.measures else None
            calibration, line = self._line(str(number + 1), arguments, stats)
            lines += [*calibration, *self.script.begins(str(number + 1))]
            if number != self.main:
                lines += [line, mark(str(number + 1), "ends")]
            else:
                after.append(mark(str(number + 1), "ends"))
        if self.checks_once_more:
            calibration, line = self._line("check", self.checked, "stats-check.json")
            after += [*calibration, mark("check", "begins"), line, mark("check", "ends")]
        self._line(str(self.main + 1), self.arguments[self.main], f"stats-{self.main + 1}.json")
        return before, after

    def _line(self, name: str, arguments: tuple[str, ...], stats: str | None) -> tuple[list[str], str]:
        """What goes before a launch, and it; through `tierctl run` where `stats` names its counters."""
        limit, calibration = self._limit(name, arguments), list[str]()
        if stats and self.script.plan.managed:
            size = size_of(arguments, "-t") if value_of(arguments, "-t") else 0
            place, wanted = Path(str(self.file)).parent, self.trace_wanted
            calibration, words = self.script.trace(f"trace-{name}", self.program, size, place, wanted=wanted)
            self.script.through_tierctl(stats, words, limit)
        else:
            self.script.directly(limit)
        return calibration, self.script.line(self.program, arguments)

    def _limit(self, name: str, arguments: tuple[str, ...]) -> Limit | None:
        """By the slowest share that the recipe has here; on real tiers, of which none is known, by little."""
        if self.home:
            return None
        if deadline := value_of(arguments, "-D"):
            return of_deadline(name, int(deadline))
        accesses = [access for launch in self.recipe.launches for access in launch.measures]
        modelled, nodes = self.script.site.modelled, self.sizes.nodes
        if self.sizes.operations is not None:
            known = min(self.sizes.operations / self.shares.of(access) for access in accesses)
            return of_operations(
                name, self.sizes.operations, known if modelled else LEAST_OPERATIONS_S * nodes
            )
        both = 2 * self.sizes.total_bytes  # written and read, or written and drained
        rates = [self.shares.bytes_s(access, size_of(arguments, "-t")) for access in accesses]
        least = LEAST_BYTES_S * nodes
        if any(self.recipe.number(access).metric == "iops" for access in accesses):
            least = min(least, LEAST_OPERATIONS_S * nodes * size_of(arguments, "-t"))
        return of_bytes(name, both, min(rates) if modelled else min(*rates, least))

    def _dataset_check(self, arguments: tuple[str, ...]) -> str:
        script = ROOT / "reframe_tests" / "common" / "jobs" / "dataset.py"
        layout = "separate" if "-F" in arguments else "shared"
        extent = "stonewalled" if value_of(arguments, "-D") and "-z" not in arguments else "complete"
        return " ".join(
            [
                "python3",
                str(script),
                f'"{self.file}"',
                str(self.sizes.ranks),
                str(self.sizes.bytes_per_rank),
                layout,
                extent,
            ]
        )

    def conditions(self, pfs: Path | None) -> tuple[list[str], list[str]]:
        """Commands before and after all launches: at home the published ones, elsewhere the run's folder."""
        if not self.home:
            return [f"mkdir -p {pfs}"], []
        nodes = str(self.sizes.nodes)
        before, after = (
            [line.replace("{nodes}", nodes) for line in lines]
            for lines in (self.recipe.before, self.recipe.after)
        )
        before = [*self._undone_at_the_end(before), *before]
        published = self.recipe.launches[0].program
        if self.program != published:  # conditions may name the program as published
            before.insert(0, f"ln -sf {self.program} {Path(published).name}")
        return before, after

    def _undone_at_the_end(self, conditions: list[str]) -> list[str]:
        """Note what is there, then one trap: a second one for EXIT would take its place."""
        given = [value_of(launch.arguments, "-o") for launch in self.recipe.launches]
        bases, folders = list(dict.fromkeys(filter(None, given))), _striped(conditions)
        noted = [_of_folder(_KEPT_STRIPES, folder) for folder in folders]
        undone = [_of_folder(_RESTORED, folder) for folder in folders]
        others = dict.fromkeys(str(Path(base).parent) for base in bases)
        noted += [_of_folder(_INHERITED, folder) for folder in others if folder not in folders]
        if bases:
            noted.append(f"python3 {_OWN_FILES} note {_LIST} {' '.join(bases)}")
            undone.append(f"python3 {_OWN_FILES} remove {_LIST} || true")
        return [*noted, f"trap '{'; '.join([_UNDISTURBED, *undone])}' EXIT"] if undone else []

    # --- what came out ---------------------------------------------------------------------------------

    def launch_of(self, access: str) -> int:
        """The launch that measures it."""
        return next(i for i, x in enumerate(self.recipe.launches) if access in x.measures)

    def measured(self, access: str, outputs: dict[str, LaunchOutput], stage: Path) -> dict[str, Any]:
        """Value, times, driver, and what shows that the rate was sustained."""
        number, metric = self.launch_of(access), self.recipe.number(access).metric
        arguments, log = self.arguments[number], stage / f"trace-{number + 1}.darshan"
        return measured(outputs[str(number + 1)], access, metric, arguments, self.sizes.ranks, log)

    def held(self, outputs: dict[str, LaunchOutput], stage: Path) -> Held:
        """All launches against what was asked of them."""
        lines = {str(number + 1): arguments for number, arguments in enumerate(self.arguments)}
        if self.checks_once_more:
            lines["check"] = self.checked
        found = held.places(stage, self.script.site)
        for name, arguments in lines.items():
            output = outputs[name]
            if self.recipe.launches[0].program_name == "ior":
                asked = IorAsked(arguments, self.sizes.ranks, self.sizes.nodes)
                bypass = self.script.plan.mode == "bypass"
                found += held.ior(name, asked, output, output.ior(), stage, bypass=bypass)
            else:
                found += held.timed(name, duration_of(output.text), output, stage / f"stats-{name}.json")
        return found

    def verified(self, outputs: dict[str, LaunchOutput]) -> bool | None:
        """The bytes on the PFS; None where they are not this machine's to look at."""
        if self.home or not value_of(self.checked, "-o"):
            return None if self.home else True  # the metadata program reads its value back itself
        found = content_of(Path(str(self.checked_file)), self.sizes.ranks, self.checked)
        if value_of(self.checked, "-D") is None:
            return found.wrong == 0 and found.right == self.sizes.total_bytes
        name = str(writers(self.recipe)[-1] + 1) if self.kept else "check"
        return found.wrong == 0 and abs(found.right - outputs[name].moved_bytes()) <= PRINTED_TENTH
