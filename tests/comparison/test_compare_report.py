"""The page: it stands alone, says what the table says, and recommends no more than the ranks allow."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.comparison.disagreement import choose, spread
from regard.comparison.formatting import chance, gap, interval, shown
from regard.comparison.pareto import drawing, front
from regard.comparison.recommendation import recommendation


def row(name: str, rank: int, mean: float, latency: float = 0.01, more: str = "", seeds: int = 3) -> dict:
    found = {"name": name, "rank": rank, "mean": mean, "low": mean - 0.01, "high": mean + 0.01, "more": more}
    return found | {"latency": latency, "seconds": 5.0, "seeds": list(range(seeds))}


def found(*rows: dict, **more) -> dict:
    same = {"rows": list(rows), "measure": "accuracy", "better": "max", "repeated": {}, "items": {"test": 100}}
    return same | {"failures": {}, "measured": 6, "runs": 6} | more


def said(*rows: dict, **more) -> str:
    return recommendation(found(*rows, **more), "percent", "share named rightly")


def test_a_winner_is_named():
    text = said(row("han", 1, 0.93), row("cnn", 2, 0.8))
    assert text.startswith("Use han: 93.0 % (92.0 % to 94.0 %)")
    assert "told apart from every other" in text


def test_a_bag_of_words_that_wins_is_told():
    bag, net = row("nb-svm", 1, 0.93) | {"model": "nb-svm"}, row("han", 2, 0.9) | {"model": "han"}
    assert said(bag, net).startswith("A bag of words wins here. Use nb-svm")
    assert "bag of words" not in said(row("han", 1, 0.93) | {"model": "han"}, bag | {"rank": 2, "mean": 0.9})
    assert "bag of words" not in said(bag, row("tfidf", 2, 0.9) | {"model": "tfidf"})


def test_of_those_that_share_the_first_rank_the_quickest_is_recommended():
    text = said(row("han", 1, 0.93, 0.05), row("cnn", 1, 0.92, 0.01, "7 more seeds"), row("tfidf", 2, 0.5))
    assert "han and cnn cannot be told apart" in text
    assert "Use cnn" in text
    assert "7 more seeds would tell" in text
    assert "Use han" not in text


def test_a_little_quicker_is_no_reason():
    text = said(row("han", 1, 0.93, 0.010), row("cnn", 1, 0.92, 0.009, "7 more seeds"))
    assert "Use han: none of the others answers much faster" in text


def pair(a: str, b: str, low: float, high: float, **more) -> dict:
    return {"a": a, "b": b, "low": low, "high": high, "wide": False, "narrow": None} | more


def test_another_may_be_better_by_at_most_so_much():
    rows, near = [row("han", 1, 0.93, 0.01), row("cnn", 1, 0.92, 0.02)], pair("cnn", "han", -0.034, 0.014)
    text = said(*rows, pairs=[near], margin=0.1)
    assert (
        "Use han, which answers fastest of those about as good; another may be better than han by at most 1.4" in text
    )
    lower = found(row("han", 1, 2.5, 0.01), row("cnn", 1, 2.6, 0.02), pairs=[pair("han", "cnn", -0.22, 0.12)])
    text = recommendation(lower | {"better": "min", "measure": "loss", "margin": 0.25}, "number", "nats")
    assert "the lowest mean has han" in text
    assert "another may be better than han by at most 0.12." in text
    sure = pair("cnn", "han", -0.4, -0.05)  # not told apart only for want of seeds: all the same it is not better
    text = said(*rows, pairs=[sure], margin=0.1)
    assert "Use han. " in text
    assert "better than" not in text


def test_intervals_as_wide_as_the_scale_recommend_nothing():
    wide = {"wide": True, "narrow": 11, "more_seeds": 140}
    rows = [row("han", 1, 0.53, 0.01, seeds=2), row("cnn", 1, 0.5, 0.02, seeds=2)]
    text = said(*rows, pairs=[pair("han", "cnn", -0.61, 0.67, **wide)], margin=0.1)
    assert "The comparison cannot tell which to use" in text
    assert "cnn may be better than han by 61.0 points or worse by 67.0 points" in text
    assert "About 11 more seeds of each would bring that below 10.0 points" in text
    assert "140 more seeds would tell them apart" in text
    assert "Use " not in text
    assert "no reason" not in text
    few = said(*rows, pairs=[pair("han", "cnn", -0.6, 0.6, wide=True)], margin=0.1)
    assert "more test items are wanted" in few
    one = [row("han", 1, 0.53, seeds=1), row("cnn", 1, 0.5, seeds=1)]
    assert "how many, one seed cannot say" in said(*one, pairs=[pair("han", "cnn", -0.6, 0.6, wide=True)], margin=0.1)


def test_where_all_are_alike_that_is_said():
    text = said(row("han", 1, 0.5, 0.02), row("cnn", 1, 0.5, 0.01))
    assert "No difference was seen at all; cnn answers fastest" in text
    assert "Use " not in text


def test_what_is_settled_is_recommended_beside_what_is_not():
    rows = [row("han", 1, 0.93, 0.05), row("cnn", 1, 0.92, 0.01, "7 more seeds"), row("rnn", 1, 0.7, 0.001)]
    pairs = [pair("han", "cnn", -0.01, 0.03), pair("han", "rnn", -0.2, 0.6, wide=True, narrow=29)]
    text = said(*rows, pairs=pairs, margin=0.1)
    assert "Use cnn" in text
    assert "Of others it cannot tell: rnn may be better than han by 20.0 points or worse by 60.0 points" in text
    assert "29 more seeds" in text


@pytest.mark.parametrize(
    ("value", "width", "written"),
    [
        *[(-9.691e-05, 0.6, "0.00"), (-9.691e-05, 0.0, "-0.00010"), (4.73123, 0.31, "4.73"), (4.73123, 0.031, "4.731")],
        *[(12345.67, 300.0, "12,346"), (0.0, 0.0, "0"), (31.234, 4.0, "31.2"), (2.5e8, 1.0, "2.5e+08")],
    ],
)
def test_figures_have_the_digits_that_their_interval_bears_out(value, width, written):
    assert shown(value, "number", width) == written
    assert gap(value, "number", width) == written


def test_shares_and_chances_for_people():
    assert shown(0.93, "percent", 0.4) == "93.0 %"
    assert shown(0.93123, "percent", 0.004) == "93.12 %"
    assert gap(-0.00001, "percent", 0.1) == "0.0 points"
    assert interval(0.5, 0.92, "percent") == "50.0 % to 92.0 %"
    assert [chance(p) for p in (1e-15, 0.0123, 1.0)] == ["< 0.001", "0.012", "1.000"]


def test_no_power_of_ten_on_the_page(compared):
    page = (compared / "report.html").read_text()
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", page)
    assert cells
    assert not [cell for cell in cells if re.search(r"\de[-+]\d", cell)]


def test_doubts_are_named():
    assert "one seed" in said(row("a", 1, 0.9, seeds=1), row("b", 2, 0.5, seeds=1))
    assert "5 test items (5.0%)" in said(row("a", 1, 0.9), row("b", 2, 0.5), repeated={"test in training": 5})
    assert "4 of 6 runs" in said(row("a", 1, 0.9), row("b", 2, 0.5), measured=4)
    assert "1 runs failed" in said(row("a", 1, 0.9), row("b", 2, 0.5), failures={"b, seed 1": "why"})
    assert said() == "Nothing is measured yet."


@given(st.lists(st.tuples(st.floats(0.1, 9), st.floats(0, 1, allow_subnormal=False)), min_size=1, max_size=8))
def test_the_front_holds_those_that_none_beats(points):
    named = [(f"d{i}", c, q, q, q) for i, (c, q) in enumerate(points)]
    kept = front(named, "max")
    assert kept
    for name, cost, quality, *_ in named:
        beaten = any(c <= cost and q >= quality and (c, q) != (cost, quality) for _, c, q, *_ in named)
        assert (name in kept) == (not beaten)
    assert {n for n, *_ in named if n in front([(n, c, -q, 0, 0) for n, c, q, *_ in named], "min")} == set(kept)


def test_the_drawing_names_everyone():
    points = [("a <b>", 0.5, 80.0, 78.0, 82.0), ("other", 50.0, 90.0, 88.0, 91.0)]
    drawn = drawing(points, x_label="seconds", y_label="accuracy", better="max", width=500)
    assert "a &lt;b&gt;" in drawn
    assert 'class="front"' in drawn


def test_items_that_part_the_designs_are_chosen():
    right = np.array([[1, 1, 0, 1, 0], [1, 0, 0, 1, 1], [1, 0, 0, 0, 1], [1, 1, 0, 1, 0]], bool)
    assert choose(right, 2) == [1, 4]
    assert choose(right, 9) == [1, 4, 3]
    assert choose(np.ones((2, 5), bool), 3) == []


def test_items_on_which_designs_are_far_apart_are_chosen_in_turn():
    quality = np.array([[5.0, 1.0, 3.0, 9.0, 2.0], [1.0, 1.0, 3.5, 2.0, 4.0]])
    assert spread(quality, 3) == [3, 4, 0]  # the first design's best, the second's, the first's again
    assert spread(quality, 9) == [3, 4, 0, 2]
    assert spread(np.ones((2, 5)), 3) == []


def test_the_page_stands_alone_and_says_what_the_table_says(compared):
    page = (compared / "report.html").read_text()
    table = json.loads((compared / "results.json").read_text())
    assert not re.search(r'(src|href)="', page)
    assert "default-src 'none'" in page
    for one in table["rows"]:
        assert one["name"] in page
        assert f"{100 * one['mean']:.1f} %" in page
    for part in ("Which can be told apart", "Quality against cost", "Learning curves", "Where they disagree"):
        assert part in page
    assert "evidence found" in page
    assert "faithfulness" in page
    assert 'class="front"' in page or 'class="dot on"' in page


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_opens_without_an_error(compared, width, chromium):
    page = chromium.new_page(viewport={"width": width, "height": 900})
    trouble: list[str] = []
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on("console", lambda line: trouble.append(line.text) if line.type == "error" else None)
    page.goto((compared / "report.html").as_uri())
    assert page.locator("#results tbody tr").count() == 3
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert not trouble
    page.close()
