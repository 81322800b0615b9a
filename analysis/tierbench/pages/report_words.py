"""A report in sentences: what the tiers buy, what did not pass, and under which conditions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tierbench.base.text import counted, number, size, times
from tierbench.judge import independence, limits, peak_search, stats
from tierbench.judge.stats import Interval
from tierbench.judge.verdict import FAIL, INCONCLUSIVE, PASS, TIER_NAMES, Row, Step
from tierbench.pages import io500_report, stage_section
from tierbench.pages.report_record import Report, step_words


def title(report: Report) -> str:
    """The question that the run answers."""
    if report.rows and all(map(stage_section.is_staged, report.rows)):
        return "When are a program's files on the PFS?"
    if any(r.scale is None for r in report.rows):
        return "What does each storage tier buy?"
    if any(r.published is not None or r.requirement is not None for r in report.rows):
        return "Does this storage do what was published?"
    return "What does this storage do?"


def headline(report: Report) -> list[str]:
    """Verdict and recommendation, then what each tier buys; ratios carry their interval."""
    scores = [io500_report.score_words(s) for s in io500_report.sections(report.run)]
    staged = stage_section.sentences(report.rows)
    return [*scores, _verdict_sentence(report), *_recommendation(report), *staged, *_tier_sentences(report)]


def _verdict_sentence(report: Report) -> str:
    """How many rows ended how, and on which devices."""
    failed = len(report.run.failures)
    lost = f"; {failed} test case{'s' * (failed != 1)} did not run to the end" if failed else ""
    if not report.rows:
        return f"Nothing was measured{lost}."
    modelled = sum(bool(r.key["modelled"]) for r in report.rows)
    where = {0: "On real devices", len(report.rows): "On modelled devices"}.get(
        modelled, f"On modelled devices in {modelled} rows, on real ones in the others"
    )
    judged = [r for r in report.rows if not r.only_measured]
    if not judged:
        return f"{where}: {_measured_only(report.rows)}{lost}."
    others = len(report.rows) - len(judged)
    beside = f"; {others} more {_be(others)} measured and held against no number" if others else ""
    return f"{where}: {_counts(judged)} of {counted(len(judged), 'row')}{beside}{lost}."


def _measured_only(rows: Sequence[Row]) -> str:
    """That nothing was required, and whether bytes were right."""
    right = sum(bool(r.verified) for r in rows)
    read_back = f"; bytes were right in {'all' if right == len(rows) else f'the {right}'} that were read back"
    told = f"{counted(len(rows), 'row')} {_be(len(rows))} measured; no number is required (--require)"
    return f"{told}, so none passed and none failed{read_back if right else ''}"


def _be(count: int) -> str:
    return "was" if count == 1 else "were"


def _counts(judged: Sequence[Row]) -> str:
    return ", ".join(
        f"{sum(r.verdict == word for r in judged)} {word}" for word in (PASS, FAIL, INCONCLUSIVE)
    )


def counts_words(report: Report) -> str:
    """Rows by what is said of them, for a title."""
    judged = [r for r in report.rows if not r.only_measured]
    measured = len(report.rows) - len(judged)
    told = ([_counts(judged)] if judged or not measured else []) + (
        [f"{measured} measured"] if measured else []
    )
    return ", ".join(told)


def verdict_words(row: Row) -> str:
    """The verdict; a row without a number to be held against was measured, and has none."""
    if not row.only_measured:
        return row.verdict
    return "measured, bytes right" if row.verified else "measured"


def verdict_style(row: Row) -> str:
    """The class of `verdict_words` on a page."""
    return "none" if row.only_measured else row.verdict


def measured_words(row: Row) -> str:
    """The median with its unit."""
    return f"{number(row.median.value)} {row.key['unit']}"


def ratio_words(interval: Interval) -> str:
    """A ratio with its interval, or that no difference is shown."""
    if interval.dependent:
        return f"{times(interval.value)} (no level: {interval.dependent})"
    if not _has_a_level(interval):
        return f"not shown to differ (n = {interval.n}, needs {stats.LEAST_FOR_RATIO})"
    if interval.low <= 1 <= interval.high:
        return "not shown to differ"
    return f"{times(interval.value)} [{times(interval.low)}, {times(interval.high)}]"


def _has_a_level(interval: Interval) -> bool:
    return bool(interval.level) and interval.n >= stats.LEAST_FOR_RATIO


def baselines(rows: Sequence[Row]) -> list[tuple[str, Callable[[Row], Interval | None]]]:
    """The columns of ratios: what they are to, and a row's ratio; one where no test syncs each write."""
    if any(r.ratio != r.ratio_without_sync for r in rows):
        return [("vs PFS with -Y", lambda r: r.ratio), ("vs PFS without", lambda r: r.ratio_without_sync)]
    return [("vs PFS", lambda r: r.ratio)]


