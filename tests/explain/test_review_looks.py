"""Looks of small review classifiers: ensembles, omitted maps, and the uniform baseline of evidence."""

from __future__ import annotations

import pytest

from regard.data.synthetic.reviews import generate_reviews
from regard.demo.reviews_demo import _to_table, measure_evidence
from regard.explain import build
from regard.tasks.train import train

SMALL = {"train": {"steps": 2, "evaluate_every": 2}, "model": {"embed": 8, "hidden": 8}}


@pytest.fixture(scope="module")
def reviews():
    return generate_reviews(40, 0)


@pytest.fixture(scope="module")
def ensemble(reviews, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "han"
    return train("classify", _to_table(reviews), model="han", out=out, settings={**SMALL, "ensemble_size": 2})


def test_the_ensemble_size_is_in_the_model_name(ensemble, reviews):
    assert ensemble.look(reviews[0].text, faithful=False).data["model"] == "han × 2"


def test_a_title_has_no_tags(ensemble):
    assert ensemble.look("A film!<br /><br />I left.", faithful=False).data["title"] == "A film! I left."


def test_omitted_maps_are_listed(ensemble, reviews, monkeypatch):
    text = reviews[0].text
    sizes = {m["layer"]: m["shape"][1] * m["shape"][2] for m in ensemble.look(text, faithful=False).data["maps"]}
    least = min(sizes.values())
    monkeypatch.setattr(build, "MAX_CELLS", least)
    data = ensemble.look(text, faithful=False).data
    large = [layer for layer, cells in sizes.items() if cells > least]
    assert large
    assert data["notes"] == [f"Maps of more than {least:,} cells are left out: {', '.join(large)}."]
    assert build._list_layers([str(i) for i in range(8)]) == "0, 1, 2, 3, 4, 5 and 2 more"


def test_the_uniform_baseline_is_the_fraction_of_tokens(ensemble, reviews):
    _, even = measure_evidence(ensemble, reviews[:3])
    expected = []
    for review in reviews[:3]:
        spans = ensemble.tokenizer.encode(review.text).offsets
        expected.append(
            sum(any(a < end and start < b for start, end in review.evidence) for a, b in spans) / len(spans)
        )
    assert even == pytest.approx(sum(expected) / 3)
