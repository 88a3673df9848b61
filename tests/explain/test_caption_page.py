"""The page of a captioned picture: its numbers are those given, the slider goes through the words, maps are saved."""

from __future__ import annotations

import base64
import io
import json

import numpy as np
import pytest
from PIL import Image

from regard.errors import UserError
from regard.pages.caption_page import page

WORDS = ["a", "<b>red</b>", "circle"]


def judged(name: str, number: int = 9) -> dict:
    figures = {
        "attention": number + 0.125,
        "random": 0.25,
        "uniform": 0.5,
        "better_than": 1.0,
        "explain": f"fall of {name}",
    }
    return {"sentence": f"<i>{name}</i> is faithful.", "rows": [{"measure": "comprehensiveness", **figures}]}


def look(words=WORDS, rows: int = 3, columns: int = 4) -> dict:
    maps = np.random.default_rng(0).dirichlet(np.ones(rows * columns), len(words))
    file = io.BytesIO()
    Image.new("RGB", (64, 64), "red").save(file, "PNG")
    one = {
        "name": "dir/photo.png",
        "caption": " ".join(words),
        "words": list(words),
        "score": -0.5,
        "rows": rows,
        "columns": columns,
        "maps": maps.round(6).tolist(),
        "picture": "data:image/png;base64," + base64.b64encode(file.getvalue()).decode(),
        "faithfulness": {"all": judged("all"), "words": [judged(word, i) for i, word in enumerate(words)]},
    }
    return {"title": "Where", "model": "rnn", "run": "runs/x", "pictures": [one], "notes": ["a <note>"]}


def test_everything_is_escaped_and_nothing_is_fetched():
    html = page(look())
    assert "<b>red</b>" not in html
    assert "a &lt;note&gt;" in html
    assert "http://" not in html.replace("http://www.w3.org", "")
    assert "https://" not in html


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda one: one.pop("maps"), "without maps"),
        (lambda one: one["maps"].pop(), "each word wants a map"),
        (lambda one: one["maps"][0].pop(), "each word wants a map"),
        (lambda one: one.update(picture="https://example.org/a.png"), "part of the page"),
        (lambda one: one["faithfulness"]["words"].pop(), "2 of 3 words were measured"),
    ],
)
def test_a_look_that_is_not_whole_is_refused(change, said):
    given = look()
    change(given["pictures"][0])
    with pytest.raises(UserError, match=said):
        page(given)


@pytest.fixture
def shown(chromium, tmp_path):
    given = look()
    (tmp_path / "page.html").write_text(page(given))
    context = chromium.new_context(viewport={"width": 1000, "height": 900}, accept_downloads=True)
    opened, errors = context.new_page(), []
    opened.on("console", lambda m: errors.append(m.text) if m.type in ("error", "warning") else None)
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.goto((tmp_path / "page.html").as_uri())
    opened.wait_for_selector(".strip canvas >> nth=2")
    yield opened, given["pictures"][0]
    assert not errors
    context.close()


@pytest.mark.browser
def test_the_slider_goes_through_the_words(shown):
    opened, one = shown
    assert opened.get_attribute(".sight", "data-shown") == "-1"
    opened.locator("input[type=range]").focus()
    for number, word in enumerate(WORDS):
        opened.keyboard.press("ArrowRight")
        assert opened.get_attribute(".sight", "data-shown") == str(number)
        assert opened.inner_text("output") == word
        assert opened.get_attribute(f".word >> nth={number}", "aria-pressed") == "true"
        peak = max(one["maps"][number])
        where = one["maps"][number].index(peak)
        assert f"row {where // 4 + 1}, column {where % 4 + 1}: {peak:.3f}" in opened.inner_text(".readout")
    opened.click(".word >> nth=0")
    assert opened.get_attribute(".sight", "data-shown") == "0"


@pytest.mark.browser
def test_each_word_has_its_own_figures(shown):
    opened, _ = shown
    assert opened.inner_text(".believed .verdict") == "<i>all</i> is faithful."
    assert "9.125" in opened.inner_text(".believed tbody")
    opened.click(".word >> nth=2")
    assert opened.inner_text(".believed .verdict") == "“circle”: <i>circle</i> is faithful."
    assert "2.125" in opened.inner_text(".believed tbody tr >> nth=0")
    assert "fall of circle" in opened.inner_text(".believed .explain")


def test_a_page_without_figures_has_no_panel():
    given = look()
    given["pictures"][0]["faithfulness"] = None
    assert "Can the map be believed?" not in page(given)


@pytest.mark.browser
def test_the_veil_is_dark_where_no_attention_is_and_warm_where_it_is(shown):
    opened, one = shown
    opened.click(".word >> nth=1")
    drawn = opened.evaluate(
        "() => { const c = document.querySelector('.stage canvas');"
        "return [...c.getContext('2d').getImageData(0, 0, c.width, c.height).data] }"
    )
    shares = np.array(one["maps"][1]) / max(one["maps"][1])
    whole = 0.72 * (1 - shares) + 0.4 * shares
    assert drawn[3::4] == pytest.approx((255 * whole).tolist(), abs=1.5)
    assert drawn[0::4] == pytest.approx((255 * 0.4 * shares / whole).tolist(), abs=2.5)


@pytest.mark.browser
def test_maps_are_saved(shown):
    opened, one = shown
    kept = {}
    for kind in ("json", "csv", "png"):
        with opened.expect_download() as download:
            opened.click(f"[data-save={kind}]")
        kept[kind] = download.value
    assert json.loads(kept["json"].path().read_text())["maps"] == one["maps"]
    lines = kept["csv"].path().read_text().splitlines()
    assert len(lines) == 1 + 3 * 12
    assert float(lines[1].split(",")[-1]) == one["maps"][0][0]
    assert kept["png"].suggested_filename == "photo-all.png"
