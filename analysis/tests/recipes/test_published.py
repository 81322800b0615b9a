"""The published numbers, copied from the sources once more by hand, as they are written there."""

from __future__ import annotations

import csv

import pytest

from tierbench.recipes.published import PUBLISHED_FOLDER, read_recipes

PUBLISHED = [
    ("cori-lustre-1-posix", "write", "716,886.15 MiB/sec"),
    ("cori-lustre-1-posix", "read", "646,835.37 MiB/sec"),
    ("cori-lustre-1-mpiio", "write", "344,016.32 MiB/sec"),
    ("cori-lustre-1-mpiio", "read", "614,328.95 MiB/sec"),
    ("cori-lustre-2-knl-buffered", "write", "562,701.01 MiB/sec"),
    ("cori-lustre-2-knl-buffered", "read", "389,576.59 MiB/sec"),
    ("cori-lustre-2-knl-direct", "write", "624,666.33 MiB/sec"),
    ("cori-lustre-2-knl-direct", "read", "397,262.65 MiB/sec"),
    ("cori-lustre-2-haswell", "write", "478,170.92 MiB/sec"),
    ("cori-lustre-2-haswell", "read", "346,969.69 MiB/sec"),
    ("cori-datawarp-1-posix", "write", "832,451.89 MiB/sec"),
    ("cori-datawarp-1-posix", "read", "862,616.35 MiB/sec"),
    ("cori-datawarp-1-mpiio", "write", "334,627.84 MiB/sec"),
    ("cori-datawarp-1-mpiio", "read", "765,847.30 MiB/sec"),
    ("cori-datawarp-1-iops", "write", "12,527,427.06 IOP/sec"),
    ("cori-datawarp-1-iops", "read", "12,591,977.74 IOP/sec"),
    ("cori-datawarp-2-posix", "write", "1,493,373.74 MiB/sec"),
    ("cori-datawarp-2-posix", "read", "1,663,914.47 MiB/sec"),
    ("cori-datawarp-2-mpiio", "write", "1,300,578.87 MiB/sec"),
    ("cori-datawarp-2-mpiio", "read", "1,259,295.00 MiB/sec"),
    ("cori-datawarp-2-iops", "write", "13,135,292.56 IOP/sec"),
    ("cori-datawarp-2-iops", "read", "28,260,132.42 IOP/sec"),
    ("cfs-iops", "write", "551,934.28 write operations/sec"),
    ("cfs-iops", "read", "423,413.67 read operations/sec"),
    ("cfs-bandwidth", "write", "184,743.00 MiB/sec"),
    ("cfs-bandwidth", "read", "155,214.17 MiB/sec"),
    ("perlmutter-write", "write", "3,427,179.21 MiB/s"),
    ("perlmutter-write-64m", "write", "4,435,971.20 MiB/s"),
    ("perlmutter-read", "read", "3,818,284.19 MiB/s"),
    ("perlmutter-write-iops", "write", "24,807,129.18 IOPS"),
    ("perlmutter-read-iops", "read", "35,098,607.79 IOPS"),
    ("perlmutter-read-iops-1024", "read", "116,434,587.92 read IOPS"),
    ("summit-gpfs-2", "write", "24640.02 MiB/sec"),
    ("summit-gpfs-2", "read", "26941.26 MiB/sec"),
    ("summit-nvme-2", "write", "4173.36 MiB/sec"),
    ("summit-nvme-2", "read", "11161.54 MiB/sec"),
    ("summit-gpfs-1100", "write", "1076349.75 MiB/sec"),
    ("summit-gpfs-1100", "read", "1335291.40 MiB/sec"),
    ("summit-nvme-1100", "write", "2228057.73 MiB/sec"),
    ("summit-nvme-1100", "read", "6104023.86 MiB/sec"),
    ("summit-metadata-gpfs", "metadata", "Duration: 38.1130"),
    ("summit-metadata-nvme", "metadata", "Duration: 23.0020"),
]
UNITS = {
    "MiB/s": "MiB/s",
    "MiB/sec": "MiB/s",
    "IOP/sec": "op/s",
    "IOPS": "op/s",
    "read IOPS": "op/s",
    "write operations/sec": "op/s",
    "read operations/sec": "op/s",
}
WEBINAR = [
    ("pfs", "write,29.0104,29.0280,1.4748,131072.0000,1024.0000,28.1393,211.6576"),
    ("pfs", "write,471.6021,475.6229,0.0318,131072,1024,10.376,12.9178,8.813"),
    ("bb", "write,335.2401,337.9022,0.1326,131072.0000,1024.0000,1.6561,18.1828"),
    ("bb-nvme", "write,514.6819,517.2259,0.0776,131072.0000,1024.0000,0.1132,11.8788"),
    ("bb-nvme-ram", "write,829.3921,836.1266,0.0511,131072.0000,1024.0000,0.1179,7.3482"),
]
FIELDS = ("access", "value", "iops", "latency_s", "block_kib", "xfer_kib", "open_s", "write_s", "close_s")


def test_all_numbers_are_here() -> None:
    held = [(r.name, n.access) for r in read_recipes() for n in r.numbers if n.metric != "rate"]
    assert sorted(held) == sorted((recipe, access) for recipe, access, _ in PUBLISHED)


@pytest.mark.parametrize(("recipe", "access", "text"), PUBLISHED)
def test_digits_and_units_are_the_sources(recipe: str, access: str, text: str) -> None:
    number = next(r for r in read_recipes() if r.name == recipe).number(access)
    if text.startswith("Duration: "):
        assert (number.text, number.unit) == (text.removeprefix("Duration: "), "s")
        return
    digits, _, unit = text.partition(" ")
    assert (number.text, number.unit) == (digits.replace(",", ""), UNITS[unit])


def test_the_webinars_lines_are_the_sources() -> None:
    with (PUBLISHED_FOLDER / "webinar.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [(r["tiers"], ",".join(r[f] for f in FIELDS).rstrip(",")) for r in lines] == WEBINAR
