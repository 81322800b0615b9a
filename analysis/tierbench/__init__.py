"""Reads tier benchmark results, judges them and writes reports.

One module a subject: `outputs` (what IOR and mdtest print), `runs` (a run folder as one table), `stats`
(intervals and tests), `predict` (what the device models promise), `verdict` (pass, fail, inconclusive),
`figures`, `flows` and `report` (the pages), `samples`, `compare`, `history` and `tables` (many runs), `trace`
(Darshan logs), `cli` (the command `tierbench`).
"""

__version__ = "0.1.0"
