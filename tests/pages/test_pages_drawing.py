"""A document drawn without a browser: words in their places, shades and numbers those of the look."""

import io
from xml.etree import ElementTree

import pytest
from PIL import Image

from regard.errors import UserError
from regard.pages import svg
from regard.pages.bidi import base, direction, resolved, visual
from regard.pages.drawing import MARK, scene
from regard.pages.line_breaking import atoms, broken, placed
from regard.pages.png import png
from regard.pages.schema import checked
from regard.pages.text_width import estimated
from regard.pages.word_layout import Word, layout

SVG = "{http://www.w3.org/2000/svg}"


def plain(text, **more):
    """A look at a text whose words stand between spaces, all of one weight."""
    tokens, at = [], 0
    for word in text.split(" "):
        tokens.append({"text": word, "start": at, "end": at + len(word), "word": len(tokens), "special": False})
        at += len(word) + 1
    weights = [1 / len(tokens)] * len(tokens)
    return {"title": text[:20], "text": text, "tokens": tokens, "weights": weights, **more}


def hops_of(look, count=3):
    n = len(look["tokens"])
    weights = [[1.0 if t % count == hop else 0.0 for t in range(n)] for hop in range(count)]
    pairs = [[float(i == j) for j in range(count)] for i in range(count)]
    return {"weights": weights, "overlap": {"pairs": pairs, "between": 0.125, "own": 1.0, "penalty": 0.5}}


def rows(text, room, size=18):
    """The texts of the lines as they are drawn, from left to right."""
    words = [Word(0, len(w), w, i, 0.1) for i, w in enumerate(text.replace(" ", "\0 \0").split("\0"))]
    whole = base(w.text for w in words)
    lines = broken(atoms(words, lambda t: estimated(t, size)), room)
    return [[a.text for a, _ in placed(line, whole, 0, room) if not a.space] for line in lines]


def test_a_drawing_holds_every_word_and_its_weight(look):
    drawing = ElementTree.fromstring(svg(look).encode())
    said = [(e.find(f"{SVG}title"), "".join(e.itertext())) for e in drawing.iter(f"{SVG}text")]
    view = layout(checked(look))
    for word in (w for line in view.lines for w in line.words if w.number is not None):
        assert any(tip is not None and tip.text == word.tip for tip, _ in said), word.tip
    shades = {float(e.get("fill-opacity")) for e in drawing.iter(f"{SVG}rect") if e.get("fill-opacity")}
    assert max(shades) == pytest.approx(0.82)
    for weight in look["sentence_weights"]:
        assert any(tip is not None and tip.text.endswith(f": {weight:.6g}") for tip, _ in said)
    assert any("of the attention falls on the words underlined" in text for _, text in said)


def test_bars_are_as_long_as_sentences_weigh(look):
    drawn = scene(look, estimated)
    bars = [box for box in drawn.boxes if box.tip.startswith("sentence")]
    assert len(bars) == len(look["sentence_weights"])
    longest = max(look["sentence_weights"])
    for bar, weight in zip(bars, look["sentence_weights"], strict=True):
        assert bar.w == pytest.approx(max(1, 34 * weight / longest))


def test_nothing_falls_off_the_sheet(look):
    long = plain(" ".join(["word"] * 200 + ["w" * 500, "end"]))
    for given in (look, long, {**look, "sentence_weights": None, "hops": hops_of(look)}):
        drawn = scene(given, estimated)
        for item in [*drawn.boxes, *drawn.texts]:
            assert item.x >= 0
            assert item.x + item.w <= drawn.width
            assert item.y <= drawn.height


def test_hops_stand_side_by_side(look):
    look = {**look, "sentence_weights": None, "hops": hops_of(look)}
    drawn = scene(look, estimated)
    heads = {t.text.split(",")[0]: t for t in drawn.texts if t.text.startswith("hop ")}
    assert set(heads) == {"hop 1", "hop 2", "hop 3"}
    assert heads["hop 1"].y == heads["hop 2"].y < heads["hop 3"].y
    assert heads["hop 1"].x < heads["hop 2"].x
    assert any("overlap 0.125" in t.text for t in drawn.texts)
    hits = [b for b in drawn.boxes if b.fill == MARK and b.opacity == pytest.approx(0.82) and b.tip]
    assert sum(1 for b in hits if b.tip.endswith("  1")) > 10  # each hop shades its own words fully


