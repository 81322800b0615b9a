"""Sizes in bytes: the units, and sizes as IOR and mdtest take them."""

from __future__ import annotations

import re

KIB, MIB, GIB, TIB = (1 << shift for shift in (10, 20, 30, 40))
UNITS = {"": 1, "k": KIB, "m": MIB, "g": GIB, "t": TIB}


def of_option(text: str) -> int | None:
    """Bytes of `64m`, `4K` or `47008`; None of what is no size."""
    match = re.fullmatch(r"([0-9]+)([kmgt]?)", text.lower())
    return int(match[1]) * UNITS[match[2]] if match else None
