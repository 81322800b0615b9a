"""`tierctl stage`: directives of DataWarp and Rabbit, manifests, and what is refused before a job starts."""

import os
import subprocess
from pathlib import Path

import pytest
from staging import TIERCTL, Site

JOB = """#!/bin/sh
#SBATCH -N 1
#DW jobdw type=scratch access_mode=striped,private capacity=1MiB
#DW stage_in type=file source={root}/input destination=$DW_JOB_STRIPED/in/put
#DW stage_in type=directory source={root}/folder destination=$DW_JOB_STRIPED/folder
#DW stage_out type=directory source=$DW_JOB_STRIPED/out destination={root}/pfs/out
{more}
mkdir $DW_JOB_STRIPED/out
cat $DW_JOB_STRIPED/in/put $DW_JOB_STRIPED/folder/a > $DW_JOB_STRIPED/out/both
test -d $DW_JOB_PRIVATE
"""
RABBIT = """#!/bin/sh
#DW jobdw type=xfs capacity=1MiB name=my-fs
#DW copy_in profile=polite source={root}/folder destination=$DW_JOB_my_fs/
#DW copy_out source=$DW_JOB_my_fs/folder/a destination={root}/pfs/
echo more >> $DW_JOB_my_fs/folder/a
"""


@pytest.fixture
def job(site: Site) -> Path:
    (site.root / "input").write_text("1\n")
    (site.root / "folder").mkdir()
    (site.root / "folder" / "a").write_text("2\n")
    script = site.root / "job.sh"
    script.write_text(JOB.format(root=site.root, more=""))
    return script


def stage(site: Site, *words: str, status: int = 0) -> str:
    out = site.tierctl("stage", *words, "--place", str(site.bb), "--log", str(site.root), status=status)
    return out.stdout + out.stderr


def test_a_job_with_datawarps_directives_runs(site: Site, job: Path) -> None:
    assert "All files moved" in stage(site, "--script", str(job))
    assert (site.pfs / "out" / "both").read_text() == "1\n2\n"
    assert not list(site.bb.iterdir()), "the job's folders are gone"


def test_a_job_with_rabbits_directives_runs(site: Site, job: Path) -> None:
    job.write_text(RABBIT.format(root=site.root))
    stage(site, "--script", str(job))
    assert (site.pfs / "a").read_text() == "2\nmore\n"


def test_the_scripts_status_is_told_and_its_files_are_staged_out(site: Site, job: Path) -> None:
    job.write_text(job.read_text() + "exit 5\n")
    stage(site, "--script", str(job), status=5)
    assert (site.pfs / "out" / "both").exists()


def test_what_cannot_be_staged_out_stays(site: Site, job: Path) -> None:
    job.write_text(
        job.read_text().replace("exit", "") + f"mkdir {site.pfs}/out; echo other > {site.pfs}/out/both\n"
    )
    assert "name clash" in stage(site, "--script", str(job), "--job", "j1", status=3)
    assert (site.pfs / "out" / "both").read_text() == "other\n"
    assert (site.bb / "j1" / "striped" / "out" / "both").read_text() == "1\n2\n"


@pytest.mark.parametrize("kind", ["directory", "file", "list"])
def test_a_source_that_the_job_did_not_make_is_named(site: Site, job: Path, kind: str) -> None:
    """The job wrote to another name: that must not be removed as if all had been staged out."""
    (site.root / "list").write_text("$DW_JOB_STRIPED/result\n")
    source = f"{site.root}/list" if kind == "list" else "$DW_JOB_STRIPED/result"
    to = site.pfs / "more" if kind == "list" else site.pfs / "more" / "result"
    directive = f"#DW stage_out type={kind} source={source} destination={to}"
    job.write_text(JOB.format(root=site.root, more=f"{directive}\necho 3 > $DW_JOB_STRIPED/resutl"))
    said = stage(site, "--script", str(job), "--job", "7", status=3)
    result = site.bb / "7" / "striped" / "result"
    assert f"{result} to " in said and "No such file or directory" in said, said
    assert (site.pfs / "out" / "both").exists()
    result.with_name("resutl").rename(result)
    if kind == "directory":
        result.rename(result.with_name("x"))
        result.mkdir()
    stage(site, "--script", str(job), "--job", "7", "--phase", "out")
    assert to.exists() and not list(site.pfs.rglob(".tierbench-*"))


