"""Attention to an image in a browser: a slider through the caption, and the values of the cells."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest
from PIL import Image

from regard.errors import UserError
from regard.explain.look_result import Look
from regard.pages import quantize, render_page

CAPTION = ["two", "boats", "on", "a", "lake"]
GRID = (3, 4)


def image_uri() -> str:
    file = io.BytesIO()
    ramp = np.linspace(0, 255, 60 * 80 * 3).reshape(60, 80, 3).astype(np.uint8)
    Image.fromarray(ramp).save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def make_look() -> tuple[dict, np.ndarray]:
    weights = np.random.default_rng(0).dirichlet(np.full(12, 0.4), (2, len(CAPTION))).astype(np.float32)
    text, tokens, at = " ".join(CAPTION), [], 0
    for number, word in enumerate(CAPTION):
        tokens.append({"text": word, "start": at, "end": at + len(word), "word": number, "special": False})
        at += len(word) + 1
    names = [f"{r + 1},{c + 1}" for r in range(3) for c in range(4)]
    axes = {"image": {"names": names, "grid": GRID, "image": image_uri()}}
    stored = {**quantize(weights), "layer": "decoder.attend", "rows": "tokens", "columns": "image"}
    return {"title": "boats", "text": text, "tokens": tokens, "axes": axes, "maps": [stored]}, weights


@pytest.mark.browser
def test_a_slider_selects_words_of_the_caption(show):
    look, weights = make_look()
    opened = show(Look(look), "#view=image&head=1&mode=single")
    step = weights.max() / 255
    for row in (0, 3, 4):
        opened.page.fill("#caption-at", str(row))
        opened.page.wait_for_selector(f'#image[data-row="{row}"]')
        assert opened.page.inner_text("#caption .now") == CAPTION[row]
        box = opened.page.locator("#over").bounding_box()
        for cell in (0, 5, 11):
            x, y = (cell % 4 + 0.5) * box["width"] / 4, (cell // 4 + 0.5) * box["height"] / 3
            opened.page.locator("#over").hover(position={"x": x, "y": y})
            readout = opened.page.evaluate("({...document.getElementById('image-say').dataset})")
            assert int(readout["cell"]) == cell
            assert abs(float(readout["value"]) - weights[1, row, cell]) <= step / 2 + 1e-6
    assert "view=image" in opened.page.evaluate("location.hash")
    assert "row=4" in opened.page.evaluate("location.hash")
    assert opened.errors == []


def test_invalid_images_and_grids_are_reported():
    look, _ = make_look()
    look["axes"]["image"]["grid"] = (3, 5)
    with pytest.raises(UserError, match=r"grid of \[3, 5\], but has 12 names"):
        render_page(look)
    look["axes"]["image"] |= {"grid": GRID, "image": 'data:image/svg+xml,<svg onload="x">'}
    with pytest.raises(UserError, match="is not a data:image"):
        render_page(look)
