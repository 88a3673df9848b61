"""Small comparisons for the tests: data, requests and results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from regard.comparison import ComparisonRequest, run_comparison
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


def small_request(file: Path, **changes: Any) -> ComparisonRequest:
    settings = {**SMALL, "data": {**SMALL["data"], "train": str(file)}}
    fields = {"task": "classify", "models": MODELS, "settings": settings, "budget": ["4steps"], "seeds": 2}
    return ComparisonRequest(**(fields | changes))


def run(request: ComparisonRequest, out: Path, on: str = "local") -> dict[str, Any]:
    """Run a comparison and return the content of results.json."""
    return run_comparison(request, out, on=on, progress=False).data


def rows_without_times(out: Path) -> list[dict]:
    rows = json.loads((out / "results.json").read_text())["rows"]
    return [{key: value for key, value in row.items() if key not in TIMES} for row in rows]