def _recommendation(report: Report) -> list[str]:
    """What to do: which tiers, and whether to accept."""
    compared = [r for r in report.rows if r.scale is None and not stage_section.is_staged(r)]
    recipes = [r for r in report.rows if r.scale is not None]
    return ([_which_tiers(compared)] if len(compared) > 1 else []) + ([_accept(recipes)] if recipes else [])


def _which_tiers(rows: list[Row]) -> str:
    """What to use."""
    best = advised(rows)
    if best:
        open_end = "" if _shown_to_suffice(best) else "; that it reaches what is required is not shown"
        return f"Recommended: {row_name(best)}, {measured_words(best)}: {_both_ratios(best)}{open_end}."
    ratios = [r.ratio for r in rows if r.ratio and r.key["tiers"] != "pfs" and r.key["fsync"] != "none"]
    if ratios and all(r.n < stats.LEAST_FOR_RATIO for r in ratios):
        return (
            f"Recommended: nothing yet; {counted(max(r.n for r in ratios), 'repetition')} can show no "
            f"difference (needs {stats.LEAST_FOR_RATIO})."
        )
    told = "no configuration that keeps the promise of fsync is shown to be faster"
    if failed := [r for r in rows if r.key["tiers"] == "pfs" and r.verdict == FAIL]:
        return f"Recommended: none of these; {told}, and the PFS alone failed: {_names(failed)}."
    return f"Recommended: keep the PFS alone; {told}."


def _shown_to_suffice(row: Row) -> bool:
    """Where something is required of it."""
    return all(check.verdict == PASS for check in row.checks if check.name == "requirement")


def advised(rows: Sequence[Row]) -> Row | None:
    """The fastest configuration that is shown to be faster than the PFS and keeps what an fsync promises."""
    faster = [
        (r.ratio.value if r.key["direction"] == "higher" else 1 / r.ratio.value, r)
        for r in rows
        if r.ratio and r.scale is None and r.key["tiers"] != "pfs" and r.key["fsync"] != "none"
        if r.verdict != FAIL and _shown_faster(r, r.ratio)
    ]
    return max(faster, key=lambda found: found[0])[1] if faster else None


def _shown_faster(row: Row, ratio: Interval) -> bool:
    better = ratio.low > 1 if row.key["direction"] == "higher" else ratio.high < 1
    return better and _has_a_level(ratio)


def _accept(rows: list[Row]) -> str:
    """Whether recipes were met."""
    by_words: dict[str, list[Row]] = {}
    for row in rows:
        by_words.setdefault(verdict_words(row), []).append(row)
    if FAIL in by_words:
        return f"Recommended: do not accept; what failed: {_names(by_words[FAIL])}."
    if INCONCLUSIVE in by_words:
        return f"Recommended: decide nothing yet; what is open: {_names(by_words[INCONCLUSIVE])}."
    if PASS in by_words:
        return f"Recommended: accept; {len(by_words[PASS])} of {len(rows)} rows reach their number."
    return "Recommended: state what is required; no number was given, so nothing passed and nothing failed."


def _tier_sentences(report: Report) -> list[str]:
    """What the tiers buy, in words and with both baselines."""
    told, known = [], advised(report.rows)
    for promise, where in (
        ("tier", "With every fsync safe in a tier"),
        ("none", "In scratch (fsync promises nothing)"),
    ):
        rows = [r for r in report.rows if r.key["fsync"] == promise and r.key["tiers"] not in ("pfs", "ram")]
        # Recipes are many tests, and staging has two times: none of their rows is the best.
        rows = [r for r in rows if r.scale is None and not stage_section.is_staged(r)]
        best = max((r for r in rows if r.ratio), key=lambda r: r.median.value, default=None)
        if best and best is not known:
            told.append(f"{where}, {best.label} reaches {measured_words(best)}: {_both_ratios(best)}.")
        chain = [s for s in report.steps if s.after.key["fsync"] == promise and s.after.key["tiers"] != "ram"]
        chain = [s for s in chain if s.after.scale is None]
        if chain:
            told.append(
                f"Step by step from {chain[0].before.label}: " + ", ".join(map(_step_words, chain)) + "."
            )
    return told + _recipe_tiers(report) + peak_search.sentences(report.rows)


