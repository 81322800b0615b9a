"""h5py: contiguous, chunked, compressed and growing data sets, written, changed and read again; prints what it reads."""

import sys

import h5py
import numpy as np

rng = np.random.default_rng(int(sys.argv[1]))
plain = rng.random((700, 400))
counts = rng.integers(0, 1000, 200_000)

with h5py.File("a.h5", "w") as f:
    f["plain"] = plain
    f.create_dataset("chunked", data=counts, chunks=(1000,))
    f.create_dataset("packed", data=counts, chunks=(4096,), compression="gzip", shuffle=True, fletcher32=True)
    grows = f.create_dataset("grows", shape=(0, 50), maxshape=(None, 50), chunks=(64, 50), dtype="f4")
    for i in range(20):
        grows.resize((i + 1) * 100, axis=0)
        grows[i * 100 :] = i
        f.flush()
    f["plain"].attrs["unit"] = "m"

with h5py.File("a.h5", "r+") as f:
    f["plain"][100:200, ::2] = -1
    f["chunked"][::3] = 7
    del f["grows"]
    f["group/inner"] = np.arange(1000)

with h5py.File("a.h5", "r") as f:
    changed = plain.copy()
    changed[100:200, ::2] = -1
    print(
        np.array_equal(f["plain"][:], changed),
        f["plain"].attrs["unit"],
        np.array_equal(f["packed"][:], counts),
    )
    print(int(f["chunked"][:].sum()), int(f["group/inner"][...].sum()), sorted(f), f.id.get_filesize())

with h5py.File("core.h5", "w", driver="core", backing_store=True) as f:
    f["x"] = counts
with h5py.File("split.h5", "w", driver="split") as f:
    f["x"] = counts
with h5py.File("split.h5", "r", driver="split") as f, h5py.File("core.h5", "r") as g:
    print(np.array_equal(f["x"][:], g["x"][:]))
with h5py.File("live.h5", "w", libver="latest") as writer:
    x = writer.create_dataset("x", shape=(10,), maxshape=(None,), chunks=(10,), dtype="i8")
    writer.swmr_mode = True
    with h5py.File("live.h5", "r", swmr=True) as reader:
        for i in range(5):
            x.resize((i + 2) * 10, axis=0)
            x[-10:] = i
            x.flush()
            reader["x"].refresh()
            print(reader["x"].shape, int(reader["x"][-1]))
