"""The attention page in a browser: it shows the weights it was expected."""

import csv
import io
import json
from xml.etree import ElementTree

import numpy as np
import pytest

from regard.pages import render_notebook, render_page
from regard.pages.training_report import render_report

pytestmark = pytest.mark.browser
SVG = "{http://www.w3.org/2000/svg}"


def point_at(opened, row, column):
    """Move the mouse to a cell of the heatmap and read its value."""
    place = opened.page.evaluate(
        """([row, column]) => {
            // The cursor is at the last cell that was read; it gives the size and origin of the cells.
            const c = document.getElementById("cursor").style, out = document.getElementById("readout").dataset;
            const [w, h] = [parseFloat(c.width), parseFloat(c.height)];
            const [x, y] = [parseFloat(c.left), parseFloat(c.top)];
            return [x + w * (column - out.column + 0.5), y + h * (row - out.row + 0.5)];
        }""",
        [row, column],
    )
    opened.page.locator("#heatmap").hover(position={"x": place[0], "y": place[1]})
    data = opened.page.evaluate("({...document.getElementById('readout').dataset})")
    assert (int(data["row"]), int(data["column"])) == (row, column)
    return float(data["value"]), float(data["step"])


def focus_heatmap(opened):
    opened.page.locator("#heatmap").focus()
    opened.page.keyboard.press("ArrowRight")  # the first arrow key selects the first cell


def save(opened, button):
    with opened.page.expect_download() as waiting:
        opened.page.click(button)
    return waiting.value


@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (980, "dark"), (400, "dark"), (320, "light")])
def test_pages_open_without_errors(open_page, look, report, scheme, width):
    for html in (render_page(look), render_report(report)):
        opened = open_page(html, color_scheme=scheme, width=width)
        opened.page.mouse.wheel(0, 5000)
        opened.page.wait_for_timeout(150)
        assert opened.errors == []
        assert opened.external_requests() == []
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("zoom", [1, 4])
def test_cell_values_are_the_weights(open_page, look_and_weights, zoom):
    look, exact = look_and_weights
    rng = np.random.default_rng(1)
    opened = open_page(render_page(look))
    opened.wait_for_map(0, "single", 0)
    for layer, (name, weights) in enumerate(exact.items()):
        for mode, expected in {"single": weights[-1], "mean": weights.mean(0), "max": weights.max(0)}.items():
            head = len(weights) - 1
            opened.page.evaluate(
                "hash => { location.hash = hash }", f"layer={name}&head={head}&mode={mode}&zoom={zoom}"
            )
            opened.wait_for_map(layer, mode, head, zoom)
            focus_heatmap(opened)
            for _ in range(3):
                row, column = rng.integers(expected.shape[0]), rng.integers(expected.shape[1])
                value, step = point_at(opened, int(row), int(column))
                assert step == pytest.approx(weights.max() / 255, rel=1e-5)
                assert abs(value - expected[row, column]) <= step / 2 + 1e-6


def test_the_readout_has_words_and_value(open_page, look):
    opened = open_page(render_page(look))
    opened.wait_for_map(0, "single", 0)
    focus_heatmap(opened)
    opened.page.keyboard.press("ArrowDown")
    readout = opened.page.inner_text("#readout")
    assert readout.startswith("“We” → “[BOS]”")
    assert "±" in readout
    assert "256 steps" in opened.page.inner_text("#range")


def test_tooltips_show_word_weights(open_page, look):
    opened = open_page(render_page(look))
    word = opened.page.locator("#text .prose .word", has_text="disappointing").first
    word.hover()
    pieces = [w for t, w in zip(look["tokens"], look["weights"], strict=True) if t["text"] in (" disap", "pointing.")]
    assert len(pieces) == 2
    assert f"{sum(pieces):.4g}" in opened.page.inner_text("#tip")
    opened.page.keyboard.press("Escape")
    assert not opened.page.is_visible("#tip")
    first = opened.page.locator("#text .prose .word").first
    first.focus()
    opened.page.keyboard.press("ArrowRight")
    assert opened.page.evaluate("document.activeElement.textContent") == "came"
    assert "came" in opened.page.inner_text("#tip")


