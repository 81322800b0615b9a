from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from tierbench import cli
from tierbench.base.errors import RecipeError
from tierbench.recipes import published
from tierbench.recipes.published import PUBLISHED_FOLDER, RECIPE_FOLDER, read_published, read_recipes

KNOWN = {r.name: r for r in read_recipes()}


def test_every_published_number_has_its_recipe() -> None:
    counts = Counter(r.file for r in KNOWN.values() for _ in r.numbers)
    assert counts == {"cori.yaml": 22, "cfs.yaml": 4, "perlmutter.yaml": 6, "summit.yaml": 10}
    webinar = read_published(PUBLISHED_FOLDER / "webinar.csv")
    assert sum(map(len, webinar.values())) == 5


def test_digits_stay_as_published() -> None:
    assert KNOWN["perlmutter-write-64m"].number("write").text == "4435971.20"
    assert KNOWN["cori-datawarp-2-mpiio"].number("read").text == "1259295.00"
    assert KNOWN["summit-metadata-gpfs"].number("metadata").text == "38.1130"


def test_arithmetic_is_computed_as_a_shell_does_and_kept_as_published() -> None:
    launch = KNOWN["cori-lustre-1-mpiio"].launches[0]
    assert "$((12*1024*1024/8/(960*32)))" in launch.line
    assert launch.arguments[launch.arguments.index("-s") + 1] == "51"


def test_a_source_that_contradicts_itself_is_recorded_with_both() -> None:
    cfs = KNOWN["cfs-iops"]
    assert (cfs.nodes * cfs.ranks_per_node, cfs.ranks) == (224, 184)
    told = cfs.contradictions[0]
    assert (told.stated, told.computed, told.used) == ("184", "224", "184")


def test_a_line_is_launcher_program_and_arguments() -> None:
    launch = KNOWN["summit-metadata-nvme"].launches[0]
    assert launch.launcher[-2:] == ("--chdir", "${BBPATH}")
    assert (launch.program, launch.program_name, launch.arguments) == ("./metadata", "metadata", ())
    assert KNOWN["perlmutter-read"].launches[0].measures == ()


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (
            "  nodes: 960\n",
            "  nodes: many\n",
            r"recipes\[cori-lustre-1-posix\].nodes: 'many'; allowed: a whole number above 0",
        ),
        (
            "  nodes: 960\n",
            "",
            r"recipes\[cori-lustre-1-posix\]: lacks 'nodes'; allowed: a whole number above 0",
        ),
        (
            "  nodes: 960\n",
            "  nodes: 961\n  ranks: 3840\n",
            "961 nodes, 3840 ranks; published with 960 and 3840",
        ),
        ("  nodes: 960\n", "  nodes: 960\n  colour: blue\n", "unknown key 'colour'; allowed: name, title"),
        (
            "measures: [write]}",
            "measures: [dream]}",
            r"launches\[0\].measures\[0\]: 'dream'; allowed: write, read, metadata",
        ),
        ("measures: [write]}", "measures: []}", r"measures \['read'\], published are \['read', 'write'\]"),
        ("./IOR -w -a POSIX", "./dd -w -a POSIX", "runs no program; allowed: ior, mdtest"),
        ("$((12*1024*1024/8/(960*32)))", "$((12*x))", "arithmetic of whole numbers only; allowed: a command"),
        ("launcher: srun", "launcher: ssh", "launcher: 'ssh'; allowed: srun, mpirun, jsrun"),
        ("name: cori-lustre-1-mpiio", "name: cori-lustre-1-posix", "cori-lustre-1-posix"),
        ("factor: 4", "factor: 0", "twin.factor: 0; allowed: a whole number above 0"),
        ("recipes:", "recipes: [", "cannot be read"),
    ],
)
def test_bad_data_is_one_message(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    before: str,
    after: str,
    words: str,
) -> None:
    file = _copy(tmp_path) / "configs" / "recipes" / "cori.yaml"
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after, 1))
    with pytest.raises(RecipeError, match=words) as caught:
        read_recipes(file.parent, tmp_path / "results" / "published")
    assert "cori.yaml" in str(caught.value)
    monkeypatch.setattr(published, "RECIPE_FOLDER", file.parent)
    monkeypatch.setattr(published, "PUBLISHED_FOLDER", tmp_path / "results" / "published")
    assert cli.main(["recipes"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("716886.15", "716,886.15", "allowed"),
        ("716886.15", "fast", r"cori.csv:2: value: 'fast'; allowed: a number above 0"),
        (",MiB/s,", ",MB/s,", "metric 'bandwidth' in 'MB/s'; allowed: bandwidth in MiB/s"),
        ("cori-lustre-1-posix,write", "cori-lustre-9,write", r"cori-lustre-1-posix\]: measures"),
    ],
)
def test_bad_numbers_are_refused(tmp_path: Path, before: str, after: str, words: str) -> None:
    file = _copy(tmp_path) / "results" / "published" / "cori.csv"
    file.write_text(file.read_text().replace(before, after, 1))
    with pytest.raises(RecipeError, match=words):
        read_recipes(tmp_path / "configs" / "recipes", file.parent)


def test_a_number_without_a_recipe_is_refused(tmp_path: Path) -> None:
    file = _copy(tmp_path) / "results" / "published" / "cfs.csv"
    file.write_text(file.read_text() + "cfs,cfs-dream,write,iops,1.0,op/s,1,1,nowhere\n")
    with pytest.raises(RecipeError, match="test 'cfs-dream' has no recipe; allowed: cfs-iops, cfs-bandwidth"):
        read_recipes(tmp_path / "configs" / "recipes", file.parent)


def _copy(root: Path) -> Path:
    shutil.copytree(RECIPE_FOLDER, root / "configs" / "recipes")
    shutil.copytree(PUBLISHED_FOLDER, root / "results" / "published")
    return root


def test_the_command_lists_all_or_some_for_people_and_scripts(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["recipes"]) == 0
    assert "25 recipes, 42 published numbers" in capsys.readouterr().out
    assert cli.main(["recipes", "--json", "cfs", "summit-metadata-gpfs"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [r["name"] for r in told] == ["cfs-iops", "cfs-bandwidth", "summit-metadata-gpfs"]
    assert told[2]["numbers"][0]["text"] == "38.1130"
    assert cli.main(["recipes", "tape"]) == 2
    assert "recipe or system 'tape'; allowed: cfs," in capsys.readouterr().err
