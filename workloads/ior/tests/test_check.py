"""tb-ior finds wrong data."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from driver import Ior


@pytest.mark.parametrize("at", [0, 70_001, 131_071])
def test_flipped_byte(ior: Ior, at: int) -> None:
    ior.run("-w -k -F -G 42 -t 4k -b 128k")
    ior.run("-r -R -k -F -G 42 -t 4k -b 128k")
    victim = ior.of_rank(1)
    data = bytearray(victim.read_bytes())
    data[at] ^= 1
    victim.write_bytes(data)
    for check in ("-r -R", "-W -q"):
        done = ior.run(f"{check} -k -F -G 42 -t 4k -b 128k", status=3 if "-q" in check else 1)
        assert f"{victim}: wrong data at offset {at - at % 8}" in done.stderr


def test_prefill(ior: Ior) -> None:
    """Larger writes, all of which -z then overwrites: nothing of the filling is left."""
    for shape in ("-F", "-s 3"):
        ior.run(f"-w -r -R -z -t 4k -b 64k {shape} --randomPrefill=32k")
    strace = ("strace", "-f", "-e", "trace=write,pwrite64", "-o", "trace")
    ior.run("-w -z -t 4k -b 64k --randomPrefill=32k", ranks=1, before=strace)
    sizes = Counter(re.findall(r"= (4096|32768)$", (ior.folder / "trace").read_text(), re.M))
    assert sizes == {"32768": 2, "4096": 16}


def test_other_signature(ior: Ior) -> None:
    ior.run("-w -k -G 42 -t 4k -b 128k")
    done = ior.run("-r -R -k -G 43 -t 4k -b 128k", status=1)
    assert "Incorrect data on read (64 errors found)" in done.stderr
