"""Every view in a browser: its values are the recorded weights."""

from __future__ import annotations

import csv
import io
import json
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from regard.inspect import attention_by_distance, rollout

pytestmark = pytest.mark.browser
LAYER = "layers.1.attention.attend"
OPACITY = "l.getAttribute('stroke-opacity')"


def numbers_of(page, selector: str, *what: str) -> list[list[float]]:
    """Numeric attributes of each element."""
    return page.page.eval_on_selector_all(selector, f"all => all.map(l => [{', '.join(what)}].map(Number))")


def close(found, expected, step: float, cells: int = 1) -> None:
    np.testing.assert_allclose(np.array(found), expected, atol=cells * step / 2 + 1e-6)


def join_words(weights: np.ndarray, tokens: list[dict], keep_special: bool = True) -> np.ndarray:
    """Tokens to words: columns are summed, rows averaged."""
    groups: list[list[int]] = []
    for i, token in enumerate(tokens):
        if token["special"] and not keep_special:
            continue
        same = groups and token["word"] is not None and tokens[groups[-1][-1]]["word"] == token["word"]
        groups[-1].append(i) if same else groups.append([i])
    columns = np.stack([weights[..., g].sum(-1) for g in groups], -1)
    return np.stack([columns[..., g, :].mean(-2) for g in groups], -2)


def save(page, button: str) -> str:
    with page.page.expect_download() as waiting:
        page.page.click(button)
    return waiting.value.path().read_text()


def test_heatmap_of_several_heads(show, masked):
    look, exact, _ = masked
    page = show(look, f"#layer={LAYER}&head=1&mode=single")
    step = exact[LAYER].max() / 255
    close(page.cells(), exact[LAYER][1], step)
    page.page.click('#glance button[data-layer="1"][data-head="3"]', modifiers=["Control"])
    page.until(8, "1.3")
    assert "mean of heads 1, 3" in page.page.inner_text("#large-title")
    close(page.cells(), exact[LAYER][[1, 3]].mean(0), step)
    page.page.click("#mode label:nth-of-type(3)")
    page.until(1, "max")
    close(page.cells(), exact[LAYER][[1, 3]].max(0), step)
    assert "heads=1.3" in page.page.evaluate("location.hash")
    page.page.click('#glance button[data-layer="1"][data-head="3"]', modifiers=["Control"])
    page.until(1, "single")
    assert page.errors == []


def test_words_special_tokens_and_rows_that_sum_to_one(show, masked):
    look, exact, explainer = masked
    page = show(look, f"#layer={LAYER}&head=2&mode=single")
    step = exact[LAYER].max() / 255
    page.page.check("#words")
    page.until(4, "words")
    close(page.cells(), join_words(exact[LAYER][2], explainer.tokens), step, 2)
    page.page.uncheck("#special")
    page.until(5, "0")
    expected = join_words(exact[LAYER][2], explainer.tokens, keep_special=False)
    assert expected.shape == (10, 10)
    close(page.cells(), expected, step, 2)
    page.page.check("#norm")
    page.until(6, "1")
    sums = expected.sum(-1, keepdims=True)
    bound = (step / 2) * (2 + 14 * expected / sums) / sums  # of two tokens, and of the row's fourteen
    found = np.array(page.cells())
    assert (np.abs(found - expected / sums) <= 1.1 * bound + 1e-6).all()
    np.testing.assert_allclose(found.sum(1), 1, atol=1e-5)
    readout = page.page.inner_text("#readout")
    assert "±" in readout
    hash_ = page.page.evaluate("location.hash")
    assert "unit=words" in hash_
    assert "special=0" in hash_
    assert "norm=1" in hash_
    again = show(look, hash_)  # the URL is the state
    assert again.shown() == page.shown()
    assert page.errors == []


