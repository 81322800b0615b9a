"""Single accesses of a file, as DXT writes them down."""

from __future__ import annotations

import numpy as np
import pandas as pd


def covered_bytes(segments: pd.DataFrame) -> int:
    """Bytes of a file that at least one segment covers."""
    starts = segments["offset"].to_numpy()
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], (segments["offset"] + segments["length"]).to_numpy()[order]
    before = np.maximum.accumulate(np.concatenate([[0], ends]))[:-1]
    return int(np.maximum(ends - np.maximum(starts, before), 0).sum())
