"""Values of options that several subcommands read, and the option that they share."""

from __future__ import annotations

import argparse
from typing import TypeAlias

from tierbench import manual

Commands: TypeAlias = "argparse._SubParsersAction[manual.Parser]"


def count(text: str) -> int:
    """A number of runs or metrics."""
    if not text.isdigit() or not 1 <= int(text) <= 1000:
        raise argparse.ArgumentTypeError(f"{text!r}; allowed: a whole number from 1 to 1000")
    return int(text)


def percent(text: str) -> float:
    """A share; `5` and `5%` are 0.05."""
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = -1.0
    if not 0 <= value < 1000:
        raise argparse.ArgumentTypeError(f"{text!r}; allowed: a number from 0 to 1000")
    return value / 100


def above_zero(text: str) -> float:
    """A share that is neither nothing nor all."""
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = -1.0
    if not 0 < value < 100:
        raise argparse.ArgumentTypeError(f"{text!r}; allowed: a number above 0 and below 100")
    return value / 100


def add_threshold(parser: argparse.ArgumentParser) -> None:
    """The change that compare, history and power pass over."""
    parser.add_argument(
        "--threshold",
        type=percent,
        default=0.05,
        metavar="PERCENT",
        help="smaller changes of the median are no news, 0 to 1000 (default: 5)",
    )
