"""Logs as one offline HTML page, Markdown, CSV and Parquet, and as sections of a run's report."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from markupsafe import Markup

from tierbench import __version__
from tierbench.base.atomic_write import replace_all
from tierbench.base.text import counted, duration, plain, shown, size
from tierbench.layout import canvas, html, terms
from tierbench.trace import drawings, latency
from tierbench.trace.drawings import Drawing
from tierbench.trace.evidence import Evidence
from tierbench.trace.findings import Finding, Slowest, find, slowest
from tierbench.trace.frames import Traces
from tierbench.trace.latency import Flushes, Latency

if TYPE_CHECKING:
    import jinja2
    import polars

MOST_LOGS = 20  # on one page; frames and exports hold them all


@dataclass(frozen=True)
class Section:
    """What a page says about one log; `drawn` are figures as SVG."""

    label: str
    heading: str
    facts: list[tuple[str, str]]
    findings: list[Finding]
    slowest: Slowest | None
    places: list[dict[str, str]]
    drawn: list[tuple[Drawing, str]] = field(default_factory=list)
    evidence: Evidence | None = None
    folded: bool = False
    latencies: list[Latency] = field(default_factory=list)


def section(
    traces: Traces,
    label: str,
    salt: str,
    heading: str = "",
    evidence: Evidence | None = None,
    *,
    folded: bool = False,
    periods: Flushes | None = None,
) -> Section:
    """The section of one log; `salt` keeps the ids of figures on one page apart, `periods` are of flushes."""
    mine = traces.of(label)
    drawn: list[tuple[Drawing, str]] = []
    for index, drawing in enumerate(drawings.DRAWINGS):
        figure = drawings.draw(drawing, mine)
        if figure:
            # Our own SVG: matplotlib has escaped its texts.
            drawn.append((drawing, Markup(canvas.both(figure, f"{salt}-{index}", drawing.title))))  # noqa: S704
    if figure := latency.draw(mine, periods):
        made = canvas.both(figure, f"{salt}-latency", latency.DRAWING.title)
        drawn.append((latency.DRAWING, Markup(made)))  # noqa: S704
    about = (label, heading or label, _facts(mine), find(mine), slowest(mine), _places(mine))
    return Section(*about, drawn, evidence, folded, latency.table(mine, periods))


def _facts(mine: Traces) -> list[tuple[str, str]]:
    job = mine.job.iloc[0]
    below = mine.files[mine.files["module"].isin(["POSIX", "STDIO"])]
    facts = [
        ("program", str(job["executable"])),
        ("side", str(job["side"])),
        ("started", f"{job['start']:%Y-%m-%d %H:%M:%S} UTC, ran {job['run_s']:.4g} s"),
        ("processes", f"{job['nprocs']:,}"),
        ("moved", _moved(below)),
        ("modules", f"{job['modules']} (log version {job['log_version']})"),
    ]
    if not job["complete"]:
        facts.append(("INCOMPLETE", "records are missing: the program died, or the runtime's memory ran out"))
    if job["problems"]:
        facts.append(("not shown", str(job["problems"])))
    return facts


def _moved(files: pd.DataFrame) -> str:
    written, read = size(int(files["bytes_written"].sum())), size(int(files["bytes_read"].sum()))
    return f"{written} written, {read} read, {counted(files['file'].nunique(), 'file')}"


def _places(mine: Traces) -> list[dict[str, str]]:
    return [
        {
            "place": str(line["place"]),
            "files": f"{line['files']:,}",
            "written": _size(line["bytes_written"]),
            "read": _size(line["bytes_read"]),
            "seconds": _seconds(line[["read_s", "write_s", "meta_s"]].sum()),
        }
        for _, line in mine.tiers.iterrows()
    ]


def _seconds(spent: float) -> str:
    return f"{spent:.3g}" if spent >= 0.001 or not spent else "< 0.001"


def _size(count: Any) -> str:
    return "not counted" if pd.isna(count) else size(int(count))


def templates() -> jinja2.Environment:
    """Those of every page, with what the sections of traces need."""
    made = html.templates()
    made.globals |= {"slowest_words": slowest_words, "duration": duration}
    return made


def sections(traces: Traces) -> list[Section]:
    """The sections of the first `MOST_LOGS` logs."""
    labels = [str(label) for label in traces.job["log"].head(MOST_LOGS)]
    sides = {
        side: traces.job["log"][traces.job["side"] == side].astype(str) for side in ("application", "storage")
    }
    pair = [traces.of(logs.iloc[0]) if len(logs) == 1 else None for logs in sides.values()]
    periods = latency.flushes(*pair)  # of one job's two sides
    asked = set(sides["application"])
    return [
        section(traces, label, f"log{i}", periods=periods if label in asked else None)
        for i, label in enumerate(labels)
    ]


def as_html(traces: Traces, made: list[Section]) -> str:
    """The whole page; it requests nothing from anywhere."""
    left_out = len(traces.job) - len(made)
    template = templates().get_template("trace.html.j2")
    about = {"sections": made, "errors": traces.errors, "left_out": left_out, "version": __version__}
    return terms.page(template, **about)


def _latency_lines(latencies: list[Latency]) -> list[str]:
    if not latencies:
        return []
    made = [
        "",
        "| accesses | when | number | p50 | p99 | p99.9 | maximum |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for one in latencies:
        times = (one.p50_s, one.p99_s, one.p999_s, one.maximum_s)
        made.append(
            f"| {one.access}s | {one.when} | {one.count:,} | " + " | ".join(map(duration, times)) + " |"
        )
    return made


def as_markdown(traces: Traces, made: list[Section]) -> str:
    """The same in words and tables, without figures."""
    lines = ["# Traces", ""]
    lines += [f"- not read: {plain(e)}" for e in traces.errors]
    for s in made:
        lines += [f"## {plain(s.heading)}", ""]
        lines += [f"- {name}: {plain(value)}" for name, value in s.facts]
        lines += [f"- slowest: {plain(words)}" for words in [slowest_words(s)] if words]
        lines += ["", "| place | files | written | read | seconds |", "|---|---:|---:|---:|---:|"]
        lines += ["| " + " | ".join(plain(v) for v in place.values()) + " |" for place in s.places]
        lines += _latency_lines(s.latencies)
        lines += (
            ["", "| finding | measured | threshold | remedy |", "|---|---|---|---|"] if s.findings else [""]
        )
        for f in s.findings:
            lines.append("| " + " | ".join(map(plain, (f.title, f.measured, f.threshold, f.remedy))) + " |")
        lines.append("")
    return "\n".join(lines)


def as_text(traces: Traces) -> str:
    """A few lines a log, for a terminal."""
    lines = []
    for label in traces.job["log"].astype(str):
        mine = traces.of(label)
        lines.append(shown(label))
        lines += [f"  {name}: {shown(value)}" for name, value in _facts(mine)]
        for p in _places(mine):
            moved = f"{p['written']} written, {p['read']} read, {p['seconds']} s"
            files = f"{p['files']} file{'s' * (p['files'] != '1')}"
            lines.append(f"  {shown(p['place'])}: {files}, {moved}")
        worst = slowest(mine)
        lines += [f"  slowest: {shown(_slowest(worst))}"] if worst else []
        for f in find(mine):
            told = f"  {f.title}: {f.measured} (threshold: {f.threshold}). {f.remedy}"
            lines.append(shown(told) + (f" Files: {shown(', '.join(f.files))}" if f.files else ""))
    return "\n".join(lines)


def slowest_words(made: Section) -> str:
    """The slowest rank and its file, named."""
    return _slowest(made.slowest) if made.slowest else ""


def _slowest(s: Slowest) -> str:
    where = f", most of it in {s.file}" if s.file else ""
    return f"rank {s.rank}: {s.busy_s:.3g} s in I/O against {s.typical_s:.3g} s of {s.compared}{where}"


def exports(traces: Traces) -> dict[str, bytes]:
    """Every frame as NAME.csv and NAME.parquet."""
    import polars

    files: dict[str, bytes] = {}
    for name, frame in traces.frames().items():
        columns = {c: _column(frame[c]) for c in frame}
        table = polars.DataFrame(columns)
        csv, parquet = io.BytesIO(), io.BytesIO()
        table.write_csv(csv)
        table.write_parquet(parquet)
        files |= {f"{name}.csv": csv.getvalue(), f"{name}.parquet": parquet.getvalue()}
    return files


def _column(values: pd.Series) -> polars.Series:
    """Texts are stored once; missing counts stay missing."""
    import polars

    if isinstance(values.dtype, pd.CategoricalDtype):
        texts = polars.Series([str(c) for c in values.cat.categories], dtype=polars.String)
        codes = polars.Series(values.cat.codes.to_numpy().astype("uint32"))
        return texts.gather(codes) if len(texts) else polars.Series([], dtype=polars.String)
    if isinstance(values.dtype, pd.Int64Dtype):
        counts = polars.Series(values.fillna(0).to_numpy(dtype="int64"))
        return polars.select(polars.when(polars.Series(values.notna().to_numpy())).then(counts)).to_series()
    if values.dtype == object:
        return polars.Series([str(v) for v in values], dtype=polars.String)
    if isinstance(values.dtype, pd.DatetimeTZDtype):
        micros = polars.Series(values.dt.tz_convert(None).to_numpy().astype("datetime64[us]"))
        return micros.dt.replace_time_zone("UTC")
    return (
        polars.Series(values.to_numpy()).fill_nan(None)
        if values.dtype == float
        else polars.Series(values.to_numpy())
    )


def write_all(traces: Traces, folder: Path) -> list[Path]:
    """Write trace.html, trace.md and the exports into a folder; returns their paths."""
    made = sections(traces)
    files = {"trace.html": as_html(traces, made).encode(), "trace.md": as_markdown(traces, made).encode()}
    files |= exports(traces)
    replace_all(folder, files)
    return [folder / name for name in files]
