"""Small comparisons for the tests: their data, what is asked, and what the table says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from regard.comparison import Asked
from regard.data.synthetic.reviews import generate_reviews

TIMES = ("seconds", "latency")
SMALL: dict[str, Any] = {
    "data": {"text": "text", "label": "label", "batch_tokens": 512},
    "tokenizer": {"vocab_size": 300},
    "train": {"lr": 0.01},
}
MODELS = ["han:embed=12,hidden=8,attention=8", "transformer:dim=16,hidden=16,layers=1,heads=2", "tfidf"]


def write_reviews(path: Path, count: int = 160) -> Path:
    rows = [{"text": r.text, "label": r.label, "evidence": r.evidence} for r in generate_reviews(count, 0)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def asked(file: Path, **changes: Any) -> Asked:
    settings = {**SMALL, "data": {**SMALL["data"], "train": str(file)}}
    given = {"task": "classify", "models": MODELS, "settings": settings, "budget": ["4steps"], "seeds": 2}
    return Asked(**(given | changes))


def table(out: Path) -> list[dict]:
    """The rows without what the clock says."""
    rows = json.loads((out / "results.json").read_text())["rows"]
    return [{key: value for key, value in row.items() if key not in TIMES} for row in rows]
