"""BPE-dropout gives different subwords of the same words, and the same ones for the same seed."""

import itertools

import numpy as np
import pytest

from regard.data import parallel_text, tokenizer
from regard.data.bpe_dropout import segment_word
from regard.data.tokenizer import EOS
from regard.errors import UserError

TEXTS = parallel_text.ParallelTexts(
    ["two young men are outside near bushes", "a little girl climbs into a playhouse", "two men"] * 3,
    ["zwei junge Männer sind im Freien", "ein kleines Mädchen klettert", "zwei Männer"] * 3,
    [],
    "",
)


@pytest.fixture(scope="module")
def words():
    return tokenizer.train_tokenizer([f" {t}" for t in (*TEXTS.sources, *TEXTS.targets)], "bpe", 320, lowercase=False)


def said(words, ids, starts):
    return [parallel_text.decode_line(ids[a:b].tolist(), words) for a, b in itertools.pairwise(starts)]


def test_without_dropout_subwords_equal_the_tokenizer(words):
    plain, again = (
        parallel_text.encode_pairs(TEXTS, words),
        parallel_text.encode_with_bpe_dropout(TEXTS, words, 99, 0.0, 0)(3),
    )
    for name in ("source", "source_starts", "target", "target_starts"):
        assert np.array_equal(getattr(plain, name), getattr(again, name))


def test_full_dropout_gives_single_bytes(words):
    found = parallel_text.encode_with_bpe_dropout(TEXTS, words, 99, 1.0, 0)(0)
    assert found.source_lengths[0] == len(" " + TEXTS.sources[0]) + 1
    assert found.target[found.target_starts[1] - 1] == EOS


def test_each_epoch_segments_the_same_text_differently(words):
    draw = parallel_text.encode_with_bpe_dropout(TEXTS, words, 99, 0.3, 0)
    first, second = draw(0), draw(1)
    assert not np.array_equal(first.source, second.source)
    for found in (first, second):
        assert said(words, found.source, found.source_starts) == TEXTS.sources
        assert said(words, found.target, found.target_starts) == TEXTS.targets
    again = parallel_text.encode_with_bpe_dropout(TEXTS, words, 99, 0.3, 0)(1)
    assert np.array_equal(second.source, again.source)
    assert np.array_equal(second.target, again.target)


def test_long_pairs_are_skipped_as_without_dropout(words):
    most = int(parallel_text.encode_pairs(TEXTS, words).source_lengths[2]) - 1
    assert (
        len(parallel_text.encode_with_bpe_dropout(TEXTS, words, most, 0.5, 0)(0))
        == len(parallel_text.encode_pairs(TEXTS, words, max_tokens=most))
        == 3
    )


def test_by_hand():
    class Given:
        def __init__(self, *draws):
            self.draws = list(draws)

        def random(self, count):
            return np.array([self.draws.pop(0) for _ in range(count)])

    ranks = {("a", "b"): 0, ("b", "c"): 1, ("ab", "c"): 2}
    assert segment_word("abc", ranks, 0.5, Given(0.9, 0.9, 0.9)) == ["abc"]
    assert segment_word("abc", ranks, 0.5, Given(0.1, 0.9)) == ["a", "bc"]
    assert segment_word("abc", ranks, 0.5, Given(0.9, 0.1, 0.2)) == ["ab", "c"]


@pytest.mark.parametrize(
    ("setting", "message"), [("dropout=1", "at least 0 and less than 1"), ("kind=words", "tokenizer.kind=bpe")]
)
def test_invalid_dropout_settings_are_errors(tmp_path, setting, message):
    import regard

    (tmp_path / "a").write_text("a b\n" * 4)
    name, value = setting.split("=")
    chosen = {"kind": "bpe", "dropout": 0.1} | {name: float(value) if value.isdigit() else value}
    with pytest.raises(UserError, match=message):
        regard.train(
            "translate",
            settings={"tokenizer": chosen, "data": {"train": [str(tmp_path / "a")] * 2}},
            out=tmp_path / "run",
        )
