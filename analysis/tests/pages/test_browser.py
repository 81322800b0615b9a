"""The pages in headless Chromium: no error, no broken image, no request, nothing cut, legible words."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import darshan_logs
import pytest
import synthetic
import trial_runs

from tierbench import trace
from tierbench.judge import compare
from tierbench.layout import html
from tierbench.pages import comparison_page, figures, report, report_record, trial_page, trial_rows
from tierbench.runs import samples
from tierbench.runs.run_folder import read_run
from tierbench.trace import drawings, page
from tierbench.trial import answer

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PROBE = """<script>
window.addEventListener("load", async () => {
  const urls = [...document.querySelectorAll("img")].map(i => i.src)
    .concat([...document.querySelectorAll("image")].map(i => i.href.baseVal));
  const broken = [];
  for (const url of urls) {
    const i = new Image(); i.src = url;
    try { await i.decode(); } catch (e) { broken.push(url.slice(0, 80)); }
  }
  parent.postMessage(JSON.stringify({broken, width: window.innerWidth, images: urls.length,
    requests: performance.getEntriesByType("resource").map(r => r.name).filter(n => !n.startsWith("data:")),
    overflow: document.documentElement.scrollWidth - window.innerWidth,
    cut: [...document.querySelectorAll(".wide")].filter(e => e.scrollWidth > e.clientWidth + 1).length,
    pictures: [...document.querySelectorAll("figure .wide")].filter(
      e => e.scrollWidth > e.clientWidth).length,
    smallest: Math.min(99, ...[...document.querySelectorAll("svg text")].filter(
      e => e.getClientRects().length).map(
      e => parseFloat(getComputedStyle(e).fontSize) * e.getScreenCTM().a).filter(size => size))}), "*");
});
</script>"""
TELLS = "what the probe saw: "
# Frames, since Chromium's own windows are at least 500 px wide and a phone is not.
FRAMES = """<body style="margin: 0"><script>
window.addEventListener("message", e => console.log("%s" + encodeURIComponent(e.data) + " "));
</script>%s"""
FRAME = '<iframe src="page.html" style="width: %dpx; height: 1000px; border: 0"></iframe>'


def probe(text: str, folder: Path, *widths: int) -> dict[int, dict[str, Any]]:
    """What a browser makes of a page in windows of these widths; all have its console."""
    if CHROMIUM is None:
        pytest.fail(
            "chromium is missing: the pages were NOT checked in a browser (ci/setup/packages-test.txt has it)"
        )
    path = folder / "frames.html"
    path.write_text(FRAMES % (TELLS, "".join(FRAME % width for width in widths)))
    (folder / "page.html").write_text(text.replace("</body>", PROBE + "</body>"))
    command = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--host-resolver-rules=MAP * ~NOTFOUND",
        "--enable-logging=stderr",
        "--remote-debugging-port=0",
        f"--window-size={sum(widths)},1000",
        f"--user-data-dir={folder / 'profile'}",
        path.as_uri(),
    ]
    console: list[str] = []
    seen: dict[int, dict[str, Any]] = {}
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as browser:
        assert browser.stderr is not None
        limit = threading.Timer(120, os.killpg, (browser.pid, signal.SIGKILL))
        limit.start()
        for line in browser.stderr:  # until the pages have told, however long that takes
            if TELLS in line:
                told: dict[str, Any] = json.loads(unquote(line.split(TELLS)[1].split()[0]))
                seen[told["width"]] = told | {"console": console}
            console += [line] if "CONSOLE" in line and TELLS not in line else []
            if len(seen) == len(widths):
                break
        else:
            pytest.fail("the browser ended before the page told anything")
        limit.cancel()
        os.killpg(browser.pid, signal.SIGKILL)
    return seen


@pytest.fixture(scope="module")
def traced_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of which one row has a log on either side, and another a damaged one."""
    run = synthetic.build(tmp_path_factory.mktemp("traced"), repetitions=5)
    for folder in run.glob("cases/bb-nvme-ram-persistent-async-tier-max-bandwidth-Y/*"):
        made = darshan_logs.strided()
        made.mounts = (("/", "ext4"),)
        made.modules.pop("POSIX")
        made.counters(
            "POSIX",
            "/scratch/pfs/ior.out",
            -1,
            WRITES=256,
            BYTES_WRITTEN=256 << 20,
            SEQ_WRITES=256,
            SIZE_WRITE_100K_1M=256,
            F_WRITE_TIME=6.0,
            F_META_TIME=0.1,
            F_OPEN_START_TIMESTAMP=0.1,
            F_OPEN_END_TIMESTAMP=0.2,
            F_WRITE_START_TIMESTAMP=0.2,
            F_WRITE_END_TIMESTAMP=3.0,
            F_CLOSE_START_TIMESTAMP=3.0,
            F_CLOSE_END_TIMESTAMP=3.1,
        )
        made.write(folder / "trace.darshan")
        made.metadata += "tierbench_side=storage\n"
        made.counters("POSIX", "/scratch/nvme/1", 0, WRITES=100, BYTES_WRITTEN=100 << 20, SEQ_WRITES=100)
        made.write(folder / "trace.storage.darshan")
    (run / "cases/bb-scratch-none-max-bandwidth-Y/1/x.darshan").write_bytes(b"<b>no log</b>")
    (run / "cases/bb-scratch-none-max-bandwidth-Y/2/x.darshan").write_bytes(b"<b>no log</b>")
    return run


