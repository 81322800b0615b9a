"""ReFrame's report of a session has every number of a test, for `tierbench compare`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from test_suite import REFRAME

from common.sites.tiers import ROOT
from tierbench.runs import samples


def test_a_report_has_the_numbers_of_all_accesses(tmp_path: Path) -> None:
    """Only the first was there: a read that had become slower was compared with nothing."""
    if not (ROOT / "build" / "bin" / "tierctl").exists():
        pytest.skip("needs `make build`")
    run, report = tmp_path / "run", tmp_path / "reframe.json"
    line: list[str | Path] = [REFRAME, "-C", "configs/sites/local.py", "--system=local", "-c"]
    line += ["reframe_tests/cfs.py", "-r", "-S", "scale=smoke", "-P", "tiers=pfs", "-n", "cfs-iops"]
    line += ["--prefix", tmp_path / "reframe", "--report-file", report]
    environment = {**os.environ, "TIERBENCH_RUN_DIR": str(run)}
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout[-4000:]
    cases = [json.loads(f.read_text()) for f in run.glob("cases/*/*/case.json")]
    said = {c["test"]: (c["value"], c["unit"], c["ranks"], c["bytes"]) for c in cases}
    read = samples.read(str(report))
    found = {r.test: (r.value, r.unit, r.ranks, r.bytes) for r in read.itertuples()}
    assert found == said and said.keys() == {"cfs-iops-write", "cfs-iops-read"}
