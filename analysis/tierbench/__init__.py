"""Reads tier benchmark results, judges them and writes reports.

The rooms are listed in `ROOMS`. A room imports those before it and never those after it.
"""

ROOMS = (
    "base",  # what cannot be used, numbers as words, files replaced whole
    "outputs",  # what IOR, mdtest and FORGE print
    "recipes",  # what was run elsewhere
    "runs",  # what was measured here
    "judge",  # intervals, predictions, verdicts, comparisons
    "forwarding",  # how many I/O nodes, and for which job
    "layout",  # what figures and pages are made on
    "trace",  # what Darshan logs say
    "site",  # the machine at hand
    "trial",  # a program of the user's own under several configurations
    "pages",  # what people read
    "manual",  # what the command says of itself
    "commands",  # what each subcommand of `tierbench` reads and does
    "cli",  # the command `tierbench`
)
FOR_THE_SUITE = (
    "base",
    "outputs",
    "recipes",
    "runs.case",
    "judge.asked",
    "judge.io500",
    "judge.launch",
    "judge.requirement",
    "trace",
    "trial",
)  # and nothing else

__version__ = "0.1.0"
