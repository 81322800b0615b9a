"""What holds of every page: it explains the words that it uses, and says where; it has a dark mode."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tierbench.judge import compare
from tierbench.layout import templates, terms
from tierbench.pages import comparison_page
from tierbench.runs import samples

FOLDER = Path(templates.__path__[0])
PAGES = sorted(f.name for f in FOLDER.glob("*.html.j2") if "<body" in f.read_text())


@pytest.mark.parametrize("name", PAGES)
def test_each_page_has_a_glossary_and_a_link_to_it(name: str) -> None:
    text = (FOLDER / name).read_text()
    assert text.count('{% include "glossary.html.j2" %}') == 1
    assert '<a href="#glossary">' in text.split("</header>")[0]


def test_a_comparison_explains_its_words_and_no_others(shared_run: Path) -> None:
    made = compare.compare(samples.read_all([str(shared_run), str(shared_run)]), "run", 0.05, False)
    page = comparison_page.as_html(made)
    glossary = page.split('<section id="glossary">')[1].split("</section>")[0]
    assert "<dt>bypass</dt>" in glossary and "<dt>threshold</dt>" in glossary and terms.UNITS in glossary
    assert "<dt>acceptance</dt>" not in glossary and "<dt>I/O node</dt>" not in glossary


def test_several_of_a_thing_are_explained_as_one() -> None:
    assert [term for term, _ in terms.used("8 I/O nodes, p = 1: two twins")] == ["I/O node", "p", "twin"]
    assert terms.used("its ps and ns, in p/lat and /n") == []


def test_a_style_sheet_is_no_text() -> None:
    assert len(PAGES) >= 6
    from jinja2 import Template

    template = Template("<style>p { x }</style><b>drain</b>{% for t, _ in terms %} {{ t }}{% endfor %}")
    assert terms.page(template) == "<style>p { x }</style><b>drain</b> drain"


def test_a_comparison_has_no_white_field_on_a_dark_page(shared_run: Path) -> None:
    """What is nearly white in the picture is drawn in a colour of the page."""
    made = compare.compare(samples.read_all([str(shared_run), str(shared_run)]), "run", 0.05, False)
    picture = comparison_page.as_html(made).split("<svg")[1].split("</svg>")[0]
    assert "var(--line" in picture
    assert re.findall(r"fill: *#[ef][0-9a-f]{5}", picture) == []
