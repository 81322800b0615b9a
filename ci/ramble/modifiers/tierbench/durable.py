"""Says whether all that a program wrote is on the PFS, by `tierctl run --stats`: durable.py STATS

Exit status 1 and the reasons where it is not. Needs Python 3.6 and nothing else, as it runs in an experiment.
"""

import json
import sys


def reasons(stats):
    """What keeps the bytes from being on the PFS, or from counting."""
    if stats.get("mode") == "scratch":
        yield "scratch files are never on the PFS"
    if stats["exit_status"] != 0:
        yield "the program's exit status is {}".format(stats["exit_status"])
    for error in stats["errors"]:
        yield "the flush of {} failed: {}".format(error["path"], error["error"])
    for tier in stats["tiers"]:
        if tier["dirty"]:
            yield "{} bytes are still in {} alone".format(tier["dirty"], tier["name"])
    if not any(tier["bytes_in"] or tier["bytes_out"] for tier in stats["tiers"]):
        yield "no tier took or gave a byte: were the program's files below the PFS?"


def main(path):
    """Prints the numbers, then the verdict."""
    try:
        with open(path, encoding="utf-8") as file:
            stats = json.load(file)
        found = list(reasons(stats))
        print("acknowledged: {} B".format(sum(tier["bytes_in"] for tier in stats["tiers"])))
        print("spilled: {} B".format(stats["spilled"]))
        print("received: {} B".format(stats["pfs"]["bytes_written"]))
        print("drain: {} s".format(stats["drain_s"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        found = ["{}: {!r}".format(path, error)]
    for reason in found:
        print("not durable: " + reason)
    print("durable: " + ("no" if found else "yes"))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
