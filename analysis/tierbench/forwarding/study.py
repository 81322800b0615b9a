"""A machine's answer: what its scenarios and patterns show, how good its twin is, what a pool is worth."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tierbench.base.text import counted, number
from tierbench.forwarding import choices, queue, twin
from tierbench.forwarding.allocation import Job
from tierbench.forwarding.choices import Choice
from tierbench.forwarding.measurements import Measurements, Scenario, pattern_words
from tierbench.forwarding.queue import Outcome

PUBLISHED_COUNTS = {"marenostrum4": {3: 88}}  # the slides: 3 choices in 88 of 189; they give no other count
LEAST_FOR_TWIN = 6  # scenarios of each kind of pattern, half of which are fitted
QUEUE_JOBS, QUEUE_LOAD, QUEUE_NODES = 200, 0.8, 96
POOLS = (4, 8, 16, 32)  # I/O nodes of the simulated machine


@dataclass(frozen=True)
class Study:
    """Everything that is shown of one machine."""

    measured: Measurements

    @cached_property
    def scenarios(self) -> list[Choice]:
        """Each scenario's answer."""
        return choices.choices(self.measured)

    @cached_property
    def patterns(self) -> list[Choice]:
        """Each pattern's answer over its deployments."""
        return choices.by_pattern(self.measured)

    @cached_property
    def counts(self) -> dict[str, dict[int, int]]:
        """Scenarios by their number of distinct choices, for each rule."""
        return {name: choices.counts(self.scenarios, rule) for name, rule in choices.RULES.items()}

    @cached_property
    def checked(self) -> twin.Check | None:
        """How well a twin predicts; None with too few scenarios to fit one."""
        kinds = Counter((c.about[2], c.about[3]) for c in self.scenarios if isinstance(c.about, Scenario))
        return twin.check(self.measured) if kinds and min(kinds.values()) >= LEAST_FOR_TWIN else None

    @cached_property
    def queues(self) -> dict[int, list[Outcome]]:
        """By pool: what each policy does for one simulated queue of this machine's jobs."""
        jobs = [
            Job(s.words(), s.compute_nodes, cells)
            for s, cells in twin.medians(self.measured).items()
            if s.compute_nodes <= QUEUE_NODES and len(cells) > 1 and 0 in cells
        ]
        if not jobs:
            return {}
        arrivals = queue.made_up(jobs, QUEUE_JOBS, QUEUE_LOAD, QUEUE_NODES)
        return {
            pool: [queue.simulate(arrivals, QUEUE_NODES, pool, name) for name in queue.NAMES]
            for pool in POOLS
        }

    @property
    def numbers(self) -> list[int]:
        """Of I/O nodes, over all scenarios."""
        return sorted({k for c in self.scenarios for k in c.medians})


def headline(study: Study) -> str:
    """One sentence: what to do on this machine."""
    told = Counter(c.recommendation for c in study.patterns)
    words = [f"{what} for {counted(n, 'pattern')}" for what, n in told.most_common()]
    return f"{study.measured.name}, over all deployments: {'; '.join(words)}."


def sentences(study: Study) -> list[str]:
    """What the runs show, and what they do not."""
    found = study.scenarios
    matters = sum(c.p < choices.ALPHA for c in found)
    by_median, by_run = (Counter(getattr(c, name) for c in found) for name in ("best", "best_run"))
    how = "by the best single run, as published" if study.measured.published else "by the best single run"
    favours = " A best run favours what ran more often." if by_median != by_run else ""
    of_all = f"{matters} of {counted(len(found), 'scenario')}"
    test = f"(Kruskal and Wallis, p < {choices.ALPHA}, each for itself)"
    return [
        f"The number of I/O nodes matters in {of_all} {test}.",
        f"Best by median: {_numbers(by_median)}; {how}: {_numbers(by_run)}.{favours}",
        *_open_sentence(study),
    ]