def test_a_painted_drawing_is_a_picture(look):
    painted, notes = png(look)
    picture = Image.open(io.BytesIO(painted))
    assert picture.format == "PNG"
    assert picture.width == 1520
    assert notes == []
    colours = {c for _, c in picture.convert("RGB").getcolors(1 << 20)}
    assert (232, 128, 22) in colours  # a bar
    assert (255, 255, 255) in colours


def test_a_letter_that_no_font_has_is_told(monkeypatch):
    monkeypatch.setattr("regard.pages.fonts._has", lambda name, letter: ord(letter) < 128)
    monkeypatch.setattr("regard.pages.fonts._name_for", lambda letter: "" if ord(letter) < 128 else None)
    _, notes = png(plain("good 好"))
    assert "1 of the characters (好)" in notes[0]


def test_a_sheet_without_end_is_refused():
    with pytest.raises(UserError, match="save such a long text"):
        png(plain("word " * 40_000 + "end"))


@pytest.mark.parametrize(
    ("text", "wanted"),
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
def test_words_stand_as_they_are_read(text, wanted):
    assert rows(text, 1000) == wanted


def test_scripts_without_spaces_are_broken_anywhere_but_before_a_mark():
    text = "这家酒店非常好，我们住了三天。" * 3
    words = [Word(i, i + 1, c, i, 0.1) for i, c in enumerate(text)]
    lines = ["".join(a.text for a in line) for line in broken(atoms(words, lambda t: estimated(t, 10)), 83)]
    assert "".join(lines) == text
    assert all(len(line) <= 8 for line in lines)
    assert not any(line[0] in "，。" for line in lines)


@pytest.mark.parametrize("two_levels", [True, False])
def test_a_line_break_is_drawn_as_one(two_levels):
    look = plain("Bad film! <br /> <br /> I loved <br> it.")
    look |= {"sentences": [[0, 4], [4, 8]]} | ({"sentence_weights": [0.5, 0.5]} if two_levels else {})
    for given in (look, {**look, "sentence_weights": None, "hops": hops_of(look)}):
        drawn = scene(given, estimated)
        assert not any("br" in item.tip or "<" in getattr(item, "text", "") for item in [*drawn.boxes, *drawn.texts])
        places = {text.text: text.y for text in drawn.texts if text.size == 18}
        assert places["film!"] < places["I"] == places["loved"] < places["it."]
    empty = scene({**plain("<br /> <br />"), "sentences": [[0, 2]], "sentence_weights": [1.0]}, estimated)
    assert all(box.y + box.h <= empty.height for box in empty.boxes)


def test_a_word_wider_than_the_line_is_cut():
    (first, *rest) = rows("x" * 300, 100)
    assert "".join(first + [w for row in rest for w in row]) == "x" * 300
    assert all(estimated(row[0], 18) <= 101 for row in [first, *rest])


def test_direction_of_words():
    assert [direction(t) for t in ("abc", "שלום", "جيد", "42", "...", "(a", "1st")] == [
        "L",
        "R",
        "R",
        "1",
        "",
        "L",
        "L",
    ]
    assert base(["...", "42", "جيد", "abc"]) == "R"
    assert base(["..."]) == "L"
    assert resolved(["R", "", "R", "", "L", "1"], "L") == ["R", "R", "R", "L", "L", "L"]
    assert visual(["L", "R", "R", "L"], "L") == [0, 2, 1, 3]
    assert visual(["R", "L", "L", "R"], "R") == [3, 1, 2, 0]


def test_pictures_that_are_joined_are_one_wide():
    family, alone = estimated("👨\u200d👩\u200d👧", 10), estimated("👨", 10)
    assert family == alone == 12.5
    assert estimated("e\u0301", 10) == estimated("e", 10) == estimated("é", 10)
    assert estimated("好", 10) == 10


def test_hostile_text_is_drawn_harmlessly(hostile):
    hostile["hops"] = hops_of(hostile)
    hostile["sentence_weights"] = None
    hostile["text"] = hostile["text"].replace("is", "i\x07", 1)
    drawing = ElementTree.fromstring(svg(hostile).encode())
    assert {e.tag for e in drawing.iter()} <= {f"{SVG}{t}" for t in ("svg", "title", "rect", "text")}
    assert drawing.find(f"{SVG}title").text == hostile["title"]
