"""Twelve layers of twelve heads fit into a file one can send."""

import numpy as np
import pytest

from regard.pages import page, quantise


def big(tokens: int, spread: float, layers: int = 12, heads: int = 12):
    rng = np.random.default_rng(0)
    maps = []
    for layer in range(layers):
        logits = np.exp(spread * rng.standard_normal((heads, tokens, tokens), dtype=np.float32))
        weights = logits / logits.sum(-1, keepdims=True)
        maps.append(
            {"site": f"layer {layer}", "heads": heads, "rows": "tokens", "columns": "tokens", **quantise(weights)}
        )
    text = " ".join(f"w{i}" for i in range(tokens))
    spans, at = [], 0
    for number, word in enumerate(text.split()):
        spans.append({"text": word, "start": at, "end": at + len(word), "word": number, "special": False})
        at += len(word) + 1
    return {"title": "big", "text": text, "tokens": spans, "weights": [1 / tokens] * tokens, "maps": maps}


@pytest.fixture(scope="module")
def long_page():
    return page(big(512, 1.0))


# Random weights hardly compress: trained heads, mostly near zero, take far less.
@pytest.mark.parametrize(("tokens", "spread", "limit"), [(128, 1.0, 3e6), (128, 0.1, 3e6)])
def test_size(tokens, spread, limit):
    size = len(page(big(tokens, spread)).encode())
    assert size < limit, f"{size / 1e6:.1f} MB"


def test_size_of_long_text(long_page):
    assert len(long_page.encode()) < 45e6


@pytest.mark.browser
def test_a_big_page_opens_at_once_and_unpacks_only_what_is_seen(open_page, long_page):
    opened = open_page(long_page)
    ready = opened.page.evaluate("performance.getEntriesByType('navigation')[0].domInteractive")
    assert ready < 6000, "two seconds on an idle machine; the limit here allows for a busy one"
    assert opened.page.evaluate("Number(document.documentElement.dataset.decoded || 0)") < 12
    opened.shown(0, "single", 0)
    assert not opened.errors
