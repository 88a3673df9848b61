"""The HTML of a look: without dependencies, escaped, complete."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from regard.errors import UserError
from regard.pages import quantize, render_notebook, render_page
from regard.pages.quantized_maps import dequantize


class Tags(HTMLParser):
    """Every tag with its attributes."""

    def __init__(self, html):
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))


def test_quantization_error_is_at_most_half_a_step():
    weights = np.random.default_rng(0).dirichlet(np.ones(7), size=(3, 5))
    stored = quantize(weights)
    assert stored["shape"] == [3, 5, 7]
    assert stored["max"] == pytest.approx(weights.max())
    assert np.abs(dequantize(stored) - weights).max() <= stored["max"] / 510 + 1e-6


def test_a_map_of_zeros_stays_zero():
    assert not dequantize(quantize(np.zeros((1, 2, 3)))).any()


@pytest.mark.parametrize(
    "weights", [np.ones((2, 2)), np.full((1, 1, 2), np.nan), -np.ones((1, 1, 1)), np.ones((0, 2, 2))]
)
def test_invalid_maps_are_refused(weights):
    with pytest.raises(UserError):
        quantize(weights)


def test_no_external_resources(look):
    html = render_page(look)
    for tag, attrs in Tags(html).tags:
        assert tag not in {"link", "img", "iframe", "object", "embed", "base"}
        assert not {"src", "href"} & set(attrs), tag
    assert "@import" not in html
    assert "url(" not in html
    assert "default-src 'none'" in html


def test_the_page_has_all_weights(look):
    html = render_page(look)
    weights = [float(w) for w in re.findall(r'class="word" [^>]*data-w="([^"]+)"', html)]
    special = look["weights"][0]
    assert sum(weights) + special == pytest.approx(1)
    assert f"{100 * look['evidence_fraction']:.1f} %" in html
    assert look["faithfulness"]["verdict"] in html


def test_the_data_in_the_page_is_the_look(look):
    html = render_page(look)
    data = json.loads(re.search(r'id="look">(.*?)</script>', html, re.S)[1])
    assert data["weights"] == look["weights"]
    assert data["text"] == look["text"]
    assert "data" not in data["maps"][0]
    assert re.search(r'id="map-0">([^<]*)<', html)[1] == look["maps"][0]["data"]


def test_hostile_text_creates_no_tags(look, hostile):
    friendly = {(tag, key) for tag, attrs in Tags(render_page(look)).tags for key in attrs}
    tags = Tags(render_page(hostile)).tags
    assert {(tag, key) for tag, attrs in tags for key in attrs} <= friendly | {("details", "open")}
    assert "img" not in {tag for tag, _ in tags}
    assert sum(tag == "script" for tag, _ in tags) == 2 + len(hostile["maps"])


def test_the_script_does_not_contain_its_end_tag(look):
    scripts = re.findall(r"<script>(.*?)</script>", render_page(look), re.S)
    assert len(scripts) == 1
    assert scripts[0].rstrip().endswith("})();")


def test_a_lone_surrogate_can_be_encoded(look):
    look["notes"] = ["broken \ud83d here"]
    assert "broken ? here" in render_page(look).encode("utf-8").decode("utf-8")


def test_nan_is_an_error(look):
    look["evidence_fraction"] = None
    look["faithfulness"]["metrics"][0]["random"] = float("nan")
    with pytest.raises(UserError, match="JSON"):
        render_page(look)


def test_a_minimal_look_is_rendered():
    html = render_page({"title": "bare", "text": "Only text.", "tokens": []})
    assert "Only text." in html
    assert "Not measured" in html
    assert 'id="heads"' not in html


def test_many_labels_are_collapsed(look):
    look["prediction"] = {"label": "l3", "probabilities": {f"l{i}": 1 / 20 for i in range(20)}}
    assert "12 more labels" in render_page(look)


def test_a_notebook_shows_an_iframe(look, hostile):
    for data in (look, hostile):
        frame = Tags(render_notebook(data)).tags
        assert [tag for tag, _ in frame] == ["iframe"]
        assert frame[0][1]["srcdoc"] == render_page(data)
        assert "allow-same-origin" not in frame[0][1]["sandbox"]