def test_the_phases_of_a_batch_system(site: Site, job: Path) -> None:
    def phase(word: str) -> str:
        return stage(site, "--script", str(job), "--phase", word, "--job", "j2")

    folder = site.bb / "j2" / "striped"
    phase("setup")
    phase("in")
    assert (folder / "in" / "put").read_text() == "1\n"
    assert f"export DW_JOB_STRIPED='{folder}'" in phase("env")
    (folder / "out").mkdir()
    (folder / "out" / "x").write_text("x")
    phase("out")
    assert (site.pfs / "out" / "x").read_text() == "x"
    phase("teardown")
    assert not (site.bb / "j2").exists()


def test_a_script_is_checked_where_its_place_is_not(site: Site, job: Path) -> None:
    """As on a login node; what can be known there is checked."""
    words = ("stage", "--script", str(job), "--place", str(site.root / "none"))
    assert f"the place {site.root}/none is not on this node" in site.tierctl(*words, "--check").stderr
    assert "allowed: a folder that is there" in site.tierctl(*words, status=2).stderr
    job.write_text(job.read_text().replace(f"{site.root}/input", f"{site.root}/absent"))
    assert f"source {site.root}/absent: No such file" in site.tierctl(*words, "--check", status=2).stderr
    job.write_text("#DW jobdw type=scratch capacity=900PB\n#DW persistentdw name=perhaps\n")
    site.tierctl(*words, "--check")


def test_a_file_at_the_end_of_a_stage_out_is_told_before_the_job(site: Site, job: Path) -> None:
    """It would stay. What an earlier job staged out from the same source is replaced."""
    job.write_text(
        "#DW create_persistent name=keep type=lustre capacity=1MiB\n#DW persistentdw name=keep\n"
        f"#DW copy_out source=$DW_PERSISTENT_keep/x destination={site.pfs}/x\necho $$ > $DW_PERSISTENT_keep/x\n"
    )
    (site.pfs / "x").write_text("somebody's")
    for more in (["--check"], []):
        out = stage(site, "--script", str(job), *more, status=2)
        assert f"job.sh:3: destination {site.pfs}/x: name clash: " in out and not list(site.bb.iterdir())
    assert not (site.root / "spectral.log").exists()
    (site.pfs / "x").unlink()
    stage(site, "--script", str(job))
    first = (site.pfs / "x").read_text()
    job.write_text(job.read_text().replace("#DW create_persistent", "#"))
    stage(site, "--script", str(job), "--check")
    stage(site, "--script", str(job))
    assert (site.pfs / "x").read_text() != first
    job.write_text(
        "#DW jobdw type=scratch capacity=1MiB\n"
        f"#DW copy_out source=$DW_JOB_STRIPED/x destination={site.pfs}/x\ntouch $DW_JOB_STRIPED/x ran\n"
    )
    assert "name clash" in stage(site, "--script", str(job), status=2) and not (site.root / "ran").exists()


