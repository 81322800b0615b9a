"""What cannot be used, in one line that names file, place, value and what is allowed; `cli` ends with 2."""

from __future__ import annotations


class RunError(Exception):
    """A run or another source of measurements that cannot be read, or a report that cannot be written."""


class RecipeError(Exception):
    """A recipe or a published number that cannot be used."""
