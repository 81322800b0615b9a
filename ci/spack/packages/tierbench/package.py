"""Tierbench's engine, adapters and drivers as a Spack package. Not tried here: no Spack was at hand.

Use: spack repo add ci/spack; spack dev-build tierbench@main. The workloads look for HDF5 under the pkg-config
name that Debian gives it (hdf5-openmpi): elsewhere that name must lead to hdf5.pc.
"""

from spack.package import *


class Tierbench(CMakePackage):
    """Tiers in front of a parallel file system, and the evidence of what they buy."""

    license("BSD-3-Clause")
    version("main", branch="main")

    depends_on("c", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("mpi")
    depends_on("hdf5+mpi")
    depends_on("libyaml")
    depends_on("xxhash")
    depends_on("jansson")
    depends_on("zlib-api")
    depends_on("cmocka", type="build")
