"""Figures without a browser: positions of the words, shades and numbers."""

import io
from xml.etree import ElementTree

import pytest
from PIL import Image

from regard.errors import UserError
from regard.pages.bidi import base_direction, resolve_directions, visual_order, word_direction
from regard.pages.drawing import MARK, draw_look
from regard.pages.line_breaking import break_lines, position_segments, split_words
from regard.pages.png import render_png
from regard.pages.schema import check_look
from regard.pages.svg import render_svg
from regard.pages.text_width import estimate_width
from regard.pages.word_layout import Word, layout

SVG = "{http://www.w3.org/2000/svg}"


def uniform_look(text, **more):
    """A look at a text whose words all have the same weight."""
    tokens, at = [], 0
    for word in text.split(" "):
        tokens.append({"text": word, "start": at, "end": at + len(word), "word": len(tokens), "special": False})
        at += len(word) + 1
    weights = [1 / len(tokens)] * len(tokens)
    return {"title": text[:20], "text": text, "tokens": tokens, "weights": weights, **more}


def make_hops(look, count=3):
    n = len(look["tokens"])
    weights = [[1.0 if t % count == hop else 0.0 for t in range(n)] for hop in range(count)]
    matrix = [[float(i == j) for j in range(count)] for i in range(count)]
    return {"weights": weights, "overlap": {"matrix": matrix, "between_hops": 0.125, "within_hop": 1.0, "penalty": 0.5}}


def visual_lines(text, width, size=18):
    """The words of each line from left to right."""
    words = [Word(0, len(w), w, i, 0.1) for i, w in enumerate(text.replace(" ", "\0 \0").split("\0"))]
    base = base_direction(w.text for w in words)
    lines = break_lines(split_words(words, lambda t: estimate_width(t, size)), width)
    return [[a.text for a, _ in position_segments(line, base, 0, width) if not a.space] for line in lines]


def test_a_figure_has_every_word_and_its_weight(look):
    drawing = ElementTree.fromstring(render_svg(look).encode())
    texts = [(e.find(f"{SVG}title"), "".join(e.itertext())) for e in drawing.iter(f"{SVG}text")]
    view = layout(check_look(look))
    for word in (w for line in view.lines for w in line.words if w.number is not None):
        assert any(tip is not None and tip.text == word.tip for tip, _ in texts), word.tip
    shades = {float(e.get("fill-opacity")) for e in drawing.iter(f"{SVG}rect") if e.get("fill-opacity")}
    assert max(shades) == pytest.approx(0.82)
    for weight in look["sentence_weights"]:
        assert any(tip is not None and tip.text.endswith(f": {weight:.6g}") for tip, _ in texts)
    assert any("of the attention is on the underlined words" in text for _, text in texts)


def test_bars_have_the_length_of_the_sentence_weights(look):
    drawing = draw_look(look, estimate_width)
    bars = [box for box in drawing.boxes if box.tip.startswith("sentence")]
    assert len(bars) == len(look["sentence_weights"])
    longest = max(look["sentence_weights"])
    for bar, weight in zip(bars, look["sentence_weights"], strict=True):
        assert bar.w == pytest.approx(max(1, 34 * weight / longest))


def test_everything_is_inside_the_figure(look):
    long = uniform_look(" ".join(["word"] * 200 + ["w" * 500, "end"]))
    for data in (look, long, {**look, "sentence_weights": None, "hops": make_hops(look)}):
        drawing = draw_look(data, estimate_width)
        for item in [*drawing.boxes, *drawing.texts]:
            assert item.x >= 0
            assert item.x + item.w <= drawing.width
            assert item.y <= drawing.height


def test_hops_are_side_by_side(look):
    look = {**look, "sentence_weights": None, "hops": make_hops(look)}
    drawing = draw_look(look, estimate_width)
    heads = {t.text.split(",")[0]: t for t in drawing.texts if t.text.startswith("hop ")}
    assert set(heads) == {"hop 1", "hop 2", "hop 3"}
    assert heads["hop 1"].y == heads["hop 2"].y < heads["hop 3"].y
    assert heads["hop 1"].x < heads["hop 2"].x
    assert any("overlap 0.125" in t.text for t in drawing.texts)
    hits = [b for b in drawing.boxes if b.fill == MARK and b.opacity == pytest.approx(0.82) and b.tip]
    assert sum(1 for b in hits if b.tip.endswith("  1")) > 10  # each hop shades its own words fully


def test_a_png_is_an_image(look):
    content, warnings = render_png(look)
    image = Image.open(io.BytesIO(content))
    assert image.format == "PNG"
    assert image.width == 1520
    assert warnings == []
    colors = {c for _, c in image.convert("RGB").getcolors(1 << 20)}
    assert (232, 128, 22) in colors  # a bar
    assert (255, 255, 255) in colors