def _recipe_tiers(report: Report) -> list[str]:
    """Of recipes that ran on tiers: in how many tests each configuration is faster than the PFS alone."""
    told = []
    rows = [r for r in report.rows if r.scale is not None and r.key["tiers"] != "pfs" and r.ratio]
    for tiers in dict.fromkeys(r.key["tiers"] for r in rows):
        mine = [r for r in rows if r.key["tiers"] == tiers]
        faster = [r for r in mine if r.ratio and _shown_faster(r, r.ratio)]
        slower = [r for r in mine if limits.slower_than_pfs(r)]
        told.append(
            f"{TIER_NAMES.get(tiers, tiers)} against the PFS alone: faster in {len(faster)} of {len(mine)} "
            f"tests, slower in {len(slower)}, no more than 5 % slower or not shown to differ in the others."
        )
    return told


def _both_ratios(row: Row) -> str:
    assert row.ratio
    if row.ratio_without_sync is None or row.ratio == row.ratio_without_sync:
        return f"{ratio_words(row.ratio)} against the PFS"
    return (
        f"{ratio_words(row.ratio)} against the PFS with a sync after each write, "
        f"{ratio_words(row.ratio_without_sync)} against the PFS without"
    )


def _step_words(step: Step) -> str:
    """One link of the chain: what is reached and how many times the one before."""
    result = step_words(step)
    if result in ("faster", "slower"):
        return f"{step.after.label} {ratio_words(step.ratio)}"
    why = "" if result == "no difference shown" else f" ({result})"
    return f"{step.after.label} not shown to differ{why}"


def limit_sentences(report: Report) -> list[str]:
    """What makes measurements none, each with what to change."""
    machine = report.run.provenance.get("machine")
    memory = machine.get("memory_bytes") if isinstance(machine, dict) else None
    found = limits.limits(report.rows, memory if isinstance(memory, int) else None)
    return [f"{x.what}: {_names(list(x.rows))}. Change: {x.change}." for x in found]


_MOST_NAMED = 3


def _names(rows: list[Row]) -> str:
    """The first rows by name, and how many more."""
    named = [row_name(r) for r in rows[:_MOST_NAMED]]
    more = len(rows) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")


def failure_sentences(report: Report) -> list[str]:
    """Everything that should have passed and did not, and why; rows with the same reason in one sentence."""
    because: dict[str, list[Row]] = {}
    for row in report.rows:
        if row.verdict != PASS and not row.only_measured:
            because.setdefault(_verdict_and_reason(row), []).append(row)
    told = [f"{_names(rows)}: {reason}." for reason, rows in because.items()]
    return told + [f"{f.name} failed in {f.phase}: {f.reason}" for f in report.run.failures]


def dependence_sentences(report: Report) -> list[str]:
    """Rows with drift or serial correlation among their repetitions, and what follows from it."""
    return [f"{row_name(r)}: {told}." for r in report.rows if (told := r.independence.words())]


def assumption(report: Report) -> str | None:
    """What all intervals take for granted, and whether it could be looked at."""
    told = independence.assumed(len(r.values) for r in report.rows)
    return told and f"{told[0].upper()}{told[1:]}."


def _verdict_and_reason(row: Row) -> str:
    return row.reason if row.reason.startswith(row.verdict) else f"{row.verdict}: {row.reason}"


def row_name(row: Row) -> str:
    """The row with its fsync promise."""
    return f"{row.label} ({promise_words(row)})"


def promise_words(row: Row) -> str:
    """What an fsync promised in this row, in two or three words."""
    if row.key["mode"] == "scratch":
        return "scratch, promises nothing"
    return {"pfs": "on the PFS", "tier": "safe in a tier", "none": "nothing"}[row.key["fsync"]]


def provenance_facts(provenance: dict[str, Any]) -> list[tuple[str, str]]:
    """Provenance as flat lines: nested keys are joined, lists are listed."""
    facts: list[tuple[str, str]] = []
    for key, value in provenance.items():
        if isinstance(value, dict):
            facts += [(f"{key}: {name}", text) for name, text in provenance_facts(value)]
        elif isinstance(value, list):
            facts.append((key, ", ".join(str(v) for v in value)))
        elif key.endswith("_bytes") and isinstance(value, int):
            facts.append((key.removesuffix("_bytes"), size(value)))
        else:
            facts.append((key, str(value)))
    return facts
