"""The text in a browser: two kinds of shading, hops side by side, and figures saved from the page."""

import io
from xml.etree import ElementTree

import pytest
from PIL import Image

from regard.pages import render_notebook, render_page

pytestmark = pytest.mark.browser
SVG = "{http://www.w3.org/2000/svg}"


def with_hops(look):
    n = len(look["tokens"])
    weights = [[1.0 if t == 4 * hop + 1 else 0.0 for t in range(n)] for hop in range(3)]
    matrix = [[1.0, 0.25, 0.0], [0.25, 1.0, 0.0], [0.0, 0.0, 1.0]]
    overlap = {"matrix": matrix, "between_hops": 1 / 12, "within_hop": 1.0, "penalty": 0.125}
    return {**look, "sentence_weights": None, "hops": {"weights": weights, "overlap": overlap}}


def with_levels(look):
    """A look with weights within sentences and sentence weights."""
    within = [0.0] * len(look["tokens"])
    for first, end in look["sentences"]:
        for i in range(first, end):
            within[i] = (i - first + 1) * 2 / ((end - first) * (end - first + 1))
    weights = [0.0] * len(within)
    for (first, end), sentence in zip(look["sentences"], look["sentence_weights"], strict=True):
        for i in range(first, end):
            weights[i] = sentence * within[i]
    return {**look, "weights": weights, "within_sentence": within}


def save(opened, button):
    with opened.page.expect_download() as waiting:
        opened.page.click(button)
    return waiting.value


def shade(opened, word):
    """Opacity of the background of a word."""
    color = opened.page.locator("#text .word", has_text=word).first.evaluate("e => getComputedStyle(e).backgroundColor")
    parts = color.replace("/", " ").replace(",", " ").strip("rgba()").split()
    return float(parts[3]) if len(parts) > 3 else 1.0


def test_words_are_shaded_relative_to_the_text_or_their_sentence(open_page, look):
    look = with_levels(look)
    opened = open_page(render_page(look))
    assert shade(opened, "work.") < 0.8  # the most attended word of a sentence with little weight
    opened.page.locator("#shade label", has_text="their sentence").click()
    assert shade(opened, "work.") == pytest.approx(0.82, abs=0.01)
    assert "most attended word of each sentence" in opened.page.inner_text("#strongest")
    opened.page.locator("#text .word", has_text="work.").first.hover()
    tip = opened.page.inner_text("#tip")
    assert f"{look['sentence_weights'][0]:.4g} of the sentence" in tip
    assert "in its sentence" in tip
    drawing = ElementTree.fromstring(save(opened, "#save-svg").path().read_bytes())
    full = [e for e in drawing.iter(f"{SVG}rect") if e.get("fill-opacity") == "0.8200"]
    assert len(full) >= len(look["sentences"])  # the file has the same shading
    opened.page.locator("#shade label", has_text="the text").click()
    assert shade(opened, "work.") < 0.8
    assert opened.errors == []


@pytest.mark.parametrize("width", [1200, 400])
def test_hops_are_shown_side_by_side(open_page, look, width):
    opened = open_page(render_page(with_hops(look)), width=width)
    boxes = [e.bounding_box() for e in opened.page.locator("#hops .hop").all()]
    assert len(boxes) == 3
    if width == 1200:
        assert boxes[0]["y"] == boxes[1]["y"] == boxes[2]["y"]
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    strong = [hop.locator('.word[data-w="1.0"]').all_inner_texts() for hop in opened.page.locator("#hops .hop").all()]
    assert strong == [["We"], ["rainy"], ["from"]]
    assert opened.page.inner_text("#overlap") == "0.083"
    opened.page.locator(".pairs span").nth(1).hover()
    assert opened.page.inner_text("#tip") == "hop 1 · hop 2  0.25"
    assert opened.errors == []


def test_figures_are_saved_from_the_page(open_page, look):
    opened = open_page(render_page(with_hops(look)), color_scheme="dark")
    for button, name in (
        ("#save-text-png", "a-look-at-a-review.png"),
        ("#save-hops-png", "a-look-at-a-review-hops.png"),
    ):
        done = save(opened, button)
        image = Image.open(io.BytesIO(done.path().read_bytes())).convert("RGB")
        assert done.suggested_filename == name
        assert image.width == 1520
        assert image.getpixel((1, 1)) == (255, 255, 255)  # light in any color scheme
        darkest = min(sum(c) for _, c in image.getcolors(1 << 20))
        assert darkest < 200  # letters
        assert any(r > 200 and b < 120 and r > b + 100 for _, (r, _g, b) in image.getcolors(1 << 20))  # shades
    drawing = ElementTree.fromstring(save(opened, "#save-hops-svg").path().read_bytes())
    words = [e.text for e in drawing.iter(f"{SVG}text")]
    assert words.count("Tuesday") == 3
    assert words.count("hop") == 3
    assert opened.errors == []


def test_a_figure_is_saved_from_a_notebook(open_page, look):
    opened = open_page(f"<!doctype html><title>notebook</title>{render_notebook(look)}")
    with opened.page.expect_download() as waiting:
        opened.page.frame_locator("iframe").locator("#save-text-png").click()
    assert Image.open(io.BytesIO(waiting.value.path().read_bytes())).width == 1520
    assert opened.errors == []
