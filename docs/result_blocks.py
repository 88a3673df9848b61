"""Results of benchmarks, and the blocks of a page that are generated from them: the lines between `<!-- NAME -->` and
`<!-- /NAME -->`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).absolute().parent.parent


def read_result(name: str) -> dict[str, Any]:
    """Read the result file of a benchmark."""
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text())


def fill_block(page: Path, name: str, text: str) -> None:
    """Replace the block of a page by this text."""
    start, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    before, rest = page.read_text(encoding="utf-8").split(start)
    text = text.strip("\n")
    page.write_text(f"{before}{start}\n{text}\n\n{end}{rest.split(end)[1]}", encoding="utf-8")
