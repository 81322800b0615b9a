"""The templates of every page; a page requests nothing from anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tierbench.base.text import size

if TYPE_CHECKING:
    import jinja2


def templates() -> jinja2.Environment:
    """Templates with everything escaped."""
    import jinja2

    made = jinja2.Environment(
        loader=jinja2.PackageLoader("tierbench.layout"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    made.filters["unbroken"] = lambda interval: interval.replace(" – ", "\u00a0–\u00a0").replace(
        " %", "\u00a0%"
    )
    made.filters["size"] = lambda count: "–" if count is None else size(count)
    return made
