"""The report: it loads nothing, equals results.json, and recommends no more than the ranks allow."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.comparison.disagreement import select_distant, select_split
from regard.comparison.formatting import format_difference, format_interval, format_metric, format_p_value
from regard.comparison.pareto import pareto_front
from regard.comparison.recommendation import recommend
from regard.pages.plots import pareto_plot


def row(name: str, rank: int, mean: float, latency: float = 0.01, vs_best: str = "", seeds: int = 3) -> dict:
    estimate = {"name": name, "rank": rank, "mean": mean, "low": mean - 0.01, "high": mean + 0.01, "vs_best": vs_best}
    return estimate | {"latency": latency, "seconds": 5.0, "seeds": list(range(seeds))}


def make_results(*rows: dict, **changes) -> dict:
    fields = {"rows": list(rows), "metric": "accuracy", "better": "max", "duplicates": {}, "items": {"test": 100}}
    return fields | {"failures": {}, "evaluated": 6, "runs": 6} | changes


def recommend_for(*rows: dict, **changes) -> str:
    return recommend(make_results(*rows, **changes), "percent", "fraction of correct labels")


def test_a_winner_is_named():
    text = recommend_for(row("han", 1, 0.93), row("cnn", 2, 0.8))
    assert text.startswith("Use han: 93.0 % (92.0 % to 94.0 %)")
    assert "significantly better than every other" in text


def test_a_winning_baseline_is_named():
    bag, net = row("nb-svm", 1, 0.93) | {"model": "nb-svm"}, row("han", 2, 0.9) | {"model": "han"}
    assert recommend_for(bag, net).startswith("A bag-of-words baseline is the best here. Use nb-svm")
    assert "bag-of-words" not in recommend_for(row("han", 1, 0.93) | {"model": "han"}, bag | {"rank": 2, "mean": 0.9})
    assert "bag-of-words" not in recommend_for(bag, row("tfidf", 2, 0.9) | {"model": "tfidf"})


def test_the_fastest_of_the_first_rank_is_recommended():
    text = recommend_for(row("han", 1, 0.93, 0.05), row("cnn", 1, 0.92, 0.01, "7 more seeds"), row("tfidf", 2, 0.5))
    assert "han and cnn are not significantly different" in text
    assert "Use cnn" in text
    assert "7 more seeds would show it" in text
    assert "Use han" not in text


def test_slightly_faster_is_not_enough():
    text = recommend_for(row("han", 1, 0.93, 0.010), row("cnn", 1, 0.92, 0.009, "7 more seeds"))
    assert "Use han: none of the others is much faster" in text


def pair(a: str, b: str, low: float, high: float, **changes) -> dict:
    return {"a": a, "b": b, "low": low, "high": high, "inconclusive": False, "seeds_for_margin": None} | changes


def test_the_upper_bound_of_another_design():
    rows, near = [row("han", 1, 0.93, 0.01), row("cnn", 1, 0.92, 0.02)], pair("cnn", "han", -0.034, 0.014)
    text = recommend_for(*rows, pairs=[near], margin=0.1)
    assert "Use han, the fastest of those that are about as good; another may be better than han by at most 1.4" in text
    lower = make_results(row("han", 1, 2.5, 0.01), row("cnn", 1, 2.6, 0.02), pairs=[pair("han", "cnn", -0.22, 0.12)])
    text = recommend(lower | {"better": "min", "metric": "loss", "margin": 0.25}, "number", "nats")
    assert "han has the lowest mean" in text
    assert "another may be better than han by at most 0.12." in text
    sure = pair("cnn", "han", -0.4, -0.05)  # not significant with so few seeds, but it is not better
    text = recommend_for(*rows, pairs=[sure], margin=0.1)
    assert "Use han. " in text
    assert "better than" not in text


def test_wide_intervals_recommend_nothing():
    inconclusive = {"inconclusive": True, "seeds_for_margin": 11, "seeds_needed": 140}
    rows = [row("han", 1, 0.53, 0.01, seeds=2), row("cnn", 1, 0.5, 0.02, seeds=2)]
    text = recommend_for(*rows, pairs=[pair("han", "cnn", -0.61, 0.67, **inconclusive)], margin=0.1)
    assert "The comparison cannot decide which to use" in text
    assert "cnn may be better than han by 61.0 points or worse by 67.0 points" in text
    assert "About 11 more seeds for each would bring that below 10.0 points" in text
    assert "140 more seeds would show the differences" in text
    assert "Use " not in text
    assert "no reason" not in text
    few = recommend_for(*rows, pairs=[pair("han", "cnn", -0.6, 0.6, inconclusive=True)], margin=0.1)
    assert "more test items are needed" in few
    one = [row("han", 1, 0.53, seeds=1), row("cnn", 1, 0.5, seeds=1)]
    assert "how many cannot be estimated from one seed" in recommend_for(
        *one, pairs=[pair("han", "cnn", -0.6, 0.6, inconclusive=True)], margin=0.1
    )


def test_equal_means():
    text = recommend_for(row("han", 1, 0.5, 0.02), row("cnn", 1, 0.5, 0.01))
    assert "Their means are equal; cnn is the fastest" in text
    assert "Use " not in text


def test_a_decided_and_an_undecided_design():
    rows = [row("han", 1, 0.93, 0.05), row("cnn", 1, 0.92, 0.01, "7 more seeds"), row("rnn", 1, 0.7, 0.001)]
    pairs = [pair("han", "cnn", -0.01, 0.03), pair("han", "rnn", -0.2, 0.6, inconclusive=True, seeds_for_margin=29)]
    text = recommend_for(*rows, pairs=pairs, margin=0.1)
    assert "Use cnn" in text
    assert "Undecided: rnn may be better than han by 20.0 points or worse by 60.0 points" in text
    assert "29 more seeds" in text


@pytest.mark.parametrize(
    ("value", "width", "text"),
    [
        *[(-9.691e-05, 0.6, "0.00"), (-9.691e-05, 0.0, "-0.00010"), (4.73123, 0.31, "4.73"), (4.73123, 0.031, "4.731")],
        *[(12345.67, 300.0, "12,346"), (0.0, 0.0, "0"), (31.234, 4.0, "31.2"), (2.5e8, 1.0, "2.5e+08")],
    ],
)
def test_numbers_have_the_digits_of_their_interval(value, width, text):
    assert format_metric(value, "number", width) == text
    assert format_difference(value, "number", width) == text


def test_formats_of_fractions_and_p_values():
    assert format_metric(0.93, "percent", 0.4) == "93.0 %"
    assert format_metric(0.93123, "percent", 0.004) == "93.12 %"
    assert format_difference(-0.00001, "percent", 0.1) == "0.0 points"
    assert format_interval(0.5, 0.92, "percent") == "50.0 % to 92.0 %"
    assert [format_p_value(p) for p in (1e-15, 0.0123, 1.0)] == ["< 0.001", "0.012", "1.000"]


def test_the_report_has_no_exponents(compared):
    page = (compared / "report.html").read_text()
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", page)
    assert cells
    assert not [cell for cell in cells if re.search(r"\de[-+]\d", cell)]


def test_caveats_are_named():
    assert "one seed" in recommend_for(row("a", 1, 0.9, seeds=1), row("b", 2, 0.5, seeds=1))
    assert "5 test items (5.0%)" in recommend_for(
        row("a", 1, 0.9), row("b", 2, 0.5), duplicates={"test in training": 5}
    )
    assert "4 of 6 runs" in recommend_for(row("a", 1, 0.9), row("b", 2, 0.5), evaluated=4)
    assert "1 runs failed" in recommend_for(row("a", 1, 0.9), row("b", 2, 0.5), failures={"b, seed 1": "why"})
    assert recommend_for() == "No run is evaluated yet."


@given(st.lists(st.tuples(st.floats(0.1, 9), st.floats(0, 1, allow_subnormal=False)), min_size=1, max_size=8))
def test_no_design_on_the_front_is_beaten(points):
    named = [(f"d{i}", c, q, q, q) for i, (c, q) in enumerate(points)]
    front = pareto_front(named, "max")
    assert front
    for name, cost, quality, *_ in named:
        beaten = any(c <= cost and q >= quality and (c, q) != (cost, quality) for _, c, q, *_ in named)
        assert (name in front) == (not beaten)
    assert {n for n, *_ in named if n in pareto_front([(n, c, -q, 0, 0) for n, c, q, *_ in named], "min")} == set(front)


def test_the_plot_names_every_design():
    points = [("a <b>", 0.5, 80.0, 78.0, 82.0), ("other", 50.0, 90.0, 88.0, 91.0)]
    svg = pareto_plot(points, pareto_front(points, "max"), x_label="seconds", y_label="accuracy", width=500)
    assert "a &lt;b&gt;" in svg
    assert 'class="front"' in svg


def test_items_with_split_designs_are_selected():
    right = np.array([[1, 1, 0, 1, 0], [1, 0, 0, 1, 1], [1, 0, 0, 0, 1], [1, 1, 0, 1, 0]], bool)
    assert select_split(right, 2) == [1, 4]
    assert select_split(right, 9) == [1, 4, 3]
    assert select_split(np.ones((2, 5), bool), 3) == []


def test_items_with_distant_designs_are_selected_in_turn():
    quality = np.array([[5.0, 1.0, 3.0, 9.0, 2.0], [1.0, 1.0, 3.5, 2.0, 4.0]])
    assert select_distant(quality, 3) == [3, 4, 0]  # best of the first design, of the second, of the first again
    assert select_distant(quality, 9) == [3, 4, 0, 2]
    assert select_distant(np.ones((2, 5)), 3) == []


def test_the_report_loads_nothing_and_equals_the_results(compared):
    page = (compared / "report.html").read_text()
    table = json.loads((compared / "results.json").read_text())
    assert not re.search(r'(src|href)="', page)
    assert "default-src 'none'" in page
    for one in table["rows"]:
        assert one["name"] in page
        assert f"{100 * one['mean']:.1f} %" in page
    for part in ("Significant differences", "Quality against cost", "Learning curves", "Disagreement"):
        assert part in page
    assert "attention on evidence" in page
    assert "faithfulness" in page
    assert 'class="front"' in page or 'class="dot on"' in page


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_opens_without_an_error(compared, width, chromium):
    page = chromium.new_page(viewport={"width": width, "height": 900})
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)
    page.goto((compared / "report.html").as_uri())
    assert page.locator("#results tbody tr").count() == 3
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert not errors
    page.close()