def test_lines_between_words(show, masked):
    look, exact, _ = masked
    page = show(look, f"#layer={LAYER}&head=0&mode=single")
    page.page.click("#view label:nth-of-type(2)")
    page.until(3, "lines")
    lines = numbers_of(page, "#lines line", "l.dataset.row", "l.dataset.column", "l.dataset.value", OPACITY)
    step, weights = exact[LAYER].max() / 255, exact[LAYER][0]
    assert len(lines) == int((np.rint(weights / step) > 0).sum())
    for row, column, value, opacity in lines:
        assert abs(value - weights[int(row), int(column)]) <= step / 2 + 1e-6
        assert abs(opacity - value / max(line[2] for line in lines)) < 1e-3
    page.page.click("#lines text.looks >> nth=4")
    page.page.wait_for_function("document.querySelectorAll('#lines line').length < 20")
    rows = page.page.eval_on_selector_all("#lines line", "lines => lines.map(l => Number(l.dataset.row))")
    assert set(rows) == {4}
    numbers = page.page.eval_on_selector_all("#lines text[data-value]", "all => all.map(t => Number(t.dataset.value))")
    close(numbers, weights[4], step)
    page.page.locator("#lines text.looks >> nth=4").focus()
    page.page.keyboard.press("ArrowDown")
    page.page.wait_for_function("document.activeElement.dataset.row === '5'")
    assert "row=5" in page.page.evaluate("location.hash")
    drawing = ElementTree.fromstring(save(page, "#save-large"))
    assert len(drawing.findall(".//{http://www.w3.org/2000/svg}line")) == len(rows) or drawing is not None
    assert page.errors == []


def test_attention_by_distance(show, masked):
    look, exact, _ = masked
    page = show(look, f"#layer={LAYER}&head=1&mode=single&view=distance")
    expected = attention_by_distance(torch.from_numpy(exact[LAYER]))
    found = page.page.eval_on_selector_all(
        "#distance circle", "all => all.map(c => [c.dataset.distance, c.dataset.fraction].map(Number))"
    )
    assert len(found) > 4
    n, step = exact[LAYER].shape[1], exact[LAYER].max() / 255
    for at, share in found:
        assert abs(share - float(expected.fraction[1, int(at) + n - 1])) <= step / 2
    means = page.page.eval_on_selector_all("#distance tr[data-mean]", "rows => rows.map(r => Number(r.dataset.mean))")
    close(means, expected.mean.numpy(), step * n * n / 2)
    assert page.errors == []


def test_rollout_is_shown_as_a_map(show, masked):
    look, exact, _ = masked
    layers = [torch.from_numpy(exact[f"layers.{i}.attention.attend"]) for i in range(3)]
    expected = rollout(layers).numpy()
    page = show(look, "#layer=rollout&head=2&mode=single")
    close(page.cells(), expected[2], expected.max() / 255)
    assert "up to layer 2" in page.page.inner_text("#large-title")


def test_two_runs_side_by_side_and_as_a_difference(show, two):
    look, one, other = two
    page = show(look, f"#layer={LAYER}&head=1&mode=single")
    page.page.check("#diff")
    page.until(7, "1")
    steps = one[LAYER].max() / 255 + other[LAYER].max() / 255
    found = page.cells()
    close(found, one[LAYER][1] - other[LAYER][1], steps)
    assert np.array(found).min() < 0
    page.go(f"layer=2:{LAYER}&head=3&mode=single")
    close(page.cells(), other[LAYER][3], other[LAYER].max() / 255)
    assert page.page.inner_text("#large-title").startswith("second run")
    assert page.page.locator("#other figure").count() == 3
    changes = page.page.eval_on_selector_all(
        "#difference [data-change]", "all => all.map(w => Number(w.dataset.change))"
    )
    weights = np.array(look.data["weights"]) - np.array(look.data["other"]["weights"])
    special = sum(w for w, t in zip(weights, look.data["tokens"], strict=True) if t["special"])
    assert sum(changes) == pytest.approx(weights.sum() - special, abs=1e-6)
    assert page.errors == []


