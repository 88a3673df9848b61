"""The page of a look as text: self-contained, escaped, small."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from regard.errors import UserError
from regard.pages import notebook, page, quantise
from regard.pages.quantized_maps import restore


class Tags(HTMLParser):
    """Every tag with its attributes, as a browser would see them."""

    def __init__(self, html):
        super().__init__()
        self.found: list[tuple[str, dict]] = []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def test_quantised_weights_come_back_within_half_a_step():
    weights = np.random.default_rng(0).dirichlet(np.ones(7), size=(3, 5))
    stored = quantise(weights)
    assert stored["shape"] == [3, 5, 7]
    assert stored["max"] == pytest.approx(weights.max())
    assert np.abs(restore(stored) - weights).max() <= stored["max"] / 510 + 1e-6


def test_a_map_of_zeros_stays_zero():
    assert not restore(quantise(np.zeros((1, 2, 3)))).any()


@pytest.mark.parametrize(
    "weights", [np.ones((2, 2)), np.full((1, 1, 2), np.nan), -np.ones((1, 1, 1)), np.ones((0, 2, 2))]
)
def test_what_is_no_map_is_refused(weights):
    with pytest.raises(UserError):
        quantise(weights)


def test_nothing_is_fetched(look):
    html = page(look)
    for tag, attrs in Tags(html).found:
        assert tag not in {"link", "img", "iframe", "object", "embed", "base"}
        assert not {"src", "href"} & set(attrs), tag
    assert "@import" not in html
    assert "url(" not in html
    assert "default-src 'none'" in html


def test_numbers_stand_in_the_page(look):
    html = page(look)
    weights = [float(w) for w in re.findall(r'class="word" [^>]*data-w="([^"]+)"', html)]
    special = look["weights"][0]
    assert sum(weights) + special == pytest.approx(1)
    assert f"{100 * look['evidence_share']:.1f} %" in html
    assert look["faithfulness"]["sentence"] in html


def test_the_data_in_the_page_is_the_look(look):
    html = page(look)
    data = json.loads(re.search(r'id="look">(.*?)</script>', html, re.S)[1])
    assert data["weights"] == look["weights"]
    assert data["text"] == look["text"]
    assert "data" not in data["maps"][0]
    assert re.search(r'id="map-0">([^<]*)<', html)[1] == look["maps"][0]["data"]


def test_hostile_text_makes_no_tags(look, hostile):
    friendly = {(tag, key) for tag, attrs in Tags(page(look)).found for key in attrs}
    found = Tags(page(hostile)).found
    assert {(tag, key) for tag, attrs in found for key in attrs} <= friendly | {("details", "open")}
    assert "img" not in {tag for tag, _ in found}
    assert sum(tag == "script" for tag, _ in found) == 2 + len(hostile["maps"])


def test_the_script_holds_nothing_that_ends_it(look):
    scripts = re.findall(r"<script>(.*?)</script>", page(look), re.S)
    assert len(scripts) == 1
    assert scripts[0].rstrip().endswith("})();")


def test_half_a_character_can_be_written(look):
    look["notes"] = ["broken \ud83d here"]
    assert "broken ? here" in page(look).encode("utf-8").decode("utf-8")


def test_nan_is_said_not_written(look):
    look["evidence_share"] = None
    look["faithfulness"]["rows"][0]["random"] = float("nan")
    with pytest.raises(UserError, match="JSON"):
        page(look)


def test_the_barest_look_is_a_page():
    html = page({"title": "bare", "text": "Only text.", "tokens": []})
    assert "Only text." in html
    assert "Not measured" in html
    assert 'id="heads"' not in html


def test_many_labels_are_folded(look):
    look["prediction"] = {"label": "l3", "probabilities": {f"l{i}": 1 / 20 for i in range(20)}}
    assert "12 more labels" in page(look)


def test_a_notebook_gets_a_frame_of_its_own(look, hostile):
    for made in (look, hostile):
        frame = Tags(notebook(made)).found
        assert [tag for tag, _ in frame] == ["iframe"]
        assert frame[0][1]["srcdoc"] == page(made)
        assert "allow-same-origin" not in frame[0][1]["sandbox"]
