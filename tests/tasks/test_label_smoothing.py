"""Label smoothing: the classifier learns the smoothed probabilities."""

from pathlib import Path

import pytest

from regard.data.read_table import Table
from regard.errors import UserError
from regard.tasks.train import train

TABLE = Table(["a lovely day", "a dreadful day"] * 40, ["good", "bad"] * 40, [], "f", 80)


@pytest.mark.parametrize(("smoothing", "probability"), [(0.0, 1.0), (0.5, 0.75)])
def test_the_smoothed_probability_is_learned(smoothing: float, probability: float, tmp_path: Path):
    settings = {
        "label_smoothing": smoothing,
        "model": {"embed": 8, "hidden": 8, "attention": 8, "dropout": 0.0},
        "train": {"steps": 80, "lr": 0.02, "evaluate_every": 80},
    }
    run = train("classify", TABLE, model="han", out=tmp_path / "run", settings=settings, progress=False)
    assert run.predict("a dreadful day").label == "bad"
    assert run.predict("a dreadful day").probabilities["bad"] == pytest.approx(probability, abs=0.05)


def test_a_fitted_model_does_not_support_it(tmp_path: Path):
    with pytest.raises(UserError, match="does not support label_smoothing"):
        train("classify", TABLE, model="nb-svm", out=tmp_path / "r", settings={"label_smoothing": 0.1})
