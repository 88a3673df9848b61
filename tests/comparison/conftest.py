"""A small comparison that many tests read."""

from __future__ import annotations

from pathlib import Path

import pytest
from comparison_helpers import run, small_request, write_reviews

from regard.comparison import collect_results

# Attention maps take most of the time of a small comparison.
collect_results.NUM_EVIDENCE_ITEMS, collect_results.NUM_FAITHFULNESS_ITEMS = 6, 2


@pytest.fixture(scope="session")
def reviews(tmp_path_factory) -> Path:
    return write_reviews(tmp_path_factory.mktemp("data") / "reviews.jsonl")


@pytest.fixture(scope="session")
def compared(tmp_path_factory, reviews) -> Path:
    """The folder of a finished comparison; tests must not change it."""
    out = tmp_path_factory.mktemp("compared") / "out"
    run(small_request(reviews), out)
    return out