def _open_sentence(study: Study) -> list[str]:
    """Of scenarios in which more runs are needed."""
    needed = sorted(c.needed for c in study.scenarios if c.needed is not None)
    if not needed:
        return []
    middle, most = needed[len(needed) // 2], choices.MOST_REPETITIONS
    least = f"more than {most}" if middle > most else str(middle)
    rival = "no forwarding" if 0 in study.numbers else "the next"
    told = f"In {counted(len(needed), 'scenario')} the runs do not tell the best number from {rival}"
    power = f"(Noether's estimate for {100 * choices.POWER:.0f} % power)"
    return [f"{told}; half of them need {least} repetitions or more {power}."]


def twin_sentence(check: twin.Check) -> str:
    """How well the twin predicts scenarios that it has not seen."""
    error, right, kept, fixed = (
        sorted(v)[len(v) // 2] for v in (check.error, check.right, check.kept, check.fixed)
    )
    low, high = min(check.right), max(check.right)
    return (
        f"Modelled: a twin that is fitted on half of the scenarios predicts half of the other bandwidths "
        f"within {1 + error:.2f} times. It names the best number of I/O nodes in {right:.0%} of them "
        f"({low:.0%} to {high:.0%} over {len(check.right)} splits). What it names has {kept:.0%} of the best "
        f"bandwidth; the one number that is best over all has {fixed:.0%}."
    ).replace("%", " %")


def as_json(study: Study) -> dict[str, Any]:
    """For scripts; bandwidths in MiB/s, of patterns as shares of their deployment's median."""
    check = dataclasses.asdict(study.checked) if study.checked else None
    return {
        "machine": study.measured.name,
        "published": study.measured.published,
        "source": study.measured.source,
        "choices": [{"rule": r, "scenarios": _keyed(c)} for r, c in study.counts.items()],
        "scenarios": [_choice(c) for c in study.scenarios],
        "patterns": [_choice(c) for c in study.patterns],
        "twin": check,
        "queues": [
            {
                "pool": pool,
                "policy": o.policy,
                "makespan_s": o.makespan_s,
                "mean_slowdown": o.mean_slowdown,
                "worst_slowdown": o.worst_slowdown,
                "utilisation": o.utilisation,
                "bandwidth_mib_s": o.bandwidth_mib_s,
            }
            for pool, outcomes in study.queues.items()
            for o in outcomes
        ],
    }


def about_words(choice: Choice) -> str:
    """The scenario or the pattern."""
    about = choice.about
    return about.words() if isinstance(about, Scenario) else pattern_words(about)


def best_words(choice: Choice) -> str:
    """`8 (in 93 % of resamples)`."""
    return f"{choice.best} ({choice.best_share[choice.best]:.0%})".replace("%", " %")


def candidate_words(choice: Choice) -> str:
    """The other numbers that are not shown to be slower than the best."""
    return ", ".join(str(k) for k in choice.candidates if k != choice.best) or "–"


def needed_words(choice: Choice) -> str:
    """Repetitions that are needed to tell the best from its rival."""
    if choice.needed is None:
        return "–"
    most = choices.MOST_REPETITIONS
    return f"> {most}" if choice.needed > most else number(choice.needed)


def _numbers(found: Counter[int]) -> str:
    return ", ".join(f"{k} in {n}" for k, n in sorted(found.items()))


def _keyed(found: Mapping[int, Any]) -> dict[str, Any]:
    return {str(k): v for k, v in found.items()}


def _choice(choice: Choice) -> dict[str, Any]:
    return {
        "about": about_words(choice),
        "medians": _keyed(choice.medians),
        "repetitions": _keyed(choice.repetitions),
        "p_kruskal": choice.p,
        "p_dunn_holm": [{"io_nodes": pair, "p": p} for pair, p in choice.pairs.items()],
        "best": choice.best,
        "best_share": _keyed(choice.best_share),
        "best_run": choice.best_run,
        "repetitions_needed": choice.needed,
        "not_shown_slower": choice.candidates,
        "recommendation": choice.recommendation,
    }
