"""tb-ior finds wrong data."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

from case import LIMIT_S, PROGRAM, Case, main


class Check(Case):
    """Wrong data is found, whichever byte it is."""

    def test_flipped_byte(self) -> None:
        for at in (0, 70_001, 131_071):
            self.run_ior("-w -k -F -G 42 -t 4k -b 128k")
            self.run_ior("-r -R -k -F -G 42 -t 4k -b 128k")
            victim = Path(f"{self.file}.00000001")
            data = bytearray(victim.read_bytes())
            data[at] ^= 1
            victim.write_bytes(data)
            for check in ("-r -R", "-W -q"):
                done = self.run_ior(f"{check} -k -F -G 42 -t 4k -b 128k", status=3 if "-q" in check else 1)
                self.assertIn(f"{victim}: wrong data at offset {at - at % 8}", done.stderr)

    def test_prefill(self) -> None:
        """Larger writes, all of which -z then overwrites: nothing of the filling is left."""
        for shape in ("-F", "-s 3"):
            self.run_ior(f"-w -r -R -z -t 4k -b 64k {shape} --randomPrefill=32k")
        trace = self.folder / "trace"
        line = f"-w -z -t 4k -b 64k --randomPrefill=32k -o {self.file}"
        command = ["strace", "-f", "-e", "trace=write,pwrite64", "-o", str(trace), PROGRAM, *line.split()]
        subprocess.run(command, check=True, timeout=LIMIT_S, stdout=subprocess.DEVNULL)
        sizes = Counter(re.findall(r"= (4096|32768)$", trace.read_text(), re.M))
        self.assertEqual(sizes, {"32768": 2, "4096": 16})

    def test_other_signature(self) -> None:
        self.run_ior("-w -k -G 42 -t 4k -b 128k")
        done = self.run_ior("-r -R -k -G 43 -t 4k -b 128k", status=1)
        self.assertIn("Incorrect data on read (64 errors found)", done.stderr)


if __name__ == "__main__":
    main()
