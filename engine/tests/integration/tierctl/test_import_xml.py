"""Requirements in XML as rules of the user-defined policy: what they become, where files go, and what is refused."""

from __future__ import annotations

import fnmatch
import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from instances import BIN, SOURCE, Instance

TIERCTL = BIN / "tierctl"
BASE = SOURCE / "configs" / "hermes" / "webinar-2.2.conf"  # ram, tier1, tier2, tier3
MANY = 'pattern="{rank}" rank="1111-88888888" tiers="ram"'  # ten rules and more


def imported(*words: str | Path) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([TIERCTL, "import-hermes", *words], capture_output=True, text=True, timeout=60)
    if "built without libexpat" in done.stderr:
        pytest.skip("this tierctl was built without libexpat")
    return done


def document(folder: Path, *requirements: str) -> Path:
    file = folder / "requirements.xml"
    lines = "".join(f"  <requirement {r}/>\n" for r in requirements)
    file.write_text(f'<?xml version="1.0"?>\n<requirements>\n{lines}</requirements>\n')
    return file


def rules(folder: Path, *requirements: str) -> list[dict[str, object]]:
    done = imported(document(folder, *requirements))
    assert done.returncode == 0, done.stderr
    found: list[dict[str, object]] = yaml.safe_load(done.stdout)["placement"]["rules"]
    return found


def patterns(folder: Path, requirement: str) -> list[str]:
    return [str(rule["pattern"]) for rule in rules(folder, requirement)]


def test_the_example_of_the_page_is_read(tmp_path: Path) -> None:
    page = (SOURCE / "docs" / "hermes.md").read_text()
    xml = re.search(r"```xml\n(.*?)```", page, re.DOTALL)
    written = re.search(r"```yaml\n(placement:.*?)```", page, re.DOTALL)
    assert xml and written
    file = tmp_path / "example.xml"
    file.write_text(xml[1])
    done = imported(file)
    assert done.returncode == 0, done.stderr
    assert done.stdout == written[1]


def test_all_that_a_requirement_says_is_in_its_rule(tmp_path: Path) -> None:
    found = rules(tmp_path, 'pattern="*.log" size_at_least="4KiB" size_at_most="1MiB" tiers="ram  tier2"')
    expected = {
        "pattern": "*.log",
        "size_at_least": "4KiB",
        "size_at_most": "1MiB",
        "tiers": ["ram", "tier2"],
    }
    assert found == [expected]


@pytest.mark.parametrize("name", ["/pfs/a", "/pfs/it's [1]*?.h5", "/pfs/back\\slash", "/pfs/ä: {x}"])
def test_a_file_is_itself_and_no_other(tmp_path: Path, name: str) -> None:
    written = patterns(tmp_path, f'file="{name}" tiers="ram"')[0]
    assert re.sub(r"\\(.)", r"\1", written) == name
    assert all(written[m.start() - 1] == "\\" for m in re.finditer(r"[*?\[]", written))


@pytest.mark.parametrize(
    ("ranks", "digits"),
    [
        ("0-63", 8),
        ("7", 3),
        ("0-0", 1),
        ("5-5", 2),
        ("9-10", 2),
        ("17-342", 3),
        ("0-999", 3),
        ("0-7", 2),
        ("120-198", 3),
    ],
)
def test_ranks_are_these_and_no_others(tmp_path: Path, ranks: str, digits: int) -> None:
    first, _, last = ranks.partition("-")
    made = patterns(tmp_path, f'pattern="out.{{rank:{digits}}}" rank="{ranks}" tiers="ram"')
    matched = [n for n in range(1000) if any(fnmatch.fnmatchcase(f"out.{n:0{digits}}", p) for p in made)]
    assert matched == list(range(int(first), int(last or first) + 1))


@pytest.mark.parametrize("ranks", ["0-9", "7-12", "0-123", "98-101", "1000-1099"])
def test_ranks_without_zeros_in_front(tmp_path: Path, ranks: str) -> None:
    first, last = (int(x) for x in ranks.split("-"))
    made = patterns(tmp_path, f'pattern="out.{{rank}}" rank="{ranks}" tiers="ram"')
    matched = [n for n in range(2000) if any(fnmatch.fnmatchcase(f"out.{n}", p) for p in made)]
    assert matched == list(range(first, last + 1))


def test_with_a_conf_they_are_a_whole_configuration(tmp_path: Path) -> None:
    file, out = document(tmp_path, 'pattern="*" tiers="tier2"'), tmp_path / "out.yaml"
    done = imported(BASE, file, "--pfs", str(tmp_path), "-o", out)
    assert done.returncode == 0, done.stderr
    made = yaml.safe_load(out.read_text())
    assert made["placement"] == {"policy": "user-defined", "rules": [{"pattern": "*", "tiers": ["tier2"]}]}
    assert [tier["name"] for tier in made["tiers"]] == ["ram", "tier1", "tier2", "tier3"]


