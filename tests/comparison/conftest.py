"""Small comparisons, made once and read by many tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from comparing import asked, write_reviews

from regard.comparison import compare_designs, results

results.LOOKED, results.TAKEN_AWAY = 6, 2  # quick: looks take most of the time of a small comparison


@pytest.fixture(scope="session")
def reviews(tmp_path_factory) -> Path:
    return write_reviews(tmp_path_factory.mktemp("data") / "reviews.jsonl")


@pytest.fixture(scope="session")
def compared(tmp_path_factory, reviews) -> Path:
    """A comparison that is done; tests read it and change nothing."""
    out = tmp_path_factory.mktemp("compared") / "out"
    compare_designs(asked(reviews), out, progress=False)
    return out