def test_a_missing_character_is_reported(monkeypatch):
    monkeypatch.setattr("regard.pages.fonts._has_character", lambda name, letter: ord(letter) < 128)
    monkeypatch.setattr("regard.pages.fonts._font_name", lambda letter: "" if ord(letter) < 128 else None)
    _, warnings = render_png(uniform_look("good 好"))
    assert "1 of the characters (好)" in warnings[0]


def test_a_huge_image_is_refused():
    with pytest.raises(UserError, match="save such a long text"):
        render_png(uniform_look("word " * 40_000 + "end"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one two", [["one", "two"]]),
        ("جيد جدا هنا", [["هنا", "جدا", "جيد"]]),
        ("Good جيد جدا here", [["Good", "جدا", "جيد", "here"]]),
        ("قال hello world لهم", [["لهم", "hello", "world", "قال"]]),
        ("سنة 2019 و 2020", [["2020", "و", "2019", "سنة"]]),
        ("in سنة 2019 then", [["in", "2019", "سنة", "then"]]),
        ("שלום ( עולם )", [[")", "עולם", "(", "שלום"]]),
    ],
)
def test_visual_order_of_words(text, expected):
    assert visual_lines(text, 1000) == expected


def test_scripts_without_spaces_break_anywhere_but_before_punctuation():
    text = "这家酒店非常好，我们住了三天。" * 3
    words = [Word(i, i + 1, c, i, 0.1) for i, c in enumerate(text)]
    lines = [
        "".join(a.text for a in line) for line in break_lines(split_words(words, lambda t: estimate_width(t, 10)), 83)
    ]
    assert "".join(lines) == text
    assert all(len(line) <= 8 for line in lines)
    assert not any(line[0] in "，。" for line in lines)


@pytest.mark.parametrize("two_levels", [True, False])
def test_br_is_a_line_break(two_levels):
    look = uniform_look("Bad film! <br /> <br /> I loved <br> it.")
    look |= {"sentences": [[0, 4], [4, 8]]} | ({"sentence_weights": [0.5, 0.5]} if two_levels else {})
    for data in (look, {**look, "sentence_weights": None, "hops": make_hops(look)}):
        drawing = draw_look(data, estimate_width)
        assert not any(
            "br" in item.tip or "<" in getattr(item, "text", "") for item in [*drawing.boxes, *drawing.texts]
        )
        heights = {text.text: text.y for text in drawing.texts if text.size == 18}
        assert heights["film!"] < heights["I"] == heights["loved"] < heights["it."]
    empty = draw_look(
        {**uniform_look("<br /> <br />"), "sentences": [[0, 2]], "sentence_weights": [1.0]}, estimate_width
    )
    assert all(box.y + box.h <= empty.height for box in empty.boxes)


def test_a_word_wider_than_the_line_is_split():
    (first, *rest) = visual_lines("x" * 300, 100)
    assert "".join(first + [w for row in rest for w in row]) == "x" * 300
    assert all(estimate_width(row[0], 18) <= 101 for row in [first, *rest])


def test_direction_of_words():
    assert [word_direction(t) for t in ("abc", "שלום", "جيد", "42", "...", "(a", "1st")] == [
        "L",
        "R",
        "R",
        "1",
        "",
        "L",
        "L",
    ]
    assert base_direction(["...", "42", "جيد", "abc"]) == "R"
    assert base_direction(["..."]) == "L"
    assert resolve_directions(["R", "", "R", "", "L", "1"], "L") == ["R", "R", "R", "L", "L", "L"]
    assert visual_order(["L", "R", "R", "L"], "L") == [0, 2, 1, 3]
    assert visual_order(["R", "L", "L", "R"], "R") == [3, 1, 2, 0]


def test_joined_emoji_have_the_width_of_one():
    family, alone = estimate_width("👨\u200d👩\u200d👧", 10), estimate_width("👨", 10)
    assert family == alone == 12.5
    assert estimate_width("e\u0301", 10) == estimate_width("e", 10) == estimate_width("é", 10)
    assert estimate_width("好", 10) == 10


def test_hostile_text_is_escaped_in_the_figure(hostile):
    hostile["hops"] = make_hops(hostile)
    hostile["sentence_weights"] = None
    hostile["text"] = hostile["text"].replace("is", "i\x07", 1)
    drawing = ElementTree.fromstring(render_svg(hostile).encode())
    assert {e.tag for e in drawing.iter()} <= {f"{SVG}{t}" for t in ("svg", "title", "rect", "text")}
    assert drawing.find(f"{SVG}title").text == hostile["title"]
