"""Every view in a real browser: what is read off the page is what `record` saw."""

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
SITE = "layers.1.attention.attend"
OPACITY = "l.getAttribute('stroke-opacity')"


def numbers_of(page, selector: str, *what: str) -> list[list[float]]:
    """These numbers of each element."""
    return page.page.eval_on_selector_all(selector, f"all => all.map(l => [{', '.join(what)}].map(Number))")


def close(found, wanted, step: float, cells: int = 1) -> None:
    np.testing.assert_allclose(np.array(found), wanted, atol=cells * step / 2 + 1e-6)


def joined(weights: np.ndarray, tokens: list[dict], keep_special: bool = True) -> np.ndarray:
    """Pieces to words by hand: columns summed, rows averaged."""
    groups: list[list[int]] = []
    for i, token in enumerate(tokens):
        if token["special"] and not keep_special:
            continue
        same = groups and token["word"] is not None and tokens[groups[-1][-1]]["word"] == token["word"]
        groups[-1].append(i) if same else groups.append([i])
    columns = np.stack([weights[..., g].sum(-1) for g in groups], -1)
    return np.stack([columns[..., g, :].mean(-2) for g in groups], -2)


def saved(page, button: str) -> str:
    with page.page.expect_download() as waiting:
        page.page.click(button)
    return waiting.value.path().read_text()


def test_heatmap_of_heads_chosen_at_once(show, masked):
    look, exact, _ = masked
    page = show(look, f"#site={SITE}&head=1&mode=single")
    step = exact[SITE].max() / 255
    close(page.cells(), exact[SITE][1], step)
    page.page.click('#glance button[data-site="1"][data-head="3"]', modifiers=["Control"])
    page.until(8, "1.3")
    assert "mean of heads 1, 3" in page.page.inner_text("#large-title")
    close(page.cells(), exact[SITE][[1, 3]].mean(0), step)
    page.page.click("#mode label:nth-of-type(3)")
    page.until(1, "max")
    close(page.cells(), exact[SITE][[1, 3]].max(0), step)
    assert "heads=1.3" in page.page.evaluate("location.hash")
    page.page.click('#glance button[data-site="1"][data-head="3"]', modifiers=["Control"])
    page.until(1, "single")
    assert page.errors == []


def test_words_special_tokens_and_rows_that_sum_to_one(show, masked):
    look, exact, subject = masked
    page = show(look, f"#site={SITE}&head=2&mode=single")
    step = exact[SITE].max() / 255
    page.page.check("#words")
    page.until(4, "words")
    close(page.cells(), joined(exact[SITE][2], subject.tokens), step, 2)
    page.page.uncheck("#special")
    page.until(5, "0")
    wanted = joined(exact[SITE][2], subject.tokens, keep_special=False)
    assert wanted.shape == (10, 10)
    close(page.cells(), wanted, step, 2)
    page.page.check("#norm")
    page.until(6, "1")
    sums = wanted.sum(-1, keepdims=True)
    bound = (step / 2) * (2 + 14 * wanted / sums) / sums  # of two tokens, and of the row's fourteen
    found = np.array(page.cells())
    assert (np.abs(found - wanted / sums) <= 1.1 * bound + 1e-6).all()
    np.testing.assert_allclose(found.sum(1), 1, atol=1e-5)
    said = page.page.inner_text("#readout")
    assert "±" in said
    hash_ = page.page.evaluate("location.hash")
    assert "unit=words" in hash_
    assert "special=0" in hash_
    assert "norm=1" in hash_
    again = show(look, hash_)  # the address is the state
    assert again.shown() == page.shown()
    assert page.errors == []


def test_lines_between_words(show, masked):
    look, exact, _ = masked
    page = show(look, f"#site={SITE}&head=0&mode=single")
    page.page.click("#view label:nth-of-type(2)")
    page.until(3, "lines")
    lines = numbers_of(page, "#lines line", "l.dataset.row", "l.dataset.column", "l.dataset.value", OPACITY)
    step, weights = exact[SITE].max() / 255, exact[SITE][0]
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
    drawn = ElementTree.fromstring(saved(page, "#save-large"))
    assert len(drawn.findall(".//{http://www.w3.org/2000/svg}line")) == len(rows) or drawn is not None
    assert page.errors == []


def test_attention_by_distance(show, masked):
    look, exact, _ = masked
    page = show(look, f"#site={SITE}&head=1&mode=single&view=distance")
    wanted = attention_by_distance(torch.from_numpy(exact[SITE]))
    found = page.page.eval_on_selector_all(
        "#distance circle", "all => all.map(c => [c.dataset.at, c.dataset.share].map(Number))"
    )
    assert len(found) > 4
    n, step = exact[SITE].shape[1], exact[SITE].max() / 255
    for at, share in found:
        assert abs(share - float(wanted.fraction[1, int(at) + n - 1])) <= step / 2
    means = page.page.eval_on_selector_all("#distance tr[data-mean]", "rows => rows.map(r => Number(r.dataset.mean))")
    close(means, wanted.mean.numpy(), step * n * n / 2)
    assert page.errors == []


def test_rollout_is_a_map_like_any_other(show, masked):
    look, exact, _ = masked
    layers = [torch.from_numpy(exact[f"layers.{i}.attention.attend"]) for i in range(3)]
    wanted = rollout(layers).numpy()
    page = show(look, "#site=rollout&head=2&mode=single")
    close(page.cells(), wanted[2], wanted.max() / 255)
    assert "up to layer 2" in page.page.inner_text("#large-title")


