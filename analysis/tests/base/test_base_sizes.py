from __future__ import annotations

from pathlib import Path

import pytest

from tierbench.base import sizes, strict_yaml
from tierbench.base.errors import RecipeError, RunError


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("47008", 47008),
        ("4k", 4096),
        ("4K", 4096),
        ("3m", 3 << 20),
        ("2g", 2 << 30),
        ("1t", 1 << 40),
        ("0", 0),
        ("", None),
        ("k", None),
        ("1.5m", None),
        ("4kk", None),
        ("4 k", None),
        ("-1", None),
        ("\u0663k", None),
    ],
)
def test_sizes_of_options(text: str, size: int | None) -> None:
    assert sizes.of_option(text) == size


@pytest.mark.parametrize("error", [RunError, RecipeError])
def test_yaml_that_cannot_be_read_names_its_file(tmp_path: Path, error: type[Exception]) -> None:
    bad = tmp_path / "bad.yaml"
    unread, no_text = "cannot be read: ", "is not text: .*"
    for content, told in (
        (b"a: [1", f"{unread}.*line 1"),
        (b"a: 1\nb: {c: 2, d: 3, c: 4}\n", f"{unread}'c' is there twice .*line 2"),
        (b"\xff", f"{no_text}UTF-8"),
        (None, f"{unread}No such"),
    ):
        bad.unlink(missing_ok=True)
        if content is not None:
            bad.write_bytes(content)
        with pytest.raises(error, match=rf"bad\.yaml: {told}") as caught:
            strict_yaml.read(bad, error)
        assert "\n" not in str(caught.value)
