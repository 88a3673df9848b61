"""Small comparisons, made once and read by many tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from regard.compare import Asked, compare
from regard.data.reviews import generate

SMALL: dict[str, Any] = {
    "data": {"text": "text", "label": "label", "batch_tokens": 512},
    "tokenizer": {"vocab": 300},
    "train": {"lr": 0.01},
}
MODELS = ["han:embed=12,hidden=8,attention=8", "transformer:dim=16,hidden=16,layers=1,heads=2", "tfidf"]


def write_reviews(path: Path, count: int = 160) -> Path:
    rows = [{"text": r.text, "label": r.label, "evidence": r.evidence} for r in generate(count, 0)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def asked(file: Path, **changes: Any) -> Asked:
    settings = {**SMALL, "data": {**SMALL["data"], "train": str(file)}}
    given = {"task": "classify", "models": MODELS, "settings": settings, "budget": ["4steps"], "seeds": 2}
    return Asked(**(given | changes))


def silent(line: str) -> None:
    pass


@pytest.fixture(scope="session")
def reviews(tmp_path_factory) -> Path:
    return write_reviews(tmp_path_factory.mktemp("data") / "reviews.jsonl")


@pytest.fixture(scope="session")
def compared(tmp_path_factory, reviews) -> Path:
    """A comparison that is done; tests read it and change nothing."""
    out = tmp_path_factory.mktemp("compared") / "out"
    compare(asked(reviews), out, progress=False, say=silent)
    return out
