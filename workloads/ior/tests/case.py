"""What tb-ior's tests share: captured output, and the bytes that a rank writes."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"


def expected(signature: int, owner: int, transfer: int) -> bytes:
    """One transfer of `owner`: its rank in the upper half of each word, signature + index in the lower."""
    return b"".join(struct.pack("<Q", (owner << 32) + signature + i) for i in range(transfer // 8))


def keys(document: Any) -> Any:
    """Names and types of a JSON document, in order."""
    if isinstance(document, dict):
        return [(k, keys(v)) for k, v in document.items()]
    return [keys(v) for v in document] if isinstance(document, list) else type(document).__name__
