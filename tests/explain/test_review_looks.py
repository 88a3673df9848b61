"""Looks into small classifiers of reviews: who votes, which maps are left out, what an even share is."""

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
def pair(reviews, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "han"
    return train("classify", _to_table(reviews), model="han", out=out, settings={**SMALL, "ensemble_size": 2})


def test_those_who_vote_are_counted_in_the_title(pair, reviews):
    assert pair.look(reviews[0].text, faithful=False).data["model"] == "han × 2"


def test_a_title_has_no_tags(pair):
    assert pair.look("A film!<br /><br />I left.", faithful=False).data["title"] == "A film! I left."


def test_maps_that_are_left_out_are_named(pair, reviews, monkeypatch):
    text = reviews[0].text
    sizes = {m["layer"]: m["shape"][1] * m["shape"][2] for m in pair.look(text, faithful=False).data["maps"]}
    least = min(sizes.values())
    monkeypatch.setattr(build, "MOST_CELLS", least)
    data = pair.look(text, faithful=False).data
    large = [site for site, cells in sizes.items() if cells > least]
    assert large
    assert data["notes"] == [f"Maps of more than {least:,} cells are left out: {', '.join(large)}."]
    assert build._sites([str(i) for i in range(8)]) == "0, 1, 2, 3, 4, 5 and 2 more"


def test_an_even_share_is_one_of_tokens(pair, reviews):
    _, even = measure_evidence(pair, reviews[:3])
    wanted = []
    for review in reviews[:3]:
        spans = pair.words.encode(review.text).offsets
        wanted.append(sum(any(a < end and start < b for start, end in review.evidence) for a, b in spans) / len(spans))
    assert even == pytest.approx(sum(wanted) / 3)
