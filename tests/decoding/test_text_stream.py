"""Text streams return whole characters and whole words, and the complete text."""

from __future__ import annotations

import pytest

from regard.data import tokenizer
from regard.data.tokenizer import EOS, MASK, UNK
from regard.decoding.text_stream import Detokenizer

TEXT = "The naïve café owner sold 7.5 crème brûlées — “très bon”, said Zoë… 猫が好き 😀👍🏽 and it!\nA new line. "


@pytest.fixture(params=["bpe", "chars", "words", "spaces"])
def detokenizer(request) -> Detokenizer:
    vocab = 270 if request.param == "bpe" else 500  # few merges: many characters are several tokens
    return Detokenizer(tokenizer.train_tokenizer([TEXT, "and other words"], request.param, vocab))


def test_pieces_add_up_to_the_text(detokenizer: Detokenizer):
    ids = detokenizer.tokenizer.encode(TEXT).ids
    text = detokenizer.stream()
    pieces = [text.add(id) for id in ids]
    pieces.append(text.flush())
    whole = "".join(pieces)
    assert whole == detokenizer.decode(ids)
    assert "\ufffd" not in whole
    if detokenizer.kind in ("bpe", "chars"):
        assert whole == TEXT
    else:
        assert whole.split() == detokenizer.tokenizer.decode(ids).split()
    assert sum(map(bool, pieces)) > 15, "it comes in many pieces, not all at the end"


@pytest.mark.parametrize("kind", ["bpe", "chars"])
def test_a_word_is_returned_when_it_is_complete(kind: str):
    detokenizer = Detokenizer(tokenizer.train_tokenizer([TEXT], kind, 270 if kind == "bpe" else 500))
    text, came = detokenizer.stream(), []
    for id in detokenizer.tokenizer.encode("The naïve café owner sold").ids:
        piece = text.add(id)
        came += [piece] if piece else []
    assert came == ["The", " naïve", " café", " owner"]
    assert text.flush() == " sold"
    assert text.flush() == ""


def test_incomplete_characters_are_never_returned():
    detokenizer = Detokenizer(tokenizer.train_tokenizer(["a b c"], "bpe", 262))  # every byte a token
    ids = detokenizer.tokenizer.encode("x 😀").ids
    text = detokenizer.stream()
    assert "".join([*(text.add(id) for id in ids[:-1]), text.flush()]) == "x "
    assert detokenizer.decode(ids) == "x 😀"
    assert detokenizer.decode([ids[-1], *ids[:1]]) == "\ufffdx", "a byte that no character has is shown as such"


def test_words_are_separated_by_spaces():
    detokenizer = Detokenizer(tokenizer.train_tokenizer(["the cat sat on the mat"], "words", 50))
    ids = detokenizer.tokenizer.encode("sat on").ids
    assert detokenizer.decode(ids) == "sat on"
    assert detokenizer.decode(ids, prompt="the cat") == " sat on"
    assert detokenizer.decode(ids, prompt="the cat ") == "sat on"
    assert detokenizer.decode([UNK, EOS, MASK], prompt="the cat") == ""


def test_newline_tokens():
    detokenizer = Detokenizer(tokenizer.train_tokenizer(["the cat\nsat on"], "spaces", 50))
    ids = detokenizer.tokenizer.encode("the cat\nsat on").ids
    assert EOS in ids
    assert detokenizer.decode(ids) == "the cat\nsat on"
    assert detokenizer.decode([*ids[:1], UNK, *ids[1:2]], prompt="so ") == "the <unk> cat"
