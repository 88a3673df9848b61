"""Size and loading time of pages with twelve layers of twelve heads."""

import numpy as np
import pytest

from regard.pages import quantize, render_page


def large_look(tokens: int, scale: float, layers: int = 12, heads: int = 12):
    rng = np.random.default_rng(0)
    maps = []
    for layer in range(layers):
        logits = np.exp(scale * rng.standard_normal((heads, tokens, tokens), dtype=np.float32))
        weights = logits / logits.sum(-1, keepdims=True)
        maps.append(
            {"layer": f"layer {layer}", "heads": heads, "rows": "tokens", "columns": "tokens", **quantize(weights)}
        )
    text = " ".join(f"w{i}" for i in range(tokens))
    spans, at = [], 0
    for number, word in enumerate(text.split()):
        spans.append({"text": word, "start": at, "end": at + len(word), "word": number, "special": False})
        at += len(word) + 1
    return {"title": "big", "text": text, "tokens": spans, "weights": [1 / tokens] * tokens, "maps": maps}


@pytest.fixture(scope="module")
def long_page():
    return render_page(large_look(512, 1.0))


# Random weights hardly compress: trained heads, mostly near zero, take far less.
@pytest.mark.parametrize(("tokens", "scale", "limit"), [(128, 1.0, 3e6), (128, 0.1, 3e6)])
def test_page_size(tokens, scale, limit):
    size = len(render_page(large_look(tokens, scale)).encode())
    assert size < limit, f"{size / 1e6:.1f} MB"


def test_page_size_of_a_long_text(long_page):
    assert len(long_page.encode()) < 45e6


@pytest.mark.browser
def test_a_large_page_opens_fast_and_decodes_only_visible_maps(open_page, long_page):
    opened = open_page(long_page)
    ready = opened.page.evaluate("performance.getEntriesByType('navigation')[0].domInteractive")
    assert ready < 6000, "two seconds on an idle machine; the limit here allows for a busy one"
    assert opened.page.evaluate("Number(document.documentElement.dataset.decoded || 0)") < 12
    opened.wait_for_map(0, "single", 0)
    assert not opened.errors
