"""emulation.time, as FORGE wrote it on two clients and one I/O node."""

from __future__ import annotations

from pathlib import Path

import pytest

from tierbench.outputs import ForgeTransfer, OutputError, parse_forge, read_forge

FILE = Path(__file__).parents[1] / "data" / "forge" / "emulation.time"
TEXT = FILE.read_text()


def test_the_one_write() -> None:
    found = read_forge(FILE)
    assert (found.io_nodes, found.clients) == (1, 2)
    assert found.transfers == (
        ForgeTransfer("write", "shared", "strided", False, 1, 1024, 32, 0.59996, 0.65491, 32.0, 48.86163),
    )


def test_the_clients_of_a_debug_build_are_no_fields() -> None:
    more = TEXT.replace(" min:", " rank 000: 0.59996 s\n rank 001: 0.65491 s\n min:")
    assert parse_forge(more, "t").transfers == parse_forge(TEXT, "t").transfers


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (TEXT, "", "t: does not begin with the numbers of forwarders and clients"),
        (" clients: 2\n", "", "does not begin with the numbers"),
        (" clients: 2\n", " clients: two\n", "t:7: clients is 'two', expected a whole number"),
        (" operation:", " What:", "holds no operation after its head"),
        (" operation: write", " operation: erase", "erase', expected open, close, read, write"),
        (" spatiality: strided\n", "", "t:18: write has operation, layout, odirect"),
        (" bandwidth: 48.86163 MB/s\n", "", "write has operation"),
        (" bandwidth: 48.86163 MB/s\n", " bandwidth: inf MB/s\n", "bandwidth is 'inf', expected a number"),
        (" bandwidth: 48.86163 MB/s\n", " bandwidth: 48.86163 KB/s\n", "expected MB/s at its end"),
        (" layout: shared\n", " layout shared\n", "' layout shared' is no line of FORGE"),
    ],
)
def test_what_is_refused(old: str, new: str, told: str) -> None:
    with pytest.raises(OutputError) as refused:
        parse_forge(TEXT.replace(old, new), "t")
    assert told in str(refused.value)
