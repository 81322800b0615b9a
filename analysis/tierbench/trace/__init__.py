"""Darshan logs as pandas frames, findings in words, pages and exports.

    traces = tierbench.trace.read(["app.darshan", "storage.darshan"], places={"/scratch/nvme": "nvme"})
    traces.files.sort_values("bytes_written")

`frames` documents every column; `log` reads one log, `findings` says what is wrong with the accesses and what
to do about it, `drawings` and `page` make the report, `exports` writes Markdown, CSV and Parquet.
"""

from tierbench.trace.findings import Finding, find
from tierbench.trace.frames import Traces, read
from tierbench.trace.log import Log, TraceError, read_log, read_logs

__all__ = ["Finding", "Log", "TraceError", "Traces", "find", "read", "read_log", "read_logs"]