def test_run_report_shows_its_traces(traced_run: Path) -> None:
    made = report_record.make(read_run(traced_run))
    assert [s.heading.split(": ")[1] for s in made.traces] == [
        "application side (trace.darshan)",
        "storage side (trace.storage.darshan)",
    ]
    proof = made.traces[0].evidence
    assert (
        proof is not None
        and "NOT PROVEN: no counters of the engine" in proof.sentence
        and made.traces[1].evidence is None
    )
    assert len(made.trace_errors) == 1 and "wrong magic" in made.trace_errors[0]
    told = json.loads(json.dumps(report_record.as_json(made)))["traces"]
    assert told[0]["proof"] == proof.sentence and told[0]["findings"][0]["title"] == "A straggler"


def whole(seen: dict[str, Any], images: int) -> None:
    """Nothing is missing or cut, and the words of figures can be read; a phone scrolls tables alone."""
    assert not seen["console"] and not seen["broken"] and not seen["requests"] and seen["images"] >= images
    assert seen["overflow"] <= 0 and (seen["cut"] == 0 or seen["width"] < 600)
    assert seen["pictures"] == 0 and seen["smallest"] >= (8.5 if seen["width"] > 600 else 7.5)


def test_pages_in_a_browser(traced_run: Path, tmp_path: Path) -> None:
    made = report_record.make(read_run(traced_run))
    text = report.as_html(made)
    assert "Not read: cases/bb-scratch" in text
    of_run = [d.title for d in figures.DRAWINGS if figures.draw(d, made.run, made.rows) is not None]
    assert len(of_run) > 5 and all(
        title in text for title in (*of_run, *(d.title for d in drawings.DRAWINGS))
    )
    for seen in probe(text, tmp_path, 1400, 1200, 800, 390).values():
        whole(seen, images=2)


def test_traces_in_a_browser(tmp_path: Path) -> None:
    log = darshan_logs.strided()
    log.counters("POSIX", "/x/<img src=http://example.invalid/a.png>" + "y" * 300, 0, OPENS=1, F_META_TIME=9)
    traces = trace.read([log.write(tmp_path / "a.darshan")])
    for seen in probe(page.as_html(traces, page.sections(traces)), tmp_path, 1200, 390).values():
        whole(seen, images=2)


def test_comparison_in_a_browser(tmp_path: Path) -> None:
    runs = [str(synthetic.build(tmp_path / name, 5, scale=scale)) for name, scale in (("a", 1.0), ("b", 0.8))]
    made = compare.compare(samples.read_all(runs), "run", 0.05, force=False)
    for seen in probe(comparison_page.as_html(made), tmp_path, 1200, 800, 390).values():
        whole(seen, images=0)


def test_a_trials_answer_in_a_browser(tmp_path: Path) -> None:
    folder = tmp_path / ("of a name without a blank " * 4).replace(" ", "-")
    folder.mkdir()
    runs = {"pfs": trial_runs.walls(5.79, 5.33, 6.27, 5.9, 5.6), "ram": trial_runs.walls(*trial_runs.FASTER)}
    made = answer.make(trial_runs.a_trial(folder, runs), folder)
    rows = trial_rows.make(made, folder, trial_rows.parse(["wall <= 4 s, the contract"]))
    for seen in probe(trial_page.as_html(made, folder, rows), tmp_path, 1200, 800, 390).values():
        whole(seen, images=0)


def test_folds_are_open_on_paper(tmp_path: Path) -> None:
    style = html.templates().get_template("report.css").render()
    pages = []
    for state in ("", "open"):
        fold = f"<details {state}><summary>x</summary><pre>{'x' * 60_000}</pre></details>"
        (tmp_path / "page.html").write_text(f"<style>{style}</style><body>{fold}")
        command = [
            str(CHROMIUM),
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={tmp_path / 'profile'}",
            f"--print-to-pdf={tmp_path / 'x.pdf'}",
            (tmp_path / "page.html").as_uri(),
        ]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        counts = re.findall(rb"/Count (\d+)", (tmp_path / "x.pdf").read_bytes())
        pages.append(max(int(count) for count in counts))
    assert pages[0] == pages[1] > 3


def test_the_probe_sees_what_is_wrong(tmp_path: Path) -> None:
    bad = "<body><img src='http://example.invalid/none.png'><script>nothing()</script>"
    bad += "<div class='wide' style='width:50px; overflow: auto'>" + "x" * 99 + "</div>"
    bad += "<svg viewBox='0 0 1000 10' width='100'><text font-size='10'>x</text></svg>"
    bad += "<div style='width:3000px'>x</div></body>"
    seen = probe(bad, tmp_path, 390)[390]
    assert seen["cut"] == 1 and seen["smallest"] == pytest.approx(1)
    assert seen["broken"] and seen["console"] and seen["requests"] and seen["overflow"] > 0
