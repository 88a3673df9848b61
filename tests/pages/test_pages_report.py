"""The training report: number formats, marks of the best values, and plots."""

import re
from xml.etree import ElementTree

import pytest

from regard.errors import UserError
from regard.pages.plots import line_plot, linear_ticks
from regard.pages.results_table import format_table
from regard.pages.training_report import render_report


def table(values, form="number", best=None):
    return {"columns": [{"key": "v", "title": "v", "format": form, "best": best}], "rows": [{"v": v} for v in values]}


@pytest.mark.parametrize(
    ("form", "value", "text"),
    [
        ("percent", 0.98149, "98.1 %"),
        ("number", 3.14159, "3.142"),
        ("int", 1204511, "1\u202f204\u202f511"),
        ("seconds", 0.412, "0.41 s"),
        ("seconds", 7.24, "7.2 s"),
        ("seconds", 41.7, "42 s"),
        ("seconds", 185, "3 min 05 s"),
        ("seconds", 7260, "2 h 01 min"),
        ("text", "a", "a"),
        ("percent", None, "–"),
        ("percent", float("nan"), "–"),
    ],
)
def test_number_formats(form, value, text):
    assert format_table(table([value], form))[0][0].text == text


@pytest.mark.parametrize(
    ("best", "marked"), [("max", [False, True, True, False]), ("min", [True, False, False, False]), (None, [False] * 4)]
)
def test_the_best_values_are_marked(best, marked):
    assert [row[0].best for row in format_table(table([1, 3, 3, None], best=best))] == marked


def test_a_single_row_is_not_best():
    assert not format_table(table([1], best="max"))[0][0].best


@pytest.mark.parametrize("change", [{"form": "percents"}, {"best": "most"}])
def test_a_misspelled_column_is_reported(change):
    with pytest.raises(UserError, match=r"did you mean 'percent'|expected 'max'"):
        format_table(table([1], **change))


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0.5, 0.98), (3, 3), (0, 0), (-2, 7), (0, 123456), (1e-5, 3e-5)])
def test_ticks_cover_the_range(low, high):
    ticks = linear_ticks(low, high, 5)
    assert ticks[0] <= low + 1e-12
    assert ticks[-1] >= high - 1e-12
    assert 2 <= len(ticks) <= 8


def test_curves_are_inside_the_plot():
    curves = [{"name": "a<b", "x": [0, 10, 20], "y": [0.5, None, 0.9]}, {"name": "c", "x": [5], "y": [0.7]}]
    for width in (860, 370):
        svg = ElementTree.fromstring(line_plot(curves, x_label="step", y_label="accuracy", width=width))
        paths = [e.get("d") for e in svg if e.get("class") == "curve" and "L" in e.get("d")]
        points = [tuple(map(float, p.split())) for p in paths[0][1:].split("L")]
        assert len(points) == 2  # the gap is left out
        assert points[0][0] < points[1][0]
        assert points[0][1] > points[1][1]  # up is more
        assert all(0 <= x <= width and 0 <= y <= 300 for x, y in points)
        texts = [e.text for e in svg if e.tag == "text"]
        assert {"step", "accuracy", "a<b", "c", "0.5"} <= set(texts)


def test_no_points_give_no_plot():
    assert line_plot([{"name": "a", "x": [1], "y": [float("nan")]}], x_label="", y_label="", width=400) == ""


def test_curves_of_unequal_lengths_are_reported():
    with pytest.raises(UserError, match="2 x for 1 y"):
        line_plot([{"name": "a", "x": [1, 2], "y": [1]}], x_label="", y_label="", width=400)


def test_looks_at_the_same_text_are_side_by_side(report):
    html = render_report(report)
    assert html.count("<article>") == 2
    assert html.count('class="model"') == 4
    first = html.split("<article>")[1]
    assert first.index("<b>han</b>") < first.index("<b>transformer</b>")
    assert 'class="evidence"' in first
    assert '<td class=" best" data-tip="0.981">98.1 %</td>' in html
    assert "train.lr" in html


def test_no_external_resources_in_the_report(report):
    html = render_report(report)
    assert not re.search(r"""(src|href)\s*=|@import|url\(""", html)


def test_everything_is_escaped(report, hostile):
    attack = hostile["title"]
    report.update(
        title=attack,
        lead=attack,
        curve_title=attack,
        notes=[attack],
        settings={attack: attack},
        machine={attack: attack},
    )
    report["table"]["columns"][1].update(title=attack, explain=attack)
    report["table"]["rows"][0]["model"] = attack
    report["curves"][0]["name"] = attack
    report["examples"] = [hostile]
    html = render_report(report)
    assert "<img" not in html
    assert html.count("<script>") == 1


def test_a_minimal_report_is_rendered():
    html = render_report({"title": "bare", "table": table([1])})
    assert "Results" in html
    assert "<article>" not in html
    with pytest.raises(UserError, match="'table'"):
        render_report({"title": "bare"})
