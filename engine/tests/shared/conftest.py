"""The nodes are those of the integration tests, and their networks those of the tests of the network."""

import sys
from pathlib import Path

for folder in ("integration", "net"):
    sys.path.insert(0, str(Path(__file__).parents[1] / folder))
