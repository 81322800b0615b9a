"""Launchers that `tierctl run --per-node` is documented with, on two nodes with `nodes: shared`: mpirun, mpiexec.hydra, and the script
of docs/nodes.md for a list of nodes with ssh. What these start on other nodes by ssh a stand-in for ssh starts here.
"""

import os
import shutil
import stat
import sys
from pathlib import Path

import pytest
import test_nodes
from instances import SOURCE
from test_nodes import NODES, Nodes
from test_shared import SHARED

nodes = test_nodes.nodes  # the fixture

# As ssh: options, a node, and words that its shell reads.
SSH = """#!/bin/sh
while :; do case $1 in -o) shift 2;; -*) shift;; *) break;; esac; done
node=$1
shift
case $node in {cases} esac
exec nsenter --target $pid --mount --uts -- sh -c "$*"
"""
MPIRUN = "--allow-run-as-root --mca plm_rsh_agent {ssh} --host {hosts} --map-by ppr:1:node -np 2"
EXPORTS = "-x LD_PRELOAD -x TIERBENCH_INSTANCE -x TIERBENCH_CONFIG"
HYDRA = "-launcher ssh -launcher-exec {ssh} -hosts {hosts} -ppn 1 -n 2"
# Each node writes, and reads what the other one wrote; a word with blanks and quotes comes as it is.
PROGRAM = """
import os, sys, time
root, node, quoted = sys.argv[1], os.uname().nodename, sys.argv[2]
other = {"tb-a": "tb-b", "tb-b": "tb-a"}[node]
open(f"{root}/pfs/{node}", "w").write(node * 1000 + quoted)
open(f"{root}/meet/{node}", "w").close()
until = time.monotonic() + 30
while not os.path.exists(f"{root}/meet/{other}") and time.monotonic() < until:
    time.sleep(0.01)
sys.exit(open(f"{root}/pfs/{other}").read() != other * 1000 + quoted)
"""
QUOTED = """it's "a $PATH" word"""


def stand_in(nodes: Nodes) -> Path:
    ssh = nodes.root / "bin" / "ssh"
    ssh.parent.mkdir()
    ssh.write_text(SSH.format(cases=" ".join(f"{name}) pid={pid};;" for name, pid in nodes.node.items())))
    ssh.chmod(0o755)
    return ssh


def documented(nodes: Nodes) -> Path:
    """The script of the page, with the names of these nodes."""
    page = (SOURCE / "docs" / "nodes.md").read_text()
    text = page.split("    #!/bin/sh\n", 1)[1].split("\n\n", 1)[0]
    lines = ["#!/bin/sh", *(line.removeprefix("    ") for line in text.splitlines())]
    each = nodes.root / "list"
    each.write_text("\n".join(lines).replace("n1 n2", " ".join(NODES)) + "\n")
    each.chmod(each.stat().st_mode | stat.S_IXUSR)
    return each


def words_of(kind: str, nodes: Nodes) -> tuple[str, str]:
    """Those before a daemon's command, and before the program's."""
    ssh = stand_in(nodes)
    if kind == "a list":
        return (str(documented(nodes)),) * 2
    if not shutil.which(kind):
        pytest.skip(f"no {kind} here")
    text = f"{kind} {HYDRA if 'hydra' in kind else MPIRUN}".format(ssh=ssh, hosts=",".join(NODES))
    if "hydra" in kind:
        return text, text
    # Two of them that begin at once on a host can't both make Open MPI's own folder there.
    return f"{text} --mca orte_tmpdir_base {nodes.root}/bin", f"{text} {EXPORTS}"


@pytest.mark.parametrize("kind", ["mpirun.openmpi", "mpiexec.hydra", "a list"])
def test_it_starts_the_daemons_and_the_program(nodes: Nodes, kind: str) -> None:
    daemons, program = words_of(kind, nodes)
    (nodes.root / "tiers.yaml").write_text(SHARED.format(root=nodes.root, flush="manual"))
    (nodes.root / "program.py").write_text(PROGRAM)
    words: list[str | Path] = ["run", "-c", nodes.root / "tiers.yaml", "--per-node", daemons, "--"]
    words += [
        *program.split(),
        sys.executable,
        nodes.root / "program.py",
        nodes.root,
        QUOTED if kind == "a list" else "-",
    ]
    env = {"PATH": f"{nodes.root}/bin:{os.environ['PATH']}", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
    test_nodes.run_ctl(words, 0, env=env)
    for name in NODES:
        assert (nodes.root / "pfs" / name).read_text().startswith(name * 1000)
    assert nodes.left() == []
    assert sorted(p.name for p in (nodes.root / "pfs").iterdir()) == sorted(NODES)
