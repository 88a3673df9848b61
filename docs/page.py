"""Results of benchmarks, and parts of a page that are written from them: they stand between `<!-- NAME -->` and
`<!-- /NAME -->`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).absolute().parent.parent


def result(name: str) -> dict[str, Any]:
    """What a benchmark has measured."""
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text())


def fill(page: Path, name: str, text: str) -> None:
    """Put a text there, in place of what stood there."""
    start, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    before, rest = page.read_text(encoding="utf-8").split(start)
    text = text.strip("\n")
    page.write_text(f"{before}{start}\n{text}\n\n{end}{rest.split(end)[1]}", encoding="utf-8")
