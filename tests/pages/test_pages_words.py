"""Tokens are joined to words, and no text is lost."""

import pytest

from regard.errors import UserError
from regard.pages.schema import check_look
from regard.pages.word_layout import layout, uniform_evidence_fraction


def make_look(text, spans, weights, **more):
    tokens = [{"text": text[a:b] or "[X]", "start": a, "end": b, "word": w, "special": w is None} for a, b, w in spans]
    return check_look({"title": "t", "text": text, "tokens": tokens, "weights": weights, **more})


def test_the_text_is_complete(look):
    view = layout(check_look(look))
    assert "".join(word.text for line in view.lines for word in line.words) == look["text"]
    assert "".join(t for line in view.lines for word in line.words for t, _ in word.parts) == look["text"]


def test_weights_of_words_and_special_tokens_sum_to_one(look):
    view = layout(check_look(look))
    words = [word for line in view.lines for word in line.words if word.number is not None]
    assert sum(w.weight or 0 for w in words + view.others) == pytest.approx(1)
    assert max(w.shade for w in words) == 1
    assert [w.text for w in view.others] == ["[BOS]"]


def test_tokens_are_joined_without_the_space_before_them():
    look = make_look("so disappointing", [(0, 2, 0), (2, 8, 1), (8, 16, 1)], [0.2, 0.3, 0.5])
    words = [w for line in layout(look).lines for w in line.words if w.number is not None]
    assert [(w.text, w.weight) for w in words] == [("so", 0.2), ("disappointing", 0.8)]
    assert words[1].tip.endswith("disap 0.3 + pointing 0.5")


def test_bytes_of_one_character_are_one_word():
    look = make_look("né 😀", [(0, 1, 0), (1, 2, 0), (3, 4, 1), (3, 4, 2)], [0.1, 0.2, 0.3, 0.4])
    words = [w for line in layout(look).lines for w in line.words if w.number is not None]
    assert [w.text for w in words] == ["né", "😀"]
    assert words[1].weight == pytest.approx(0.7)


def test_a_sentence_ends_a_word_and_starts_a_line():
    look = make_look(
        "Yes.No.", [(0, 4, 0), (4, 7, 0)], [0.4, 0.6], sentences=[[0, 1], [1, 2]], sentence_weights=[0.4, 0.6]
    )
    lines = layout(look).lines
    assert [[w.text for w in line.words] for line in lines] == [["Yes."], ["No."]]
    assert [line.shade for line in lines] == [pytest.approx(2 / 3), 1]


def test_evidence_may_split_a_word():
    look = make_look("unhappy end", [(0, 7, 0), (8, 11, 1)], [0.5, 0.5], evidence=[[2, 9]])
    parts = [part for line in layout(look).lines for word in line.words for part in word.parts]
    assert parts == [("un", False), ("happy", True), (" ", True), ("e", True), ("nd", False)]
    assert uniform_evidence_fraction(look) == 1


def test_truncated_text_is_unread():
    look = make_look("read me but not this", [(0, 4, 0), (5, 7, 1)], [0.5, 0.5])
    last = layout(look).lines[-1].words[-1]
    assert (last.text, last.unread) == (" but not this", True)


def test_no_tokens_and_no_weights_still_show_the_text():
    look = check_look({"title": "t", "text": "plain", "tokens": []})
    assert [w.text for w in layout(look).lines[0].words] == ["plain"]


BROKEN = "A film!<br /><br />I loved it.<BR>"


@pytest.mark.parametrize(
    "cuts",
    [
        ["A", " ", "film", "!", "<br />", "<br />", "I", " ", "loved", " ", "it", ".", "<BR>"],  # words
        ["A", " fil", "m", "!", "<", "br", " /><", "br", " />", "I", " loved", " it", ".", "<", "BR", ">"],  # subwords
        ["A", " ", "film!<br", " ", "/><br", " ", "/>I", " ", "loved", " ", "it.<BR>"],  # split at white space
        ["A", " ", "film!", "<br />", "<br", " />", "I", " ", "loved", " ", "it.", "<BR>"],
    ],
)
def test_a_line_break_is_not_a_word_and_its_weight_is_shown_separately(cuts):
    assert "".join(cuts) == BROKEN
    spans, at = [], 0
    for number, cut in enumerate(cuts):
        if cut.strip():
            spans.append((at, at + len(cut), number))
        at += len(cut)
    view = layout(make_look(BROKEN, spans, [1 / len(spans)] * len(spans)))
    words = [word for line in view.lines for word in line.words]
    assert "".join(text for word in words for text, _ in word.parts) == "A film!\n\nI loved it.\n"
    assert "".join(word.text for word in words) == "A film!\n\nI loved it.\n"
    assert not any(word.unread for word in words)
    weighted = [word for word in words if word.number is not None]
    assert [word.text for word in view.others] == ["<br />"]
    assert "br" not in "".join(word.tip for word in weighted)
    assert sum(word.weight or 0 for word in [*weighted, *view.others]) == pytest.approx(1)


def test_a_text_of_line_breaks_has_no_words():
    view = layout(make_look("<br /><br>", [(0, 6, 0), (6, 10, 1)], [0.3, 0.7]))
    assert [(word.text, word.number, word.unread) for word in view.lines[0].words] == [("\n\n", None, False)]
    assert view.others[0].tokens == [0, 1]
    assert view.others[0].weight == pytest.approx(1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weights": [0.5]}, "1 numbers for"),
        ({"weights": None, "sentence_weights": [1.0]}, "1 numbers for 4 sentences"),
        ({"evidence": [[0, 10_000]]}, "outside the text"),
        ({"sentences": [[0, 999]]}, "outside the"),
        ({"tokens": [{"text": "x", "start": 5, "end": 2, "word": 0, "special": False}]}, "span"),
        ({"prediction": {"label": "a", "probabilities": {"a": float("nan")}}}, "NaN"),
    ],
)
def test_invalid_fields_are_reported(look, change, message):
    with pytest.raises(UserError, match=message):
        check_look({**look, **change})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"columns": "sentences"}, "but the look has 4 sentences"),
        ({"rows": "layers"}, "expected one of"),
        ({"data": "</script>"}, "not base64"),
        ({"heads": 9}, "9 heads"),
        ({"max": float("inf")}, "largest weight"),
    ],
)
def test_invalid_maps_are_reported(look, change, message):
    look["maps"][0].update(change)
    with pytest.raises(UserError, match=message):
        check_look(look)


def test_missing_fields_are_reported():
    with pytest.raises(UserError, match="'text', 'tokens'"):
        check_look({"title": "t"})
