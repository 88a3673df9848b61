"""Text that was cut into words before, such as WikiText: what stands between spaces is a word, as in the literature."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.corpus import Corpus
from regard.data.tokenizer import EOS, MASK, SPECIAL_TOKENS, UNK, Tokenizer, train_tokenizer
from regard.errors import UserError

TEXT = " \n = The <unk> Cat = \n \n the cat @-@ sat , <unk> . \n"


def test_tokens_are_counted_as_in_the_literature():
    """Words, `<unk>`, and an end for every line, empty ones too."""
    made = train_tokenizer([TEXT], "spaces", 1000)
    ids = made.encode(TEXT).ids
    assert len(ids) == sum(len(line.split()) + 1 for line in TEXT.splitlines())
    assert ids.count(EOS) == 4
    assert ids.count(UNK) == 2
    assert made.vocab_size == len(SPECIAL_TOKENS) + len(set(TEXT.split()) - {"<unk>"})
    assert made.decode(ids) == "\n= The <unk> Cat =\n\nthe cat @-@ sat , <unk> .\n"


def test_rare_and_new_words_are_unknown():
    made = train_tokenizer(["a a a b b c\n"], "spaces", len(SPECIAL_TOKENS) + 2)
    assert [made.token(i) for i in made.encode("a b c d").ids] == ["a", "b", "[UNK]", "[UNK]"]


def test_literal_special_tokens_are_words():
    made = train_tokenizer(["see [MASK] and [EOS] here"], "spaces", 100)
    ids = made.encode("see [MASK] and [EOS] here x[MASK]y").ids
    assert MASK not in ids
    assert EOS not in ids
    assert ids.count(UNK) == 3


def test_saved_and_loaded(tmp_path):
    made = train_tokenizer([TEXT], "spaces", 1000)
    made.save(tmp_path)
    again = Tokenizer.load(tmp_path)
    assert again.kind == "spaces"
    assert again.encode(TEXT) == made.encode(TEXT)


def test_document_that_ends_with_a_line_end_has_one_eos():
    made = train_tokenizer([TEXT], "spaces", 1000)
    assert Corpus.from_texts(["the cat\n", "the cat"], made).num_tokens == 3 + 3


@given(st.lists(st.sampled_from(["the", "cat", "<unk>", "\n", ",", "sat"]), max_size=40))
def test_decoding_gives_the_words_back(words):
    made = train_tokenizer([TEXT], "spaces", 1000)
    text = " ".join(words)
    assert made.decode(made.encode(text).ids).split() == text.split()


def test_texts_can_be_an_iterator():
    for kind in ("chars", "spaces"):
        assert train_tokenizer((text for text in ("a b", "b c")), kind, 100).vocab_size == train_tokenizer(
            ["a b\nb c"], kind, 100
        ).vocab_size - (
            kind == "chars"  # the line end
        )
        with pytest.raises(UserError, match="no text"):
            train_tokenizer(iter([]), kind, 100)
