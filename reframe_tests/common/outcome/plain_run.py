"""What a plain `reframe` line leaves: its report and ours in the run folder, when the run came to its end.

Programs that start ReFrame name the run folder, and report themselves (ci/run-webinar). Of a run that was
interrupted ReFrame writes no report, so none is left, and `results/latest` stays as it was.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from reframe.core.logging import log_files
from reframe.core.runtime import runtime

REPORT = "from tierbench.cli import main; raise SystemExit(main())"


def _reports() -> list[Path]:
    """All reports where ReFrame writes them, the newest first."""
    place = Path(os.path.expandvars(str(runtime().get_option("general/0/report_file")))).absolute()
    name = re.escape(place.name).replace(re.escape("{sessionid}"), r"\d+")
    try:
        found = [p for p in place.parent.iterdir() if re.fullmatch(name, p.name) and p.is_file()]
        return sorted(found, key=lambda p: p.stat().st_mtime, reverse=True)
    except OSError:
        return []


def own_report(logs: list[str]) -> Path | None:
    """The report of the session that wrote these logs, which no other session has."""
    for report in _reports():
        try:
            info = json.loads(report.read_text())["session_info"]
        except (OSError, ValueError, KeyError, TypeError):
            continue  # of another program, or removed
        if logs and info.get("log_files") == logs:
            return report
    return None


def _leave(run: Path, logs: list[str]) -> None:
    report = own_report(logs)
    if not report:
        return
    try:
        shutil.copy(report, run / "reframe.json")
        done = subprocess.run([sys.executable, "-c", REPORT, "report", str(run)], check=False)
        if done.returncode == 0:
            _move_latest(run)
    except OSError as e:
        why = f"{e.filename2 or e.filename}: {e.strerror}"
        print(f"tierbench: {why}; the report of {run.name} is not whole, or not the latest", file=sys.stderr)


def _move_latest(run: Path) -> None:
    """In one step, so that there is always one."""
    link = run.parent.parent / "latest"
    made = link.with_name(f".latest-{os.getpid()}")
    made.symlink_to(run.relative_to(link.parent))
    try:
        made.replace(link)
    except OSError:
        made.unlink()
        raise


def report_at_the_end(run: Path) -> None:
    """To be called once in the process of ReFrame, when the run folder is there."""
    atexit.register(_leave, run, log_files())
