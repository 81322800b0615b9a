"""Put the figures of a run of the HPDC'18 evaluation into the docs, so that they are one run's and no older.

    .venv/bin/python docs/placement/hpdc18.py RUN

RUN is the folder that `ci/run-acceptance 5 -t hpdc18` made. Written again are the picture
docs/placement/hpdc18.png and what is between `<!-- hpdc18: X -->` and `<!-- /hpdc18 -->` in
docs/placement/README.md (policies) and docs/testing/hpdc18.md (claims, bounds). A run that lacks a workload
is refused.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tierbench.base.errors import RunError
from tierbench.base.policies import POLICIES
from tierbench.base.text import ratio_span, seconds, times
from tierbench.judge.hpdc18 import CLOSE, PREFIX, Claim, Efficiency, Ranked
from tierbench.pages import hpdc18_section
from tierbench.pages.hpdc18_section import Section
from tierbench.runs.run_folder import Run, read_run

DOCS = Path(__file__).resolve().parents[1]
WORKLOADS = 8  # of the evaluation


def table(head: list[str], lines: list[list[str]]) -> str:
    """In Markdown."""
    rule = ["---"] * len(head)
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, rule, *lines])


def made_by(run: Run, repetitions: int) -> str:
    """What a reader has to know of the run."""
    about = run.provenance
    commit = str(about.get("commit", "unknown"))[:10] + ("+" if about.get("dirty") else "")
    when, site = str(about.get("started", "?"))[:10], about.get("site", "?")
    what = f"Medians of {repetitions} repetitions" if repetitions > 1 else "One repetition"
    workloads = run.cases[run.cases["test"].str.startswith(PREFIX)]
    touched = ", memory touched before each launch" if workloads["touched"].notna().all() else ""
    return f"{what}, {when}, site `{site}`, commit {commit}{touched}."


def of_policies(section: Section) -> str:
    """Each policy's time over the fastest one's; a star where it is shown to be slower."""

    def cell(ranked: Ranked) -> str:
        if ranked.comparison is None:
            return "1"
        return f"{ranked.ratio.value:.2f}" + ("*" if ranked.comparison.significant else "")

    lines = [
        [workload, *(cell({r.sample.buffering: r for r in ranked}[name]) for name in section.names)]
        for workload, ranked in section.policies.items()
    ]
    return table(["", *section.names], lines)


def of_claims(claims: list[Claim]) -> str:
    """Published and measured ratios; under them why a published one was not reached."""
    lines = [
        [
            hpdc18_section.KINDS[c.kind] + (f" (K = {c.factor})" if c.factor > 1 else ""),
            hpdc18_section.AGAINST[c.against],
            times(c.published),
            f"{times(c.ratio.value if c.ratio else None)} ({ratio_span(c.ratio)})",
        ]
        for c in claims
    ]
    head = ["", "over", "published", "measured (interval)"]
    missed = [f"- {hpdc18_section.claim_words(c)}: {c.reason}." for c in claims if not c.reached]
    return "\n\n".join([table(head, lines), *(["\n".join(missed)] if missed else [])])


def of_bounds(efficiency: list[Efficiency]) -> str:
    """The fastest policy of each workload over what is possible."""
    lines = [
        [
            e.sample.workload,
            e.sample.buffering,
            f"{seconds(e.sample.median.value)} s",
            f"{seconds(e.bound)} s",
            times(e.times),
        ]
        for e in efficiency
    ]
    far = [f"- {e.reason}." for e in efficiency if e.times > CLOSE]
    told = table(["", "fastest policy", "measured", "bound", "times the bound"], lines)
    return "\n\n".join([told, *(["\n".join(far)] if far else [])])


def replace(page: Path, what: str, text: str) -> None:
    """Between the two comments that are there."""
    old = page.read_text()
    pattern = re.compile(rf"(<!-- hpdc18: {what} -->\n).*?(<!-- /hpdc18 -->)", re.DOTALL)
    new, n = pattern.subn(lambda m: f"{m[1]}\n{text}\n\n{m[2]}", old)
    if n != 1:
        raise RunError(f"{page}: {n} places `<!-- hpdc18: {what} -->`; allowed: one")
    page.write_text(new)


def judged(run: Run) -> Section:
    """All workloads, policies and claims are there, and it measured something, or it is refused."""
    section = hpdc18_section.of_run(run)
    allowed = "allowed: a run of ci/run-acceptance -t hpdc18"
    if section is None or len(section.policies) < WORKLOADS or any(c.ratio is None for c in section.claims):
        raise RunError(f"{run.path}: lacks workloads of HPDC'18; {allowed}")
    if any({r.sample.buffering for r in ranked} != set(POLICIES) for ranked in section.policies.values()):
        raise RunError(f"{run.path}: lacks policies; {allowed}")
    if "smoke" in set(run.cases["scale"]):
        raise RunError(f"{run.path}: is of the scale smoke, which measures nothing; {allowed}")
    return section


def main() -> int:
    """Read, judge, write."""
    if len(sys.argv) != 2:
        sys.stderr.write("usage: hpdc18.py RUN\n")
        return 2
    try:
        run = read_run(sys.argv[1])
        section = judged(run)
        repetitions = min(len(r.sample.values) for line in section.policies.values() for r in line)
        about = made_by(run, repetitions)
        replace(DOCS / "placement/README.md", "policies", f"{of_policies(section)}\n\n{about}")
        replace(DOCS / "testing/hpdc18.md", "claims", f"{of_claims(section.claims)}\n\n{about}")
        replace(DOCS / "testing/hpdc18.md", "bounds", f"{of_bounds(section.efficiency)}\n\n{about}")
    except RunError as e:
        sys.stderr.write(f"hpdc18.py: {e}\n")
        return 2
    figure = hpdc18_section.winners(run, [])
    assert figure
    figure.savefig(DOCS / "placement/hpdc18.png", dpi=110)
    return 0


if __name__ == "__main__":
    sys.exit(main())
