#!/usr/bin/env python3
"""`tierctl wait` by the name that Summit's job scripts know, with the same options."""

import os
import sys
from pathlib import Path

tierctl = Path(__file__).resolve().with_name("tierctl")
os.execv(tierctl, ["tierctl", "wait", *sys.argv[1:]])  # noqa: S606 - it becomes that program
