"""The sample of docs/testing/analysis.md that sends results to a server sends what the page says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs" / "testing" / "analysis.md"
CHECK = """
import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import performance_function, sanity_function

@rfm.simple_test
class Sample(rfm.RunOnlyRegressionTest):
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = "echo 12.5"

    @sanity_function
    def done(self):
        return sn.assert_found("12.5", self.stdout)

    @performance_function("MiB/s")
    def bandwidth(self):
        return sn.extractsingle(r"(\\\\S+)", self.stdout, 1, float)
"""
SITE = """
site_configuration = {
    "systems": [{"name": "here", "hostnames": [".*"], "partitions": [{"name": "node", "scheduler": "local",
                 "launcher": "local", "environs": ["builtin"]}]}],
    "environments": [{"name": "builtin"}],
    SAMPLE
}
"""


def sample() -> str:
    """The one block of Python that is about httpjson."""
    blocks = [b.partition("```")[0] for b in PAGE.read_text().split("```python\n")[1:]]
    (found,) = [b for b in blocks if "httpjson" in b]
    return found


def test_a_server_gets_each_result(tmp_path: Path) -> None:
    got: list[dict[str, Any]] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    text = sample()
    assert "http://metrics.example.org:8080" in text
    here = text.replace("metrics.example.org:8080", f"127.0.0.1:{server.server_port}")
    (tmp_path / "site.py").write_text(SITE.replace("SAMPLE", here))
    (tmp_path / "check.py").write_text(CHECK.replace("\\\\", "\\"))
    program = str(Path(sys.executable).with_name("reframe"))
    command = [program, "-C", "site.py", "-c", "check.py", "-r", "--prefix", str(tmp_path)]
    environment = {**os.environ, "HOME": str(tmp_path), "RFM_SQLITE_DB_FILE": str(tmp_path / "results.db")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    server.shutdown()
    server.server_close()
    assert done.returncode == 0, done.stdout + done.stderr
    (result,) = got
    assert (result["check_perf_bandwidth_value"], result["check_perf_bandwidth_unit"]) == (12.5, "MiB/s")
    assert (result["suite"], result["check_name"], result["check_system"]) == ("tierbench", "Sample", "here")
    assert "check_metrics" not in result
