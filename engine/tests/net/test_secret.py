"""A process that does not prove the secret is refused, and keeps no node out."""

import hashlib
import hmac
import os
import random
import shutil
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest
from net_nodes import Node, make_secret, several

HELLO_BYTES, CHALLENGE_BYTES, HEAD_BYTES = 8 + 65 * 2 + 16 * 2 + 72 + 4 + 32, 64, 16


class Record:
    def __init__(self, path: Path) -> None:
        fields = dict(line.split(maxsplit=1) for line in path.read_text().splitlines())
        self.start = bytes.fromhex(fields["start"])
        host, port = fields["address"].split()
        self.address = (host, int(port))


def hello(name: str, start: bytes, to: str, to_start: bytes) -> bytes:
    return (
        b"TBnet\0\0\1"
        + name.encode().ljust(65, b"\0")
        + to.encode().ljust(65, b"\0")
        + start
        + to_start
        + bytes(72 + 4)
        + os.urandom(32)
    )


def proof(secret: bytes, side: bytes, said: bytes, nonce: bytes) -> bytes:
    parts = (side, b"test", said, nonce)
    text = b"".join(len(p).to_bytes(2, "little") + p for p in parts)
    return hmac.new(secret, text, hashlib.sha512).digest()[:32]


def heard(s: socket.socket, n: int) -> bytes:
    """Up to n bytes; fewer where the connection ended."""
    got = b""
    s.settimeout(20)
    try:
        while len(got) < n and (more := s.recv(n - len(got))):
            got += more
    except ConnectionResetError:
        pass
    return got


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "f"


def test_the_right_proof_is_taken_and_a_stranger_refused_after_it(folder: Path) -> None:
    """The control of the tests below: with the secret this conversation goes on to a frame."""
    with several(folder, "ab") as (a, _):
        there, secret = Record(folder / "peers/a"), (folder / "secret").read_bytes()
        with socket.create_connection(there.address) as s:
            said = hello("z", os.urandom(16), "a", there.start)
            s.sendall(said)
            challenge = heard(s, CHALLENGE_BYTES)
            nonce = challenge[:32]
            assert challenge[32:] == proof(secret, b"called", said, nonce)
            s.sendall(proof(secret, b"caller", said, nonce))
            assert heard(s, HEAD_BYTES)[0] == 3
        assert a.hears("node z is refused: it is none of those that the instance began with")


@pytest.mark.parametrize("way", ["guess", "reflection", "replay", "other secret"])
def test_a_wrong_proof_is_refused_and_logged(folder: Path, way: str) -> None:
    with several(folder, "ab") as (a, b):
        there, secret = Record(folder / "peers/a"), (folder / "secret").read_bytes()
        said = hello("b", Record(folder / "peers/b").start, "a", there.start)
        recorded = b""
        if way == "replay":
            with socket.create_connection(there.address) as s:
                s.sendall(said)
                recorded = proof(secret, b"caller", said, heard(s, CHALLENGE_BYTES)[:32])
        with socket.create_connection(there.address) as s:
            s.sendall(said)
            challenge = heard(s, CHALLENGE_BYTES)
            s.sendall(
                {
                    "guess": bytes(32),
                    "reflection": challenge[32:],
                    "replay": recorded,
                    "other secret": proof(bytes(32), b"caller", said, challenge[:32]),
                }[way]
            )
            assert heard(s, HEAD_BYTES) == b""
        assert a.hears("did not prove the secret: closed")
        assert a.call(1) == 100 and b.call(0) == 100


def test_a_node_tells_no_proof_to_who_has_none(folder: Path) -> None:
    """A listener in a node's place learns a hello, and no proof that it could use elsewhere."""
    with several(folder, "ab") as nodes:
        for node in nodes:
            node.kill()
        record = folder / "peers/b"
        there = Record(record)
        with socket.create_server(there.address) as false:
            node = Node(folder, "a", 2, start_ms=1500)
            s, _ = false.accept()
            with s:
                assert len(heard(s, HELLO_BYTES)) == HELLO_BYTES
                s.sendall(os.urandom(CHALLENGE_BYTES))
                assert heard(s, 1) == b""
        assert "what is there did not prove the secret" in node.line()
        node.end()


def test_who_says_nothing_is_closed_and_keeps_nobody_out(folder: Path) -> None:
    """Three hundred connections without a word before and while the nodes start."""
    make_secret(folder)
    a = Node(folder, "a", 2)
    while not (folder / "peers/a").exists():
        time.sleep(0.01)
    silent = [socket.create_connection(Record(folder / "peers/a").address) for _ in range(300)]
    b = Node(folder, "b", 2)
    assert [a.line(), b.line()] == ["open 0 a,b", "open 1 a,b"]
    for s in silent:
        assert heard(s, 1) == b""
        s.close()
    assert a.hears("closed")
    assert a.call(1) == 100
    for node in (a, b):
        node.end()