def test_heads_are_selected_by_mouse_and_keyboard(open_page, look):
    opened = open_page(render_page(look))
    opened.wait_for_map(0, "single", 0)
    opened.page.click('#glance button[data-layer="1"][data-head="2"]')
    opened.wait_for_map(1, "single", 2)
    assert opened.page.inner_text("#large-title") == "encoder.1.attend · head 2"
    opened.page.keyboard.press("ArrowRight")
    opened.wait_for_map(1, "single", 3)
    opened.page.keyboard.press("ArrowUp")
    opened.wait_for_map(0, "single", 3)
    focused = opened.page.evaluate("[document.activeElement.dataset.layer, document.activeElement.dataset.head]")
    assert focused == ["0", "3"]
    opened.page.locator("#mode label", has_text="mean").click()
    opened.wait_for_map(0, "mean", 3)
    assert "mean of 4 heads" in opened.page.inner_text("#large-title")
    opened.page.locator("#mode label", has_text="max").click()
    opened.wait_for_map(0, "max", 3)
    assert opened.errors == []


def test_every_head_has_a_thumbnail(open_page, look):
    opened = open_page(render_page(look), width=1200)
    for row in range(len(look["maps"])):
        opened.page.locator(f'#glance .layer[data-layer="{row}"]').scroll_into_view_if_needed()
        opened.page.wait_for_selector(f'#glance .layer[data-layer="{row}"][data-drawn="yes"]')
    shades = opened.page.evaluate(
        """[...document.querySelectorAll("#glance canvas")].map((c) => {
            const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
            return new Set(Array.from({length: d.length / 4}, (_, i) => d.slice(4 * i, 4 * i + 3).join())).size;
        })"""
    )
    assert len(shades) == sum(m["heads"] for m in look["maps"])
    assert min(shades) > 1


def test_maps_are_decoded_when_they_are_visible(open_page, look):
    look["notes"] = []
    look["text"] += "\n" * 200  # pushes the heads out of the window
    look["sentence_weights"] = None
    opened = open_page(render_page(look))
    opened.page.wait_for_timeout(200)
    assert opened.page.evaluate("document.documentElement.dataset.decoded") is None
    opened.wait_for_map(0, "single", 0)
    assert int(opened.page.evaluate("document.documentElement.dataset.decoded")) >= 1


def test_the_url_keeps_the_state(open_page, look):
    opened = open_page(render_page(look))
    opened.page.click('#glance button[data-layer="2"][data-head="1"]')
    opened.page.locator("#mode label", has_text="max").click()
    opened.page.locator("#zoom label", has_text="2×").click()
    address = opened.page.url
    again = open_page(render_page(look), "#" + address.split("#")[1])
    again.wait_for_map(2, "max", 1, 2)
    assert again.page.is_checked('#mode input[value="max"]')
    again.page.evaluate("location.hash = '#layer=encoder.1.attend&head=3&mode=single'")
    again.wait_for_map(1, "single", 3)


def test_an_invalid_url_is_ignored(open_page, look):
    opened = open_page(render_page(look), "#layer=nowhere&head=-7&mode=<b>&zoom=1e9")
    opened.wait_for_map(0, "single", 0)
    assert opened.errors == []


def test_exported_files_are_well_formed(open_page, look_and_weights):
    look, exact = look_and_weights
    opened = open_page(render_page(look), "#layer=encoder.1.attend&head=2")
    opened.wait_for_map(1, "single", 2)

    drawing = ElementTree.fromstring(save(opened, "#save-svg").path().read_bytes())
    words = [element.text for element in drawing.iter(f"{SVG}text")]
    assert drawing.tag == f"{SVG}svg"
    assert "".join(look["text"].split()) in "".join(w for w in words if not w.startswith("0."))
    assert len(list(drawing.iter(f"{SVG}path"))) >= 1  # the evidence is underlined

    rows = list(csv.DictReader(io.StringIO(save(opened, "#save-csv").path().read_text("utf-8"))))
    assert [row["text"] for row in rows] == [token["text"] for token in look["tokens"]]
    assert [float(row["weight"]) for row in rows] == pytest.approx(look["weights"], abs=1e-15)

    exported = json.loads(save(opened, "#save-json").path().read_text("utf-8"))
    assert [token["weight"] for token in exported["tokens"]] == look["weights"]
    assert exported["map"]["layer"] == "encoder.1.attend"
    assert np.abs(np.array(exported["map"]["weights"]) - exact["encoder.1.attend"][2]).max() <= exported["map"]["step"]

    table = list(csv.reader(io.StringIO(save(opened, "#save-map").path().read_text("utf-8"))))
    cells = np.array([row[1:] for row in table[1:]], dtype=float)
    assert np.abs(cells - exact["encoder.1.attend"][2]).max() <= exported["map"]["step"]

    image = save(opened, "#save-png")
    content = image.path().read_bytes()
    assert image.suggested_filename == "a-look-at-a-review-map.png"
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert int.from_bytes(content[16:20]) > 500  # the width in its header
    assert opened.errors == []


