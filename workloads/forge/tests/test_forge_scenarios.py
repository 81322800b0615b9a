"""Scenario files that tb-forge refuses: one line with place, value and what is allowed, exit status 2."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from forwarding_runs import Forge, Json, flat, phases


@pytest.fixture
def forge(folder: Path) -> Forge:
    return Forge(folder)


def with_pattern(**other: object) -> Json:
    """The write is the second pattern."""
    what = phases(0, "write")
    what["phases"][0]["patterns"][1].update(other)
    return what


def without(what: Json, key: str) -> Json:
    return {name: value for name, value in what.items() if name != key}


PATTERN = "phases[0].patterns[1]"
WRONG: list[tuple[Json | str, str]] = [
    ("{", "scenario.json:1: "),
    ('{"forwarders": 0, "forwarders": 1}', "each key once"),
    ("[]", "[]; allowed: an object with forwarders and phases"),
    (without(phases(0, "write"), "forwarders"), "forwarders: is missing; allowed: a whole number from 0"),
    (phases(-1, "write"), "forwarders: -1; allowed: a whole number from 0"),
    (phases(1, "write"), "forwarders: 1; allowed: 0 to 0, as there are 1 ranks"),
    ({**phases(0, "write"), "extra": 5}, "extra: 5; allowed: forwarders, handlers"),
    ({**phases(0, "write"), "phases": []}, "phases: []; allowed: a list of 1 to 1000 phases"),
    ({**phases(0, "write"), "handlers": 1.5}, "handlers: 1.5; allowed: a whole number"),
    (with_pattern(operation="erase"), f'{PATTERN}.operation: "erase"; allowed: open, close, write or read'),
    (with_pattern(request_size=0), f"{PATTERN}.request_size: 0; allowed: a whole number from 1"),
    (with_pattern(total_size="1g"), f'{PATTERN}.total_size: "1g"; allowed: a whole number'),
    (with_pattern(number_of_files="two"), f'{PATTERN}.number_of_files: "two"; allowed: individual or shared'),
    (with_pattern(number_of_files="individual"), "allowed: shared, as the file was opened"),
    (with_pattern(spatiality="random"), f'{PATTERN}.spatiality: "random"; allowed: contiguous or strided'),
    (with_pattern(direct_io=2), f"{PATTERN}.direct_io: 2; allowed: a whole number from 0 to 1"),
    (with_pattern(path="g"), f'{PATTERN}.path: "g"; allowed: the path of the file that is open'),
    (with_pattern(operation="open"), "allowed: close, write or read, as a file is open here"),
    (without(flat(0), "path"), "path: is missing; allowed: text of 1 to 4000 bytes"),
    (flat(0) | {"operations": "erase"}, 'operations: "erase"; allowed: text with write or read'),
]


@pytest.mark.parametrize(("what", "words"), WRONG, ids=[words for _, words in WRONG])
def test_a_wrong_file_is_refused(forge: Forge, what: Json | str, words: str) -> None:
    forge.scenario(what)
    done = forge.run(f"scenario.json {forge.folder}", 1, status=2)
    assert done.stderr.startswith("tb-forge: scenario.json:")
    assert done.stderr.count("\n") == 1
    assert words in done.stderr
    assert (done.stdout, forge.names()) == ("", ["scenario.json"])


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "one or two words are expected, SCENARIO.json and OUTPUT_DIR; usage: "),
        ("nowhere.json", "nowhere.json: No such file or directory"),
        ("scenario.json nowhere", "OUTPUT_DIR: 'nowhere' is not allowed, expected a directory that exists"),
        ("scenario.json --in-flight 0", "--in-flight: '0' is not allowed"),
    ],
)
def test_a_wrong_line_is_refused(forge: Forge, line: str, words: str) -> None:
    forge.scenario(phases(0, "write"))
    assert words in forge.run(line, 1, status=2).stderr
    assert forge.names() == ["scenario.json"]


def test_all_ranks_refuse_together(forge: Forge) -> None:
    forge.scenario(json.dumps(phases(3, "write")))
    done = forge.run("scenario.json", 3, status=2)
    assert "forwarders: 3; allowed: 0 to 2, as there are 3 ranks" in done.stderr