def test_noise_breaks_nothing(folder: Path) -> None:
    """Random bytes, and hellos with random changes, to a listener that goes on."""
    choices = random.Random(5)
    with several(folder, "ab") as (a, b):
        there = Record(folder / "peers/b")
        for turn in range(200):
            said = bytearray(hello("a", bytes(16), "b", there.start))
            for _ in range(choices.randrange(4)):
                said[choices.randrange(len(said))] = choices.randrange(256)
            noise = (
                choices.randbytes(choices.randrange(5000))
                if turn % 2
                else bytes(said) + choices.randbytes(64)
            )
            gone = suppress(BrokenPipeError, ConnectionResetError)
            with socket.create_connection(there.address) as s, gone:
                s.sendall(noise)
        assert a.call(1, 100000, 100000) == 100000 and b.call(0, 100000, 100000) == 100000


def test_noise_after_the_proof_loses_that_peer_only(folder: Path) -> None:
    """What knows the secret and talks nonsense, in the place of a node that was killed."""
    with several(folder, "abc") as (a, b, c):
        there, secret, own = (
            Record(folder / "peers/b"),
            (folder / "secret").read_bytes(),
            Record(folder / "peers/a"),
        )
        a.kill()
        assert b.becomes(0, False)
        for turn in range(20):
            said = hello("a", own.start, "b", there.start)
            with socket.create_connection(there.address) as s:
                s.sendall(said)
                s.sendall(proof(secret, b"caller", said, heard(s, CHALLENGE_BYTES)[:32]))
                s.sendall(random.Random(turn).randbytes(3000))
                while heard(s, 4096):
                    pass
        assert b.hears("node a is lost: it said what no node says")
        assert b.call(2) == 100 and c.call(1) == 100


def test_a_node_that_calls_many_times_at_once_is_back(folder: Path) -> None:
    """Each call ends the one before it, although the node has not yet begun to read that one."""
    with several(folder, "abc") as (a, b, c):
        there, secret = Record(folder / "peers/b"), (folder / "secret").read_bytes()
        said = hello("a", Record(folder / "peers/a").start, "b", there.start)
        a.kill()
        assert b.becomes(0, False)
        calls = [socket.create_connection(there.address) for _ in range(20)]
        proofs = []
        for s in calls:
            s.sendall(said)
            proofs.append(proof(secret, b"caller", said, heard(s, CHALLENGE_BYTES)[:32]))
        b.pause()
        for s, bytes_ in zip(calls, proofs, strict=True):
            s.sendall(bytes_)
        b.go_on()
        assert b.becomes(0, True)
        for s in calls:
            s.close()
        assert b.becomes(0, False)
        assert b.call(2) == 100 and c.call(1) == 100


def refusal_of_secret(folder: Path) -> str:
    node = Node(folder, "a", 2, start_ms=1000)
    line = node.line()
    assert node.end() == 2
    return line.split(maxsplit=2)[2]


def test_the_file_of_the_secret(folder: Path) -> None:
    make_secret(folder)
    secret = folder / "secret"
    assert secret.stat().st_mode & 0o7777 == 0o600 and len(secret.read_bytes()) == 32
    first = secret.read_bytes()
    make_secret(folder)
    assert secret.read_bytes() != first
    secret.chmod(0o640)
    assert refusal_of_secret(folder) == f"{secret}: its mode must be 0600"
    secret.chmod(0o600)
    secret.write_bytes(bytes(31))
    assert refusal_of_secret(folder) == f"{secret}: it must be 32 bytes long"
    secret.unlink()
    assert refusal_of_secret(folder) == f"{secret}: No such file or directory"
    (folder / "elsewhere").write_bytes(first)
    secret.symlink_to("elsewhere")
    assert refusal_of_secret(folder) == f"{secret}: a symbolic link is not followed"


def test_a_folder_that_others_can_write(folder: Path) -> None:
    make_secret(folder)
    folder.chmod(0o770)
    assert "other users can change names in its folder" in refusal_of_secret(folder)


@pytest.mark.skipif(os.getuid() != 0 or not shutil.which("setpriv"), reason="another user is root's to be")
def test_a_secret_of_another_user(folder: Path) -> None:
    make_secret(folder)
    os.chown(folder / "secret", 65534, 65534)
    assert refusal_of_secret(folder) == f"{folder / 'secret'}: it must be a regular file of this user"


def test_nobody_listens_where_one_is_awaited(folder: Path) -> None:
    node = Node(folder, "a", 1)
    assert node.line() == "open 0 a"
    sockets = subprocess.run(
        ["ls", "-l", f"/proc/{node.process.pid}/fd"], capture_output=True, text=True, check=True
    )
    assert "socket:" not in sockets.stdout
    assert node.end() == 0