def test_hyphenated_and_right_to_left_words_keep_their_positions(open_page):
    text = "Good التقييم العام جيد جدا. " + "and a-very-long-and-hyphenated-description-of-it " * 4
    html = render_page({"title": "turned", "text": text, "tokens": []})
    drawing = ElementTree.fromstring(save(open_page(html), "#save-svg").path().read_bytes())
    runs = [
        (e.text, float(e.get("x")), float(e.get("x")) + float(e.get("textLength"))) for e in drawing.iter(f"{SVG}text")
    ]
    assert "".join(run for run, _, _ in runs) == "".join(text.split())
    assert all(left >= 23 and right <= 737 for _, left, right in runs)
    at = {run: left for run, left, _ in runs}
    assert at["Good"] < at["جيد"] < at["العام"] < at["التقييم"]  # the first Arabic word is rightmost


def test_hostile_text_is_harmless(open_page, hostile, report):
    report = {**report, "title": hostile["title"], "lead": hostile["title"], "examples": [{**hostile, "maps": []}]}
    report["curves"][0]["name"] = report["table"]["rows"][0]["model"] = hostile["title"]
    report["settings"] = {hostile["title"]: hostile["title"]}
    for html in (render_page(hostile), render_report(report)):
        opened = open_page(html)
        opened.page.mouse.wheel(0, 5000)
        opened.page.wait_for_timeout(150)
        assert opened.page.evaluate("window.hacked") is None
        assert opened.page.locator("img").count() == 0
        assert opened.page.title() == hostile["title"]
        assert opened.external_requests() == []
        assert opened.errors == []


def test_hostile_text_is_exported_harmlessly(open_page, hostile):
    hostile["notes"].append("\x07")
    opened = open_page(render_page(hostile))
    opened.wait_for_map(0, "single", 0)
    drawing = ElementTree.fromstring(save(opened, "#save-svg").path().read_bytes())
    assert {element.tag for element in drawing.iter()} <= {
        f"{SVG}{t}" for t in ("svg", "title", "rect", "path", "text")
    }
    assert drawing.find(f"{SVG}title").text == hostile["title"]
    rows = list(csv.DictReader(io.StringIO(save(opened, "#save-csv").path().read_text("utf-8"))))
    assert [row["text"] for row in rows] == [token["text"] for token in hostile["tokens"]]


def test_the_content_security_policy_blocks_injected_markup(open_page, look):
    html = render_page(look).replace(
        "<main>", '<main><img src="x" onerror="window.hacked=1"><script>window.hacked=1</script>'
    )
    opened = open_page(html)
    assert opened.page.evaluate("window.hacked") is None
    assert any("Content Security Policy" in error for error in opened.errors)


def test_the_page_works_in_a_notebook(open_page, look):
    opened = open_page(
        f"<!doctype html><title>notebook</title><style>.word {{ color: red }}</style>{render_notebook(look)}"
    )
    frame = opened.page.frame_locator("iframe")
    frame.locator("#frame").scroll_into_view_if_needed()
    frame.locator('#heatmap[data-shown="0/single/0/1"]').wait_for()
    frame.locator('#glance button[data-layer="1"][data-head="1"]').click()
    frame.locator('#heatmap[data-shown="1/single/1/1"]').wait_for()
    assert opened.page.locator(".word").count() == 0
    with opened.page.expect_download() as waiting:
        frame.locator("#save-csv").click()
    assert waiting.value.path().stat().st_size > 100
    assert opened.errors == []


def test_print_colors_are_light(open_page, look):
    opened = open_page(render_page(look), color_scheme="dark")
    assert opened.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(22, 23, 26)"
    opened.page.emulate_media(media="print")
    assert opened.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(253, 252, 250)"
    assert not opened.page.is_visible("#save-svg")


def test_the_tab_key_reaches_every_control(open_page, look):
    opened = open_page(render_page(look))
    opened.wait_for_map(0, "single", 0)
    opened.page.evaluate("scrollTo(0, 0)")
    reached = set()
    for _ in range(20):
        opened.page.keyboard.press("Tab")
        reached.add(
            opened.page.evaluate(
                "document.activeElement.id || document.activeElement.name || "
                "(document.activeElement.dataset.head && 'head') || document.activeElement.className"
            )
        )
    assert {"word", "save-svg", "save-csv", "save-json", "head", "mode", "zoom", "heatmap", "save-png"} <= reached