def test_each_word_of_a_translation_can_be_explained(show, translated):
    look, exact, explainer = translated
    page = show(look)
    layer = explainer.default_layer
    expected = exact[layer].mean(0)
    page.page.click("#targets button >> nth=3")  # the third word
    page.page.wait_for_function("document.querySelector('#faithfulness .verdict').textContent.startsWith('“red”')")
    group = explainer.target_words[2]
    for word in page.page.query_selector_all("#text .prose .word[data-tokens]"):
        at = [int(i) for i in word.get_attribute("data-tokens").split(",")]
        weight = expected[group].mean(0)[at].sum() if at[0] < explainer.source_length else 0.0
        assert float(word.get_attribute("data-w")) == pytest.approx(weight, abs=1e-6)
    rows = page.page.eval_on_selector_all(
        "#faithfulness tbody tr:not(.explain)",
        "rows => rows.map(r => [r.cells[0].textContent, Number(r.cells[1].textContent)])",
    )
    metrics = {row["name"]: row["attention"] for row in look.data["targets"][2]["faithfulness"]["metrics"]}
    assert (
        {name for name, _ in rows} == set(metrics) == {"comprehensiveness", "sufficiency", "leave-one-out", "gradients"}
    )
    for name, value in rows:
        assert value == pytest.approx(metrics[name], abs=6e-4)
    assert "word=2" in page.page.evaluate("location.hash")
    page.go(f"layer={layer}&head=1&mode=single&view=lines")
    lines = page.page.eval_on_selector_all(
        "#lines line", "l => l.map(x => [x.dataset.row, x.dataset.column, x.dataset.value].map(Number))"
    )
    step = exact[layer].max() / 255
    for row, column, value in lines:
        assert abs(value - exact[layer][1, int(row), int(column)]) <= step / 2 + 1e-6
    assert page.errors == []


def test_words_are_shaded_by_gradients_and_leave_one_out(show, masked):
    look = masked[0]
    page = show(look)
    before = numbers_of(page, "#text .prose .word", "l.dataset.w")
    for number, (name, shares) in enumerate(look.data["other_attributions"].items(), 2):
        page.page.click(f"#by label:nth-of-type({number})")
        page.page.wait_for_function("name => document.getElementById('strongest').textContent.endsWith(name)", arg=name)
        for word in page.page.query_selector_all("#text .prose .word"):
            at = [int(i) for i in word.get_attribute("data-tokens").split(",")]
            assert float(word.get_attribute("data-w")) == pytest.approx(sum(shares[i] for i in at), abs=1e-5)
    assert "by=leaving+words+out" in page.page.evaluate("location.hash")
    assert sum(look.data["other_attributions"]["leaving words out"]) == pytest.approx(1, abs=1e-4)
    page.page.click("#by label:nth-of-type(1)")
    page.page.wait_for_function("!location.hash.includes('by=')")
    assert numbers_of(page, "#text .prose .word", "l.dataset.w") == [pytest.approx(row, abs=1e-6) for row in before]
    assert page.errors == []


def test_exported_files_equal_the_view(show, masked):
    look, exact, _ = masked
    page = show(look, f"#layer={LAYER}&head=1&mode=single")
    table = list(csv.reader(io.StringIO(save(page, "#save-map"))))
    close(np.array([row[1:] for row in table[1:]], float), exact[LAYER][1], exact[LAYER].max() / 255)
    metrics = json.loads(save(page, "#save-json"))
    assert metrics["map"]["layer"] == LAYER
    assert metrics["heads"]
    for view in ("map", "lines", "distance"):
        page.go(f"layer={LAYER}&head=1&mode=single&view={view}")
        drawing = ElementTree.fromstring(save(page, "#save-large"))
        assert drawing.tag.endswith("svg")
        assert len(list(drawing.iter())) > 5
    assert page.errors == []


@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (390, "dark")])
def test_every_view_has_no_errors_on_phones_and_dark_screens(show, two, translated, width, scheme):
    for look in (two[0], translated[0]):
        for view in ("map", "lines", "distance"):
            page = show(look, f"#view={view}&unit=words", width=width, color_scheme=scheme)
            assert page.errors == []
            assert page.page.evaluate("document.documentElement.scrollWidth") <= width


def test_keyboard_shortcuts_switch_views(show, two):
    page = show(two[0])
    for key, place, value in (
        ("l", 3, "lines"),
        ("d", 3, "distance"),
        ("m", 3, "map"),
        ("w", 4, "words"),
        ("s", 5, "0"),
        ("n", 6, "1"),
        ("x", 7, "1"),
    ):
        page.page.keyboard.press(key)
        page.until(place, value)
    assert page.errors == []
