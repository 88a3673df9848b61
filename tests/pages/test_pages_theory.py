"""The pages of verify and cost in a browser: no errors, no requests, and sliders that agree with Python."""

import re

import pytest

from regard.layers import MultiHeadAttention
from regard.theory.claim_pages import render_sliders, render_topic
from regard.theory.claims import hand_set_attention
from regard.theory.cost.cost_card import measure_cost
from regard.theory.cost.cost_page import render_page as cost_page
from regard.theory.verify_claims import verify

pytestmark = pytest.mark.browser


def move(opened, slider: str, value: float) -> None:
    opened.page.evaluate(
        """([id, value]) => { const s = document.getElementById(id); s.value = value;
            s.dispatchEvent(new Event("input")); }""",
        [slider, value],
    )


def text_of(opened, where: str) -> str:
    return opened.page.locator(f"#{where}").text_content()


def test_sliders_agree_with_the_constructions(open_page):
    opened = open_page(render_sliders())
    move(opened, "margin", 4)
    move(opened, "keys", 20)
    assert f"{100 * hand_set_attention.weight_by_margin(4.0, 20):.1f} %" in text_of(opened, "copying-said")
    variances = {}
    for heads, make in ((1, hand_set_attention.one_head), (2, hand_set_attention.two_heads)):
        move(opened, "count", heads)
        variance = float(re.search(r"variance is (\d+\.\d+)", text_of(opened, "heads-said"))[1])
        variances[heads] = variance
        assert variance == pytest.approx(make(10.0).variance, rel=0.1)  # other draws, as many
    assert variances[2] < variances[1] / 3
    off = float(re.search(r"In (\d+\.?\d*) %", text_of(opened, "heads-said"))[1])
    assert off / 100 == pytest.approx(hand_set_attention.failure_probability(10.0), abs=0.015)
    for identity, expected in (
        (0, hand_set_attention.hand_set_layer(4.0)),
        (1, hand_set_attention.hand_set_layer(4.0, identity=True)),
    ):
        move(opened, "identity", identity)
        cells = [float(c) for c in opened.page.locator("#hand-rows td:not(:first-child)").all_text_contents()]
        assert cells == pytest.approx(expected.outputs.flatten().tolist(), abs=1e-3)
    assert not opened.errors
    assert not opened.external_requests()


def test_pages_of_topics_and_costs_open_without_errors(open_page):
    for html in (
        render_topic("constructions", verify(topic="constructions")),
        cost_page(measure_cost(MultiHeadAttention(32, 4), "dot", 20), 32),
    ):
        opened = open_page(html)
        assert opened.page.locator("svg.curves").count() >= 2
        overflow = opened.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert overflow <= 0
        assert not opened.errors
        assert not opened.external_requests()
