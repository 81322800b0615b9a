"""Reads tier benchmark results, judges them and writes reports.

Rooms, the lowest first; a room imports those before it and never those after it: `base` (messages, numbers
as words), `outputs` (what IOR and mdtest print), `recipes` (what was run elsewhere), `runs` (what was
measured here), `judge` (intervals, predictions, verdicts), `layout` (what pages are made on), `trace` (Darshan logs),
`pages` (what people read), and `cli`, the command `tierbench`.
"""

__version__ = "0.1.0"