def test_files_go_where_the_requirement_says(tmp_path: Path) -> None:
    file = document(tmp_path, 'pattern="*/out.{rank:4}" rank="2-3" tiers="nvme"', 'pattern="*" tiers="ram"')
    done = imported(file)
    assert done.returncode == 0, done.stderr
    with Instance(tiers=("ram", "nvme"), more=done.stdout) as made:
        made.start()
        for rank in range(4):
            program = made.program(file=made.root / "pfs" / f"out.{rank:04}")
            assert program.ask("write 0 hello") == "5"
        status = json.loads(made.ctl("status", "--json", "-i", made.name).stdout)
        assert {t["name"]: t["writes"] for t in status["tiers"]} == {"ram": 2, "nvme": 2}


@pytest.mark.parametrize(
    ("requirement", "told"),
    [
        ('pattern="*" tiers="bb"', '<requirement> tiers="bb"; allowed: ram, tier1, tier2, tier3'),
        ('pattern="*" tiers=" "', "<requirement> tiers: is missing; allowed: names of tiers"),
        ('pattern="*" tier="ram"', '<requirement> tier="ram"; allowed: file, pattern, rank, size_at_least'),
        (
            'pattern="*" file="/a" tiers="ram"',
            "<requirement>: has both of file and pattern; allowed: one of them",
        ),
        ('tiers="ram"', "<requirement>: has none of file and pattern; allowed: one of them"),
        ('file="a" tiers="ram"', '<requirement> file="a"; allowed: an absolute path'),
        ('pattern="a{rank}" tiers="ram"', 'pattern="a{rank}" rank="": allowed: rank and one {rank}'),
        ('pattern="a" rank="1" tiers="ram"', 'pattern="a" rank="1": allowed: rank and one {rank}'),
        ('pattern="{rank}{rank}" rank="1" tiers="ram"', "allowed: rank and one {rank}"),
        ('pattern="{rank:9}" rank="1" tiers="ram"', "allowed: rank and one {rank}"),
        ('pattern="{rank:2}" rank="5-100" tiers="ram"', "allowed: ranks that have as many digits"),
        ('pattern="{rank}" rank="9-5" tiers="ram"', 'rank="9-5": allowed: a rank of 0 to 99999999'),
        ('pattern="{rank}" rank="-1" tiers="ram"', 'rank="-1": allowed: a rank of 0 to 99999999'),
        (MANY + "/><requirement " + MANY, "makes more than 16 rules; allowed: 16"),
        ('pattern="*" size_at_least="1MB" tiers="ram"', '<requirement> size_at_least="1MB"; allowed:'),
        (
            'pattern="*" size_at_least="2MiB" size_at_most="1MiB" tiers="ram"',
            'size_at_most="1MiB"; allowed: size_at_least or more',
        ),
        ('pattern="a&#10;b" tiers="ram"', 'pattern="a?b"; allowed: 1 to 255 characters'),
        (f'pattern="{"x" * 300}" tiers="ram"', "allowed: 1 to 255 characters"),
        ('pattern="*" tiers="ram" pattern="*"', "is no well-formed XML: duplicate attribute"),
        (
            'pattern="*" tiers="ram"><b/></requirement><requirement',
            "<b>: is no element here; allowed: none in",
        ),
        ('pattern="*" tiers="ram"/>text<requirement', "text: is text; allowed: elements"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, requirement: str, told: str) -> None:
    out = tmp_path / "out.yaml"
    done = imported(BASE, document(tmp_path, requirement), "-o", out)
    assert done.returncode == 2
    assert told in done.stderr
    assert re.match(rf"tierctl: {tmp_path}/requirements.xml:3: ", done.stderr)
    assert done.stderr.count("\n") == 1
    assert not out.exists()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("<schema/>", ":1: <schema>: is no element here; allowed: <requirements>"),
        ("<requirements x='1'/>", ':1: <requirements> x="1"; allowed: no attribute'),
        ("<requirements/>", ":1: <requirements>: is empty; allowed: at least one <requirement>"),
        ("<requirements>", ":1: is no well-formed XML: no element found"),
        (
            "<!DOCTYPE r [<!ENTITY a 'b'>]><requirements/>",
            ":1: <!DOCTYPE r>: is a document type; allowed: none",
        ),
    ],
)
def test_a_document_of_another_kind_is_refused(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "r.xml"
    file.write_text(text)
    done = imported(file)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{file}{told}" in done.stderr


def test_rules_come_after_the_tiers(tmp_path: Path) -> None:
    file = document(tmp_path, 'pattern="*" tiers="ram"')
    done = imported(file, BASE)
    assert done.returncode == 2
    assert "is no tier configuration; allowed: FILE.xml alone, or after FILE.conf" in done.stderr


def test_no_pattern_can_pose_as_a_variable(tmp_path: Path) -> None:
    done = imported(document(tmp_path, 'file="/&#xE000;HOME&#xE001;" tiers="ram"'))
    assert done.returncode == 2
    assert "requirements.xml:3: <requirement> file=" in done.stderr
    assert "none of them a control character, U+E000, U+E001" in done.stderr
