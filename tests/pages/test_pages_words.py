"""Word pieces become words, and nothing of the text is lost on the way."""

import pytest

from regard.errors import UserError
from regard.pages.schema import checked
from regard.pages.word_layout import even_share, layout


def tiny(text, spans, weights, **more):
    tokens = [{"text": text[a:b] or "[X]", "start": a, "end": b, "word": w, "special": w is None} for a, b, w in spans]
    return checked({"title": "t", "text": text, "tokens": tokens, "weights": weights, **more})


def test_the_text_survives_whole(look):
    view = layout(checked(look))
    assert "".join(word.text for line in view.lines for word in line.words) == look["text"]
    assert "".join(t for line in view.lines for word in line.words for t, _ in word.parts) == look["text"]


def test_weights_of_words_and_specials_add_up(look):
    view = layout(checked(look))
    words = [word for line in view.lines for word in line.words if word.number is not None]
    assert sum(w.weight or 0 for w in words + view.others) == pytest.approx(1)
    assert max(w.shade for w in words) == 1
    assert [w.text for w in view.others] == ["[BOS]"]


def test_pieces_are_joined_without_the_space_before_them():
    made = tiny("so disappointing", [(0, 2, 0), (2, 8, 1), (8, 16, 1)], [0.2, 0.3, 0.5])
    words = [w for line in layout(made).lines for w in line.words if w.number is not None]
    assert [(w.text, w.weight) for w in words] == [("so", 0.2), ("disappointing", 0.8)]
    assert words[1].tip.endswith("disap 0.3 + pointing 0.5")


def test_bytes_of_one_character_share_its_word():
    made = tiny("né 😀", [(0, 1, 0), (1, 2, 0), (3, 4, 1), (3, 4, 2)], [0.1, 0.2, 0.3, 0.4])
    words = [w for line in layout(made).lines for w in line.words if w.number is not None]
    assert [w.text for w in words] == ["né", "😀"]
    assert words[1].weight == pytest.approx(0.7)


def test_a_sentence_ends_a_word_and_starts_a_line():
    made = tiny("Yes.No.", [(0, 4, 0), (4, 7, 0)], [0.4, 0.6], sentences=[[0, 1], [1, 2]], sentence_weights=[0.4, 0.6])
    lines = layout(made).lines
    assert [[w.text for w in line.words] for line in lines] == [["Yes."], ["No."]]
    assert [line.shade for line in lines] == [pytest.approx(2 / 3), 1]


def test_evidence_may_cut_a_word():
    made = tiny("unhappy end", [(0, 7, 0), (8, 11, 1)], [0.5, 0.5], evidence=[[2, 9]])
    parts = [part for line in layout(made).lines for word in line.words for part in word.parts]
    assert parts == [("un", False), ("happy", True), (" ", True), ("e", True), ("nd", False)]
    assert even_share(made) == 1


def test_what_no_token_covers_is_unread():
    made = tiny("read me but not this", [(0, 4, 0), (5, 7, 1)], [0.5, 0.5])
    last = layout(made).lines[-1].words[-1]
    assert (last.text, last.unread) == (" but not this", True)


def test_no_tokens_and_no_weights_still_show_the_text():
    made = checked({"title": "t", "text": "plain", "tokens": []})
    assert [w.text for w in layout(made).lines[0].words] == ["plain"]


BROKEN = "A film!<br /><br />I loved it.<BR>"


@pytest.mark.parametrize(
    "cuts",
    [
        ["A", " ", "film", "!", "<br />", "<br />", "I", " ", "loved", " ", "it", ".", "<BR>"],  # words
        ["A", " fil", "m", "!", "<", "br", " /><", "br", " />", "I", " loved", " it", ".", "<", "BR", ">"],  # pieces
        ["A", " ", "film!<br", " ", "/><br", " ", "/>I", " ", "loved", " ", "it.<BR>"],  # what stands between spaces
        ["A", " ", "film!", "<br />", "<br", " />", "I", " ", "loved", " ", "it.", "<BR>"],
    ],
)
def test_a_line_break_is_no_word_and_its_weight_stands_beside(cuts):
    assert "".join(cuts) == BROKEN
    spans, at = [], 0
    for number, cut in enumerate(cuts):
        if cut.strip():
            spans.append((at, at + len(cut), number))
        at += len(cut)
    view = layout(tiny(BROKEN, spans, [1 / len(spans)] * len(spans)))
    words = [word for line in view.lines for word in line.words]
    assert "".join(text for word in words for text, _ in word.parts) == "A film!\n\nI loved it.\n"
    assert "".join(word.text for word in words) == "A film!\n\nI loved it.\n"
    assert not any(word.unread for word in words)
    named = [word for word in words if word.number is not None]
    assert [word.text for word in view.others] == ["<br />"]
    assert "br" not in "".join(word.tip for word in named)
    assert sum(word.weight or 0 for word in [*named, *view.others]) == pytest.approx(1)


def test_a_text_of_breaks_has_no_words():
    view = layout(tiny("<br /><br>", [(0, 6, 0), (6, 10, 1)], [0.3, 0.7]))
    assert [(word.text, word.number, word.unread) for word in view.lines[0].words] == [("\n\n", None, False)]
    assert view.others[0].tokens == [0, 1]
    assert view.others[0].weight == pytest.approx(1)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"weights": [0.5]}, "1 numbers for"),
        ({"weights": None, "sentence_weights": [1.0]}, "1 numbers for 4 sentences"),
        ({"evidence": [[0, 10_000]]}, "outside the text"),
        ({"sentences": [[0, 999]]}, "outside the"),
        ({"tokens": [{"text": "x", "start": 5, "end": 2, "word": 0, "special": False}]}, "span"),
        ({"prediction": {"label": "a", "probabilities": {"a": float("nan")}}}, "NaN"),
    ],
)
def test_what_does_not_fit_is_said(look, change, says):
    with pytest.raises(UserError, match=says):
        checked({**look, **change})


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"columns": "sentences"}, "but the look has 4 sentences"),
        ({"rows": "layers"}, "expected one of"),
        ({"data": "</script>"}, "not base64"),
        ({"heads": 9}, "9 heads"),
        ({"max": float("inf")}, "largest weight"),
    ],
)
def test_a_map_that_does_not_fit_is_said(look, change, says):
    look["maps"][0].update(change)
    with pytest.raises(UserError, match=says):
        checked(look)


def test_a_look_without_its_parts_is_said():
    with pytest.raises(UserError, match="'text', 'tokens'"):
        checked({"title": "t"})