def test_a_destination_that_may_not_be_written_to_is_refused(site: Site, job: Path) -> None:
    """Root may write to any folder, but not to a file system that is mounted for reading."""
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("no mount namespaces here")
    job.write_text(
        f"#DW jobdw type=scratch capacity=1MiB\n#DW copy_out source=$DW_JOB_STRIPED/x destination={site.pfs}/x\n"
    )
    refused = f"{site.pfs}: Read-only file system; allowed: a folder that you may write to"
    for words, said in (
        (["stage", "--script", "job.sh", "--place", "bb", "--log", "."], f"job.sh:2: destination {refused}"),
        (["run", "--", "touch", "ran"], f"PFS_DIR: {refused}"),
    ):
        out = subprocess.run(
            [
                "unshare",
                "-m",
                "sh",
                "-c",
                f'mount -t tmpfs -o ro none {site.pfs} && exec "$@"',
                "sh",
                TIERCTL,
                *words,
            ],
            cwd=site.root,
            env=site.environment(),
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert out.returncode == 2 and said in out.stderr, out.stderr
    assert not list(site.bb.iterdir()) and not (site.root / "ran").exists()


def test_persistent_storage_outlives_its_job(site: Site, job: Path) -> None:
    job.write_text(
        "#DW create_persistent name=keep type=lustre capacity=1MiB\n#DW persistentdw name=keep\necho 1 > $DW_PERSISTENT_keep/x\n"
    )
    stage(site, "--script", str(job))
    job.write_text("#DW persistentdw name=keep\ntest -f $DW_PERSISTENT_STRIPED_keep/x\n")
    stage(site, "--script", str(job))
    job.write_text("#DW destroy_persistent name=keep\n")
    stage(site, "--script", str(job))
    job.write_text("#DW persistentdw name=keep\n")
    assert "job.sh:1: #DW persistentdw: name=keep: there is no such storage" in stage(
        site, "--script", str(job), "--check", status=2
    )


def test_persistent_storage_of_another_origin_is_not_destroyed(site: Site, job: Path) -> None:
    mine = site.bb / "persistent" / "mine" / "data"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    job.write_text("#DW destroy_persistent name=mine\ntouch ran\n")
    refused = "job.sh:1: #DW destroy_persistent: name=mine: tierctl stage has not made"
    assert refused in stage(site, "--script", str(job), "--job", "j1", status=2)
    assert "stays" in stage(site, "--script", str(job), "--job", "j1", "--phase", "teardown", status=2)
    assert mine.read_text() == "mine" and not (site.root / "ran").exists()


@pytest.mark.parametrize(
    ("content", "words", "status"),
    [
        ("", "job.sh: is empty; allowed: a job script", 2),
        ("\0\1\2\n\0", "job.sh: no line begins with #DW: nothing would be staged", 0),
        ("#!/bin/sh\ntrue\n", "job.sh: no line begins with #DW: nothing would be staged", 0),
    ],
)
def test_a_check_of_what_has_no_directive_says_so(
    site: Site, job: Path, content: str, words: str, status: int
) -> None:
    """A silent check says that all is right."""
    job.write_text(content)
    assert words in stage(site, "--script", str(job), "--check", status=status)
    if status:
        assert words in stage(site, "--script", str(job), status=status) and not list(site.bb.iterdir())


def test_a_check_of_a_manifest_without_files_says_so(site: Site) -> None:
    manifest = site.root / "manifest"
    manifest.write_text("# none\n")
    assert "manifest: names no file: nothing would be staged" in stage(
        site, "--manifest", str(manifest), "--check"
    )


@pytest.mark.parametrize("word", ["#BB_LUA", "#TB"])
def test_another_word(site: Site, job: Path, word: str) -> None:
    job.write_text(job.read_text().replace("#DW", word))
    stage(site, "--script", str(job), "--word", word)
    assert (site.pfs / "out" / "both").exists()


@pytest.mark.parametrize("word", ["", "#DW stage_in", " #DW"])
def test_a_word_that_no_line_begins_with_is_refused(site: Site, job: Path, word: str) -> None:
    """Else no line would be a directive, or each that begins with a blank."""
    out = stage(site, "--script", str(job), "--word", word, status=2)
    assert f"--word: '{word}'; allowed: a word without blanks" in out and not list(site.bb.iterdir())


def test_a_list_of_files(site: Site, job: Path) -> None:
    (site.root / "list").write_text(f"{site.root}/input\n{site.root}/folder/a\n")
    job.write_text(
        f"#DW jobdw type=scratch capacity=1MiB\n#DW stage_in type=list source={site.root}/list destination=$DW_JOB_STRIPED/in\n"
        "cat $DW_JOB_STRIPED/in/input $DW_JOB_STRIPED/in/a > got\n"
    )
    stage(site, "--script", str(job))
    assert (site.root / "got").read_text() == "1\n2\n"


def test_a_list_of_files_that_the_job_makes(site: Site, job: Path) -> None:
    """A name in it may begin with a variable, as the job's folder has no other name before the job; other $ stay."""
    (site.root / "a$b").write_text("3\n")
    (site.root / "list").write_text("$DW_JOB_STRIPED/made\r\n${DW_JOB_STRIPED}/out/too\n\na$b\n")
    job.write_text(
        "#DW jobdw type=scratch capacity=1MiB\n"
        f"#DW stage_out type=list source={site.root}/list destination={site.pfs}/out\n"
        "cd $DW_JOB_STRIPED; mkdir out; echo 1 > made; echo 2 > out/too\n"
    )
    stage(site, "--script", str(job))
    assert {p.name: p.read_text() for p in (site.pfs / "out").iterdir()} == {
        "made": "1\n",
        "too": "2\n",
        "a$b": "3\n",
    }
    (site.root / "list").write_text("$NONE/made\n")
    assert "$NONE is not set" in stage(site, "--script", str(job), status=2)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            "/".join(["x" * 200] * 25),
            "list:2: a name of 5024 bytes; allowed: a file's name in each line, at most 4095 bytes",
        ),
        ("input\0more", "list:2: a zero byte in a name; allowed: a file's name in each line"),
        (
            "folder/../input",
            "job.sh:2: destination {bb}/j/striped/in/input: line 2 has it too, for {root}/input",
        ),
    ],
)
def test_a_bad_line_of_a_list_is_refused(site: Site, job: Path, line: str, words: str) -> None:
    (site.root / "list").write_text(f"input\n{line}\n")
    job.write_text(
        "#DW jobdw type=scratch capacity=1MiB\n"
        f"#DW stage_in type=list source={site.root}/list destination=$DW_JOB_STRIPED/in\n"
    )
    out = stage(site, "--script", str(job), "--job", "j", status=2)
    assert words.format(bb=site.bb, root=site.root) in out, out


