"""Text comes in whole characters and whole words, and all of it is what the tokens say."""

from __future__ import annotations

import pytest

from regard.data import tokenizer
from regard.data.tokenizer import EOS, MASK, UNK
from regard.decoding.text_stream import Speller

TEXT = "The naïve café owner sold 7.5 crème brûlées — “très bon”, said Zoë… 猫が好き 😀👍🏽 and it!\nA new line. "


@pytest.fixture(params=["bpe", "chars", "words", "spaces"])
def speller(request) -> Speller:
    vocab = 270 if request.param == "bpe" else 500  # few merges: many characters are several tokens
    return Speller(tokenizer.train_tokenizer([TEXT, "and other words"], request.param, vocab))


def test_pieces_are_the_text(speller: Speller):
    ids = speller.tokenizer.encode(TEXT).ids
    text = speller.after()
    pieces = [text.add(id) for id in ids]
    pieces.append(text.rest())
    whole = "".join(pieces)
    assert whole == speller.text(ids)
    assert "\ufffd" not in whole
    if speller.kind in ("bpe", "chars"):
        assert whole == TEXT
    else:
        assert whole.split() == speller.tokenizer.decode(ids).split()
    assert sum(map(bool, pieces)) > 15, "it comes in many pieces, not all at the end"


@pytest.mark.parametrize("kind", ["bpe", "chars"])
def test_a_word_comes_when_it_is_whole(kind: str):
    speller = Speller(tokenizer.train_tokenizer([TEXT], kind, 270 if kind == "bpe" else 500))
    text, came = speller.after(), []
    for id in speller.tokenizer.encode("The naïve café owner sold").ids:
        piece = text.add(id)
        came += [piece] if piece else []
    assert came == ["The", " naïve", " café", " owner"]
    assert text.rest() == " sold"
    assert text.rest() == ""


def test_no_half_character_ever_comes():
    speller = Speller(tokenizer.train_tokenizer(["a b c"], "bpe", 262))  # every byte a token
    ids = speller.tokenizer.encode("x 😀").ids
    text = speller.after()
    assert "".join([*(text.add(id) for id in ids[:-1]), text.rest()]) == "x "
    assert speller.text(ids) == "x 😀"
    assert speller.text([ids[-1], *ids[:1]]) == "\ufffdx", "a byte that no character has is shown as such"


def test_words_stand_apart_from_the_prompt_and_from_each_other():
    speller = Speller(tokenizer.train_tokenizer(["the cat sat on the mat"], "words", 50))
    ids = speller.tokenizer.encode("sat on").ids
    assert speller.text(ids) == "sat on"
    assert speller.text(ids, after="the cat") == " sat on"
    assert speller.text(ids, after="the cat ") == "sat on"
    assert speller.text([UNK, EOS, MASK], after="the cat") == ""


def test_lines_come_back_where_they_are_tokens():
    speller = Speller(tokenizer.train_tokenizer(["the cat\nsat on"], "spaces", 50))
    ids = speller.tokenizer.encode("the cat\nsat on").ids
    assert EOS in ids
    assert speller.text(ids) == "the cat\nsat on"
    assert speller.text([*ids[:1], UNK, *ids[1:2]], after="so ") == "the <unk> cat"
