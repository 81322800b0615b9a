"""ReFrame with its own temporary files in a folder: `python -P -m tierbench.site.session FOLDER OPTIONS...`.

Before it reads an option, ReFrame begins a log where temporary files are, and leaves it there. What it starts
keeps the TMPDIR of the user: this is told to Python alone.
"""

from __future__ import annotations

import sys
import tempfile

from reframe.frontend import cli


def main() -> int | None:
    """ReFrame's exit status."""
    tempfile.tempdir = sys.argv.pop(1)
    return cli.main()  # type: ignore[no-any-return]


if __name__ == "__main__":
    sys.exit(main())