@pytest.mark.usefixtures("job")
def test_a_manifest(site: Site) -> None:
    manifest = site.root / "manifest"
    manifest.write_text(
        f'# two\n{site.root}/input {site.pfs}/a\n"{site.root}/folder/a" "{site.pfs}/with \\"blank"\n'
    )
    stage(site, "--manifest", str(manifest), "--check")
    assert site.names() == set()
    stage(site, "--manifest", str(manifest))
    assert {p.name: p.read_text() for p in site.pfs.iterdir()} == {"a": "1\n", 'with "blank': "2\n"}


def test_what_is_at_its_destination_needs_no_room(site: Site) -> None:
    """Else nothing would go on after a crash where most of a large file system was moved."""
    (site.root / "manifest").write_text(f"sparse {site.pfs}/x\n")
    for path in (site.root / "sparse", site.pfs / "x"):
        with path.open("wb") as sparse:
            sparse.truncate(1 << 43)
        os.utime(path, (1, 1))
    stage(site, "--manifest", "manifest", "--check")
    os.utime(site.pfs / "x", (1, 2))
    assert "no room" in stage(site, "--manifest", "manifest", "--check", status=2)


def test_the_list_of_what_is_left_is_a_manifest(site: Site) -> None:
    left = site.root / "left"
    site.run(
        "head -c 4000000 /dev/zero | tr '\\0' x > bb/x",
        f"bandwidth: 1MiB/s, deadline: 0.3s, left: {left}",
        status=3,
    )
    stage(site, "--manifest", str(left))
    site.assert_same()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("#DW jobwd type=scratch", "job.sh:7: #DW jobwd: unknown directive; allowed: jobdw, "),
        (
            "#DW stage_in typ=file source=a destination=b",
            "job.sh:7: #DW stage_in: typ: unknown key; allowed: type, source, destination",
        ),
        ("#DW stage_in type=fil source=a destination=b", "type=fil; allowed: file, directory, list"),
        ("#DW stage_in type=file source=a", "destination is missing"),
        ("#DW jobdw type=xfs capacity=1Gi", "capacity=1Gi; allowed: a size as 100GiB or 1TB"),
        ("#DW jobdw type=xfs capacity=0x10GiB", "capacity=0x10GiB; allowed: a size as 100GiB or 1TB"),
        ("#DW jobdw type=xfs name=n capacity=900PB", "capacity=900PB; allowed: the "),
        ("#DW jobdw type=xfs name=n capacity=99999PB", "capacity=99999PB; allowed: the "),
        (
            "#DW jobdw type=xfs capacity=1KB",
            "the folder striped is $DW_JOB_STRIPED; allowed: a folder of another",
        ),
        (
            "#DW jobdw type=xfs name=striped capacity=1KB",
            "the folder striped is $DW_JOB_STRIPED; allowed: a ",
        ),
        (
            "#DW jobdw type=xfs name=a-b capacity=1KB\n#DW jobdw type=xfs name=a_b capacity=1KB",
            "job.sh:8: #DW jobdw: $DW_JOB_a_b is a folder's already; allowed: a folder of another name",
        ),
        (
            f"#DW persistentdw name={'n' * 65}",
            f"name={'n' * 65}; allowed: letters, digits, - and _, at most 64",
        ),
        (
            "#DW copy_out source={root}/a destination={root}/pfs/b\0 profile=polite",
            "job.sh:7: a zero byte in the line; allowed: text",
        ),
        ("#DW jobdw type=raw capacity=1GiB", "type=raw; allowed: scratch, xfs, gfs2, lustre"),
        ("#DW jobdw type=xfs type=xfs capacity=1GiB", "type= is there twice"),
        (
            "#DW copy_in profile=fast source=a destination=b",
            "profile=fast; allowed: default, polite, verified",
        ),
        ("#DW copy_out source=$NONE/a destination=b", "$NONE is not set"),
        ("#DW stage_in type=file source={root}/none destination={root}/x", "{root}/none: No such file"),
        (
            "#DW stage_in type=file source={root}/folder destination={root}/x",
            "source {root}/folder is a folder",
        ),
        (
            "#DW stage_in type=directory source={root}/folder destination={root}/folder/in",
            "is in its source {root}/folder",
        ),
        (
            "#DW stage_in type=file source={root}/input destination={root}/pfs",
            "job.sh:7: destination {root}/pfs: is a folder",
        ),
        ("#DW copy_out source={root}/a destination={root}/pfs/out", "destination {root}/pfs/out: line "),
        ("#DW stage_in type=file source={root}/sparse destination={root}/x", "no room: "),
        ("#DW stage_out type=file source={root}/a destination={root}/input/x", "{root}/input is no folder"),
    ],
)
def test_bad_lines_are_refused_before_the_job_starts(site: Site, job: Path, line: str, words: str) -> None:
    with (site.root / "sparse").open("wb") as sparse:
        sparse.truncate(1 << 43)
    job.write_text(JOB.format(root=site.root, more=line.format(root=site.root)))
    out = stage(site, "--script", str(job), status=2)
    assert words.format(root=site.root) in out, out
    assert not list(site.bb.iterdir()) and not list(site.pfs.iterdir())


