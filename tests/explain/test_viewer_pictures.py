"""Attention to a picture: a slider through the caption, and the numbers of its cells."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest
from PIL import Image

from regard.errors import UserError
from regard.pages import page, quantise
from regard.tasks.classify.look import Look

CAPTION = ["two", "boats", "on", "a", "lake"]
GRID = (3, 4)


def picture() -> str:
    file = io.BytesIO()
    ramp = np.linspace(0, 255, 60 * 80 * 3).reshape(60, 80, 3).astype(np.uint8)
    Image.fromarray(ramp).save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def made() -> tuple[dict, np.ndarray]:
    weights = np.random.default_rng(0).dirichlet(np.full(12, 0.4), (2, len(CAPTION))).astype(np.float32)
    text, tokens, at = " ".join(CAPTION), [], 0
    for number, word in enumerate(CAPTION):
        tokens.append({"text": word, "start": at, "end": at + len(word), "word": number, "special": False})
        at += len(word) + 1
    names = [f"{r + 1},{c + 1}" for r in range(3) for c in range(4)]
    axes = {"image": {"names": names, "grid": GRID, "picture": picture()}}
    stored = {**quantise(weights), "site": "decoder.attend", "rows": "tokens", "columns": "image"}
    return {"title": "boats", "text": text, "tokens": tokens, "axes": axes, "maps": [stored]}, weights


@pytest.mark.browser
def test_a_slider_goes_through_the_caption(show):
    look, weights = made()
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
            said = opened.page.evaluate("({...document.getElementById('image-say').dataset})")
            assert int(said["cell"]) == cell
            assert abs(float(said["value"]) - weights[1, row, cell]) <= step / 2 + 1e-6
    assert "view=image" in opened.page.evaluate("location.hash")
    assert "row=4" in opened.page.evaluate("location.hash")
    assert opened.errors == []


def test_pictures_that_do_not_fit_are_told():
    look, _ = made()
    look["axes"]["image"]["grid"] = (3, 5)
    with pytest.raises(UserError, match=r"grid of \[3, 5\], but has 12 names"):
        page(look)
    look["axes"]["image"] |= {"grid": GRID, "picture": 'data:image/svg+xml,<svg onload="x">'}
    with pytest.raises(UserError, match="is not a data:image"):
        page(look)
