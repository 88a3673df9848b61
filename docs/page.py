"""Parts of a page that are written by a program: they stand between `<!-- NAME -->` and `<!-- /NAME -->`."""

from __future__ import annotations

from pathlib import Path


def fill(page: Path, name: str, text: str) -> None:
    """Put a text there, in place of what stood there."""
    start, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    before, rest = page.read_text(encoding="utf-8").split(start)
    text = text.strip("\n")
    page.write_text(f"{before}{start}\n{text}\n\n{end}{rest.split(end)[1]}", encoding="utf-8")