@pytest.mark.parametrize(
    ("source", "destination"), [("s", "l/in"), ("s", "l/new/in"), ("l", "s/in"), ("f", "k")]
)
def test_a_destination_that_lies_in_its_source_by_a_link_is_refused(
    site: Site, source: str, destination: str
) -> None:
    (site.root / "s").mkdir()
    (site.root / "s" / "x").write_text("x")
    (site.root / "f").write_text("f")
    (site.root / "l").symlink_to("s")
    (site.root / "k").symlink_to("f")
    (site.root / "manifest").write_text(f"{source} {destination}\n")
    assert "is in its source" in stage(site, "--manifest", "manifest", status=2)
    assert [p.name for p in (site.root / "s").iterdir()] == ["x"]


def test_a_source_that_a_directive_names_by_a_link_is_followed(site: Site, job: Path) -> None:
    """And a link of a manifest stays one."""
    (site.root / "mesh").symlink_to("folder")
    (site.root / "latest").symlink_to("input")
    job.write_text(
        "#DW jobdw type=scratch capacity=1MiB\n"
        f"#DW stage_in type=directory source={site.root}/mesh destination=$DW_JOB_STRIPED/mesh\n"
        f"#DW stage_in type=file source={site.root}/latest destination=$DW_JOB_STRIPED/put\n"
        f"#DW stage_out type=file source=$DW_JOB_STRIPED/last destination={site.pfs}/last\n"
        "cd $DW_JOB_STRIPED; cat mesh/a put > result; ln -s result last\n"
    )
    stage(site, "--script", str(job))
    assert (site.pfs / "last").read_text() == "2\n1\n" and not (site.pfs / "last").is_symlink()
    (site.root / "manifest").write_text(f"latest {site.pfs}/link\n")
    stage(site, "--manifest", "manifest")
    assert (site.pfs / "link").readlink() == Path("input")