def test_two_runs_side_by_side_and_as_a_difference(show, two):
    look, one, other = two
    page = show(look, f"#site={SITE}&head=1&mode=single")
    page.page.check("#diff")
    page.until(7, "1")
    steps = one[SITE].max() / 255 + other[SITE].max() / 255
    found = page.cells()
    close(found, one[SITE][1] - other[SITE][1], steps)
    assert np.array(found).min() < 0
    page.go(f"site=2:{SITE}&head=3&mode=single")
    close(page.cells(), other[SITE][3], other[SITE].max() / 255)
    assert page.page.inner_text("#large-title").startswith("second run")
    assert page.page.locator("#other figure").count() == 3
    changes = page.page.eval_on_selector_all(
        "#difference [data-change]", "all => all.map(w => Number(w.dataset.change))"
    )
    weights = np.array(look.data["weights"]) - np.array(look.data["other"]["weights"])
    special = sum(w for w, t in zip(weights, look.data["tokens"], strict=True) if t["special"])
    assert sum(changes) == pytest.approx(weights.sum() - special, abs=1e-6)
    assert page.errors == []


def test_each_word_of_a_translation_can_be_asked_about(show, translated):
    look, exact, subject = translated
    page = show(look)
    site = subject.speaking
    wanted = exact[site].mean(0)
    page.page.click("#asked button >> nth=3")  # the third word
    page.page.wait_for_function("document.querySelector('#faithfulness .verdict').textContent.startsWith('“red”')")
    group = subject.groups[2]
    for word in page.page.query_selector_all("#text .prose .word[data-tokens]"):
        at = [int(i) for i in word.get_attribute("data-tokens").split(",")]
        weight = wanted[group].mean(0)[at].sum() if at[0] < subject.m else 0.0
        assert float(word.get_attribute("data-w")) == pytest.approx(weight, abs=1e-6)
    rows = page.page.eval_on_selector_all(
        "#faithfulness tbody tr:not(.explain)",
        "rows => rows.map(r => [r.cells[0].textContent, Number(r.cells[1].textContent)])",
    )
    told = {row["measure"]: row["attention"] for row in look.data["questions"][2]["faithfulness"]["rows"]}
    assert {name for name, _ in rows} == set(told) == {"comprehensiveness", "sufficiency", "leave-one-out", "gradients"}
    for name, value in rows:
        assert value == pytest.approx(told[name], abs=6e-4)
    assert "word=2" in page.page.evaluate("location.hash")
    page.go(f"site={site}&head=1&mode=single&view=lines")
    lines = page.page.eval_on_selector_all(
        "#lines line", "l => l.map(x => [x.dataset.row, x.dataset.column, x.dataset.value].map(Number))"
    )
    step = exact[site].max() / 255
    for row, column, value in lines:
        assert abs(value - exact[site][1, int(row), int(column)]) <= step / 2 + 1e-6
    assert page.errors == []


def test_words_shaded_by_gradients_and_by_leaving_them_out(show, masked):
    look = masked[0]
    page = show(look)
    before = numbers_of(page, "#text .prose .word", "l.dataset.w")
    for number, (name, shares) in enumerate(look.data["instead"].items(), 2):
        page.page.click(f"#by label:nth-of-type({number})")
        page.page.wait_for_function("name => document.getElementById('strongest').textContent.endsWith(name)", arg=name)
        for word in page.page.query_selector_all("#text .prose .word"):
            at = [int(i) for i in word.get_attribute("data-tokens").split(",")]
            assert float(word.get_attribute("data-w")) == pytest.approx(sum(shares[i] for i in at), abs=1e-5)
    assert "by=leaving+words+out" in page.page.evaluate("location.hash")
    assert sum(look.data["instead"]["leaving words out"]) == pytest.approx(1, abs=1e-4)
    page.page.click("#by label:nth-of-type(1)")
    page.page.wait_for_function("!location.hash.includes('by=')")
    assert numbers_of(page, "#text .prose .word", "l.dataset.w") == [pytest.approx(row, abs=1e-6) for row in before]
    assert page.errors == []


def test_files_hold_what_is_shown(show, masked):
    look, exact, _ = masked
    page = show(look, f"#site={SITE}&head=1&mode=single")
    table = list(csv.reader(io.StringIO(saved(page, "#save-map"))))
    close(np.array([row[1:] for row in table[1:]], float), exact[SITE][1], exact[SITE].max() / 255)
    told = json.loads(saved(page, "#save-json"))
    assert told["map"]["site"] == SITE
    assert told["heads"]
    for view in ("map", "lines", "distance"):
        page.go(f"site={SITE}&head=1&mode=single&view={view}")
        drawn = ElementTree.fromstring(saved(page, "#save-large"))
        assert drawn.tag.endswith("svg")
        assert len(list(drawn.iter())) > 5
    assert page.errors == []


@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (390, "dark")])
def test_every_view_is_quiet_on_a_phone_and_in_the_dark(show, two, translated, width, scheme):
    for look in (two[0], translated[0]):
        for view in ("map", "lines", "distance"):
            page = show(look, f"#view={view}&unit=words", width=width, color_scheme=scheme)
            assert page.errors == []
            assert page.page.evaluate("document.documentElement.scrollWidth") <= width


def test_letters_switch_views(show, two):
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
