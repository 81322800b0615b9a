"""Disk images of a guest: empty file systems made once and copied for each round."""

import os
import subprocess
from pathlib import Path

from initramfs import find_program

MIB = 1 << 20
SIZES = {"ext4": 96 * MIB, "xfs": 304 * MIB}  # mkfs.xfs takes nothing smaller than 300 MiB
MAKE = {"ext4": ["mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0"], "xfs": ["mkfs.xfs", "-q", "-f"]}
SECTOR = 512
COPY_BYTES = 64 << 10


def make_sparse(path: Path, size: int) -> Path:
    """An image of zeroes that takes no room."""
    with path.open("wb") as file:
        file.truncate(size)
    return path


def make_file_system(path: Path, kind: str) -> Path:
    """An image with an empty file system."""
    make_sparse(path, SIZES[kind])
    program, *options = MAKE[kind]
    subprocess.run([str(find_program(program)), *options, str(path)], check=True, capture_output=True)
    return path


def copy_sparse(source: Path, to: Path) -> Path:
    """Copy an image, without what is zero."""
    subprocess.run(["cp", "--sparse=always", str(source), str(to)], check=True)
    return to


def join(parts: list[Path], to: Path) -> Path:
    """One disk of several images, one after the other."""
    make_sparse(to, sum(part.stat().st_size for part in parts))
    at = 0
    with to.open("r+b") as disk:
        for part in parts:
            with part.open("rb") as file:
                copy_data(file.fileno(), disk.fileno(), at)
            at += part.stat().st_size
    return to


def copy_data(source: int, to: int, at: int) -> None:
    """Copy the parts of a file that are not zero to offset `at` of another."""
    offset = 0
    while piece := os.pread(source, COPY_BYTES, offset):
        if piece.count(0) != len(piece):
            os.pwrite(to, piece, at + offset)
        offset += len(piece)