def test_a_zero_byte_in_a_manifest_is_refused(site: Site) -> None:
    """Else the name would end there, and be another file's."""
    (site.root / "manifest").write_text(f"manifest {site.pfs}/a\0b\n")
    assert "manifest:1: a zero byte in the line" in stage(site, "--manifest", "manifest", status=2)
    assert site.names() == set()


@pytest.mark.parametrize("text", ["a\n", "a b c\n", '"a b\n'])
def test_bad_manifests_are_refused(site: Site, text: str) -> None:
    (site.root / "manifest").write_text(text)
    assert "manifest:1: allowed: SOURCE DESTINATION" in stage(site, "--manifest", "manifest", status=2)


@pytest.mark.parametrize("name", ["", "..", ".", "persistent", "a/b", "/", "x" * 101])
def test_a_jobs_name_is_never_another_folder(site: Site, job: Path, name: str) -> None:
    (site.bb / "persistent" / "kept").mkdir(parents=True)
    for phase in ("setup", "teardown"):
        out = stage(site, "--script", str(job), "--phase", phase, "--job", name, status=2)
        assert "allowed: 1 to 100 characters without /" in out
    assert (site.bb / "persistent" / "kept").is_dir() and site.pfs.is_dir()


def test_a_folder_that_was_there_is_neither_used_nor_removed(site: Site, job: Path) -> None:
    mine = site.bb / "j3" / "mine"
    mine.parent.mkdir()
    mine.write_text("mine")
    words = ("--script", str(job), "--job", "j3")
    assert "tierctl stage has not made it" in stage(site, *words, status=2)
    assert "tierctl stage has not made it" in stage(site, *words, "--phase", "setup", status=2)
    assert "stays" in stage(site, *words, "--phase", "teardown", status=2)
    assert mine.read_text() == "mine"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make a folder of another user")
@pytest.mark.parametrize("mark", [False, True])
def test_a_folder_that_another_user_made_is_not_used(site: Site, job: Path, mark: bool) -> None:
    """Names of jobs can be guessed, and a place is for all users."""
    folder = site.bb / "j5"
    folder.mkdir()
    if mark:
        (folder / ".tierbench-job").touch()
    os.chown(folder, 65534, 65534)
    for more in ([], ["--phase", "setup"]):
        out = stage(site, "--script", str(job), "--job", "j5", *more, status=2)
        assert f"{folder} is another user's; allowed: another name or --place" in out
    assert not (folder / "striped").exists()


def test_the_name_of_a_job_that_left_files_is_refused(site: Site, job: Path) -> None:
    words = ("--script", str(job), "--job", "j4")
    stage(site, *words, "--phase", "setup")
    left = site.bb / "j4" / "striped" / "left"
    left.write_text("not staged out")
    assert "is another job's" in stage(site, *words, status=2)
    assert left.read_text() == "not staged out"
    stage(site, *words, "--phase", "teardown")
    assert not (site.bb / "j4").exists()
