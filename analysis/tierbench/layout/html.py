"""The templates of every page; a page requests nothing from anywhere."""

from __future__ import annotations

import jinja2

from tierbench.base.text import size


def templates() -> jinja2.Environment:
    """Templates with everything escaped."""
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
