"""Tierbench's engine, adapters, drivers and suite as a package of Spack 1.0 or newer.

Use: spack repo add ci/spack/spack_repo/tierbench; spack dev-build tierbench@main. HDF5 is found by h5pcc. The
command `tierbench` is not in it: `pip install .` brings that. Not built here: the check of Spack 0.23
(`spack audit packages tierbench`) passes, where `spack_repo.builtin` was made of what that Spack has itself;
layout, names of packages and variants are those of Spack's own package repository.
"""

from pathlib import Path

from spack.package import *
from spack_repo.builtin.build_systems.cmake import CMakePackage


class Tierbench(CMakePackage):
    """Tiers in front of a parallel file system, and the evidence of what they buy."""

    git = Path(__file__).resolve().parents[6].as_uri()  # the checkout that this file is in

    license("BSD-3-Clause")
    version("main", branch="main")

    depends_on("c", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("mpi")
    depends_on("hdf5+mpi")
    depends_on("libyaml")
    depends_on("xxhash")
    depends_on("libsodium")
    depends_on("libfabric")
    depends_on("jansson")
    depends_on("zlib-api")
    depends_on("cmocka", type="build")
