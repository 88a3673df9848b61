"""The tutorials contain the example files as they are, and the examples work."""

from __future__ import annotations

import csv
import re
import sys
from pathlib import Path

import pytest

import regard
from regard.config.plugins import import_file
from regard.data.synthetic.reviews import generate_reviews

DOCS = Path(__file__).parents[1] / "docs"
EXAMPLES = sorted((DOCS / "examples").glob("*.py"))
PAGES = sorted(DOCS.glob("*.md"))


@pytest.fixture
def reviews(tmp_path) -> Path:
    """A table of reviews with a class and a number of stars."""
    path = tmp_path / "reviews.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("review", "sentiment", "stars"))
        rows = generate_reviews(60, 0)
        writer.writerows((row.text, row.label, 4 if row.label == "positive" else 2) for row in rows)
    return path


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_tutorials_show_the_example_files(example):
    pages = [page for page in PAGES if f"<!-- {example.name} -->" in page.read_text(encoding="utf-8")]
    assert pages, f"no tutorial shows {example.name}"
    for page in pages:
        block = re.search(rf"<!-- {example.name} -->\n\n```python\n(.*?)```", page.read_text(encoding="utf-8"), re.S)
        assert block is not None
        assert block[1] == example.read_text(encoding="utf-8"), f"{page.name} differs from {example.name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_lead_to_files(page):
    for link in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        assert link.startswith("http") or (DOCS / link).exists(), link


def test_the_mechanism_example_fulfills_the_contract(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / "examples"))
    from regard.testing import check_mechanism

    check_mechanism(__import__("cosine_attention").CosineAttention)
    sys.modules.pop("cosine_attention")


def test_the_model_example_is_trained_and_looked_into(reviews, tmp_path):
    import_file(DOCS / "examples" / "my_classifier.py")
    options = {"text": "review", "label": "sentiment", "model": "my-classifier", "steps": 2, "progress": False}
    run = regard.train("classify", reviews, out=tmp_path / "run", **options)
    assert run.look("We loved it. It was dull.", faithful=False).data["weights"]


def test_the_task_example_is_trained(reviews, tmp_path):
    import_file(DOCS / "examples" / "my_task.py")
    settings = {
        "data": {"text": "review", "label": "stars"},
        "model": {"dim": 16, "heads": 2, "layers": 1, "hidden": 16},
    }
    run = regard.train("rate", reviews, steps=2, settings=settings, out=tmp_path / "run", progress=False)
    assert isinstance(run.predict("We loved it."), float)
