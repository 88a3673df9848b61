"""Label smoothing: a classifier learns to be as sure as it is told to be."""

from pathlib import Path

import pytest

from regard.data.read_table import Table
from regard.errors import UserError
from regard.tasks.train import train

TABLE = Table(["a lovely day", "a dreadful day"] * 40, ["good", "bad"] * 40, [], "f", 80)


@pytest.mark.parametrize(("smoothing", "sure"), [(0.0, 1.0), (0.5, 0.75)])
def test_learns_chances_that_are_less_sure(smoothing: float, sure: float, tmp_path: Path):
    settings = {
        "label_smoothing": smoothing,
        "model": {"embed": 8, "hidden": 8, "attention": 8, "dropout": 0.0},
        "train": {"steps": 80, "lr": 0.02, "evaluate_every": 80},
    }
    run = train("classify", TABLE, model="han", out=tmp_path / "run", settings=settings, progress=False)
    assert run.predict("a dreadful day").label == "bad"
    assert run.predict("a dreadful day").probabilities["bad"] == pytest.approx(sure, abs=0.05)


def test_what_is_fitted_takes_labels_as_they_are(tmp_path: Path):
    with pytest.raises(UserError, match="leave smoothing out"):
        train("classify", TABLE, model="nb-svm", out=tmp_path / "r", settings={"label_smoothing": 0.1})
