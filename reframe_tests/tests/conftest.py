"""The suite's modules as ReFrame finds them, in no package; and analysis's made-up logs."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "reframe_tests"), str(ROOT / "analysis" / "tests")]
