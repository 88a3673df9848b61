"""The report: right numbers, right marks, curves that can be read."""

import re
from xml.etree import ElementTree

import pytest

from regard.errors import UserError
from regard.pages.learning_curves import drawing, ticks
from regard.pages.results_table import cells
from regard.pages.training_report import page


def table(values, form="number", best=None):
    return {"columns": [{"key": "v", "title": "v", "format": form, "best": best}], "rows": [{"v": v} for v in values]}


@pytest.mark.parametrize(
    ("form", "value", "shown"),
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
def test_formats(form, value, shown):
    assert cells(table([value], form))[0][0].text == shown


@pytest.mark.parametrize(
    ("best", "marked"), [("max", [False, True, True, False]), ("min", [True, False, False, False]), (None, [False] * 4)]
)
def test_the_best_is_marked_ties_together_and_gaps_never(best, marked):
    assert [row[0].best for row in cells(table([1, 3, 3, None], best=best))] == marked


def test_alone_is_not_best():
    assert not cells(table([1], best="max"))[0][0].best


@pytest.mark.parametrize("change", [{"form": "percents"}, {"best": "most"}])
def test_a_misspelt_column_is_said(change):
    with pytest.raises(UserError, match=r"did you mean 'percent'|expected 'max'"):
        cells(table([1], **change))


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0.5, 0.98), (3, 3), (0, 0), (-2, 7), (0, 123456), (1e-5, 3e-5)])
def test_ticks_cover_and_are_round(low, high):
    made = ticks(low, high, 5)
    assert made[0] <= low + 1e-12
    assert made[-1] >= high - 1e-12
    assert 2 <= len(made) <= 8


def test_curves_stay_inside_and_keep_their_order():
    curves = [{"name": "a<b", "x": [0, 10, 20], "y": [0.5, None, 0.9]}, {"name": "c", "x": [5], "y": [0.7]}]
    for width in (860, 370):
        svg = ElementTree.fromstring(drawing(curves, x_label="step", y_label="accuracy", width=width))
        paths = [e.get("d") for e in svg if e.get("class") == "curve" and "L" in e.get("d")]
        points = [tuple(map(float, p.split())) for p in paths[0][1:].split("L")]
        assert len(points) == 2  # the gap is left out
        assert points[0][0] < points[1][0]
        assert points[0][1] > points[1][1]  # up is more
        assert all(0 <= x <= width and 0 <= y <= 300 for x, y in points)
        said = [e.text for e in svg if e.tag == "text"]
        assert {"step", "accuracy", "a<b", "c", "0.5"} <= set(said)


def test_no_points_no_drawing():
    assert drawing([{"name": "a", "x": [1], "y": [float("nan")]}], x_label="", y_label="", width=400) == ""


def test_uneven_curves_are_said():
    with pytest.raises(UserError, match="2 x for 1 y"):
        drawing([{"name": "a", "x": [1, 2], "y": [1]}], x_label="", y_label="", width=400)


def test_the_same_document_stands_side_by_side(report):
    html = page(report)
    assert html.count("<article>") == 2
    assert html.count('class="model"') == 4
    first = html.split("<article>")[1]
    assert first.index("<b>han</b>") < first.index("<b>transformer</b>")
    assert 'class="evidence"' in first
    assert '<td class=" best" data-tip="0.981">98.1 %</td>' in html
    assert "train.lr" in html


def test_it_needs_nothing_from_outside(report):
    html = page(report)
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
    html = page(report)
    assert "<img" not in html
    assert html.count("<script>") == 1


def test_the_barest_report_is_a_page():
    html = page({"title": "bare", "table": table([1])})
    assert "Results" in html
    assert "<article>" not in html
    with pytest.raises(UserError, match="'table'"):
        page({"title": "bare"})
