"""The suite's modules as ReFrame finds them: beside each other, in no package."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
