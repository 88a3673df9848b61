"""The page of captioned images: weights, slider, faithfulness, and exported maps."""

from __future__ import annotations

import base64
import io
import json

import numpy as np
import pytest
from PIL import Image

from regard.errors import UserError
from regard.pages.caption_page import render_caption_page

WORDS = ["a", "<b>red</b>", "circle"]


def make_report(name: str, number: int = 9) -> dict:
    figures = {
        "attention": number + 0.125,
        "random": 0.25,
        "uniform": 0.5,
        "better_than": 1.0,
        "description": f"drop of {name}",
    }
    return {"verdict": f"<i>{name}</i> is faithful.", "metrics": [{"name": "comprehensiveness", **figures}]}


def look(words=WORDS, rows: int = 3, columns: int = 4) -> dict:
    maps = np.random.default_rng(0).dirichlet(np.ones(rows * columns), len(words))
    file = io.BytesIO()
    Image.new("RGB", (64, 64), "red").save(file, "PNG")
    image = {
        "name": "dir/photo.png",
        "caption": " ".join(words),
        "words": list(words),
        "score": -0.5,
        "rows": rows,
        "columns": columns,
        "maps": maps.round(6).tolist(),
        "image": "data:image/png;base64," + base64.b64encode(file.getvalue()).decode(),
        "faithfulness": {"all": make_report("all"), "words": [make_report(word, i) for i, word in enumerate(words)]},
    }
    return {"title": "Where", "model": "rnn", "run": "runs/x", "images": [image], "notes": ["a <note>"]}


def test_everything_is_escaped_without_external_resources():
    html = render_caption_page(look())
    assert "<b>red</b>" not in html
    assert "a &lt;note&gt;" in html
    assert "http://" not in html.replace("http://www.w3.org", "")
    assert "https://" not in html


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda image: image.pop("maps"), "lacks maps"),
        (lambda image: image["maps"].pop(), "each word needs a map"),
        (lambda image: image["maps"][0].pop(), "each word needs a map"),
        (lambda image: image.update(image="https://example.org/a.png"), "must be a data URI"),
        (lambda image: image["faithfulness"]["words"].pop(), "2 of 3 words were measured"),
    ],
)
def test_invalid_images_are_reported(change, message):
    data = look()
    change(data["images"][0])
    with pytest.raises(UserError, match=message):
        render_caption_page(data)


@pytest.fixture
def opened_page(chromium, tmp_path):
    data = look()
    (tmp_path / "page.html").write_text(render_caption_page(data))
    context = chromium.new_context(viewport={"width": 1000, "height": 900}, accept_downloads=True)
    opened, errors = context.new_page(), []
    opened.on("console", lambda m: errors.append(m.text) if m.type in ("error", "warning") else None)
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.goto((tmp_path / "page.html").as_uri())
    opened.wait_for_selector(".strip canvas >> nth=2")
    yield opened, data["images"][0]
    assert not errors
    context.close()


@pytest.mark.browser
def test_the_slider_selects_words(opened_page):
    opened, image = opened_page
    assert opened.get_attribute(".captioned", "data-shown") == "-1"
    opened.locator("input[type=range]").focus()
    for number, word in enumerate(WORDS):
        opened.keyboard.press("ArrowRight")
        assert opened.get_attribute(".captioned", "data-shown") == str(number)
        assert opened.inner_text("output") == word
        assert opened.get_attribute(f".word >> nth={number}", "aria-pressed") == "true"
        peak = max(image["maps"][number])
        where = image["maps"][number].index(peak)
        assert f"row {where // 4 + 1}, column {where % 4 + 1}: {peak:.3f}" in opened.inner_text(".readout")
    opened.click(".word >> nth=0")
    assert opened.get_attribute(".captioned", "data-shown") == "0"


@pytest.mark.browser
def test_each_word_has_its_own_metrics(opened_page):
    opened, _ = opened_page
    assert opened.inner_text(".faithful .verdict") == "<i>all</i> is faithful."
    assert "9.125" in opened.inner_text(".faithful tbody")
    opened.click(".word >> nth=2")
    assert opened.inner_text(".faithful .verdict") == "“circle”: <i>circle</i> is faithful."
    assert "2.125" in opened.inner_text(".faithful tbody tr >> nth=0")
    assert "drop of circle" in opened.inner_text(".faithful .explain")


def test_a_page_without_metrics_has_no_panel():
    data = look()
    data["images"][0]["faithfulness"] = None
    assert "Is the map a faithful explanation?" not in render_caption_page(data)


@pytest.mark.browser
def test_the_overlay_is_dark_without_attention_and_orange_with_it(opened_page):
    opened, image = opened_page
    opened.click(".word >> nth=1")
    pixels = opened.evaluate(
        "() => { const c = document.querySelector('.stage canvas');"
        "return [...c.getContext('2d').getImageData(0, 0, c.width, c.height).data] }"
    )
    relative = np.array(image["maps"][1]) / max(image["maps"][1])
    opacity = 0.72 * (1 - relative) + 0.4 * relative
    assert pixels[3::4] == pytest.approx((255 * opacity).tolist(), abs=1.5)
    assert pixels[0::4] == pytest.approx((255 * 0.4 * relative / opacity).tolist(), abs=2.5)


@pytest.mark.browser
def test_maps_are_exported(opened_page):
    opened, image = opened_page
    files = {}
    for kind in ("json", "csv", "png"):
        with opened.expect_download() as download:
            opened.click(f"[data-save={kind}]")
        files[kind] = download.value
    assert json.loads(files["json"].path().read_text())["maps"] == image["maps"]
    lines = files["csv"].path().read_text().splitlines()
    assert len(lines) == 1 + 3 * 12
    assert float(lines[1].split(",")[-1]) == image["maps"][0][0]
    assert files["png"].suggested_filename == "photo-all.png"
