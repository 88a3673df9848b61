"""Parallel texts are read, encoded, and batched by length on both sides."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data import parallel_text, tokenizer
from regard.data.tokenizer import EOS
from regard.errors import UserError

TEXTS = parallel_text.ParallelTexts(["a b c", "the red dog", "one"], ["x y", "der rote Hund", "eins zwei drei"], [], "")


def write(path, text):
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def test_two_aligned_files(tmp_path):
    a = write(tmp_path / "train.en", "one\r\ntwo\u2028three\n\nfour\n")
    b = write(tmp_path / "train.de.gz", "eins\nzwei drei\nleer\n \n")
    found = parallel_text.read_parallel_texts([a, b])
    assert found.sources == ["one", "two\u2028three"]  # only a line feed ends a line
    assert found.targets == ["eins", "zwei drei"]
    assert found.notes == ["skipped 2 of 4 pairs: empty line"]
    assert parallel_text.read_parallel_texts([a, b], keep_empty=True).sources == ["one", "two\u2028three", "", "four"]
    assert parallel_text.read_parallel_texts([b, a]).fingerprint != found.fingerprint


def test_a_line_may_be_blank_and_a_file_may_not_be_empty(tmp_path):
    assert parallel_text.read_lines(write(tmp_path / "blank.en", "\n \n\n"))[0] == ["", " ", ""]
    with pytest.raises(UserError, match="is empty"):
        parallel_text.read_lines(write(tmp_path / "empty.en", ""))


def test_different_line_counts_are_an_error(tmp_path):
    a, b = write(tmp_path / "a.en", "1\n2\n3\n"), write(tmp_path / "b.de", "1\n2\n")
    with pytest.raises(UserError, match=r"a\.en has 3 lines and .*b\.de has 2"):
        parallel_text.read_parallel_texts([a, b])


@pytest.mark.parametrize(
    ("name", "content", "columns"),
    [
        ("t.tsv", "turn left\tLEFT\n1.0\t2.0\n", {}),
        ("t.csv", 'en,de\nturn left,LEFT\n"1.0","2.0"\n', {}),
        ("t.csv", "id,target,source\n7,LEFT,turn left\n8,2.0,1.0\n", {}),
        ("t.tsv.gz", "x\tLEFT\tturn left\nx\t2.0\t1.0\n", {"source": "2", "target": "1"}),
        ("t.jsonl", '{"q": "turn left", "a": "LEFT"}\n{"q": "1.0", "a": "2.0"}\n', {"source": "q", "target": "a"}),
    ],
)
def test_a_table_of_two_columns(tmp_path, name, content, columns):
    found = parallel_text.read_parallel_texts([write(tmp_path / name, content)], **columns)
    assert found.sources == ["turn left", "1.0"]
    assert found.targets == ["LEFT", "2.0"]


def test_guessed_header_is_reported(tmp_path):
    file = write(tmp_path / "t.csv", "one,eins\ntwo,zwei\n")
    found = parallel_text.read_parallel_texts([file])
    assert found.sources == ["two"]
    assert "using 'one' and 'eins' as the header" in found.notes[-1]
    assert parallel_text.read_parallel_texts([file], source="0", target="1").sources == ["one", "two"]
    assert len(parallel_text.read_parallel_texts([write(tmp_path / "u.csv", "source,target\ntwo,zwei\n")]).notes) == 1


@pytest.mark.parametrize(
    ("name", "content", "columns", "message"),
    [
        ("t.csv", "a,b,c\n1,2,3\n", {}, "3 columns .*--source NAME"),
        ("t.csv", "a,b\n1,2\n", {"source": "a"}, "name both"),
        ("t.csv", "left,right\n1,2\n", {"source": "left", "target": "rihgt"}, "did you mean 'right'"),
        ("t.txt", "a b\n", {}, "is not a table"),
        ("t.tsv", "\ta\n\tb\n", {}, "each of the 2 pairs"),
        ("t.tsv", "", {}, "is empty"),
    ],
)
def test_unreadable_tables_are_errors(tmp_path, name, content, columns, message):
    with pytest.raises(UserError, match=message):
        parallel_text.read_parallel_texts([write(tmp_path / name, content)], **columns)


def test_columns_of_two_files_are_an_error(tmp_path):
    a, b = write(tmp_path / "a", "1\n"), write(tmp_path / "b", "1\n")
    with pytest.raises(UserError, match="no columns"):
        parallel_text.read_parallel_texts([a, b], source="x", target="y")
    with pytest.raises(UserError, match="3 files"):
        parallel_text.read_parallel_texts([a, b, a])


@pytest.mark.parametrize("kind", ["bpe", "chars", "spaces"])
def test_tokens_decode_to_the_text(kind):
    words = tokenizer.train_tokenizer([*TEXTS.sources, *TEXTS.targets], kind, 300)
    found = parallel_text.encode_pairs(TEXTS, words)
    for flat, starts, texts in (
        (found.source, found.source_starts, TEXTS.sources),
        (found.target, found.target_starts, TEXTS.targets),
    ):
        for i, text in enumerate(texts):
            ids = flat[starts[i] : starts[i + 1]].tolist()
            assert ids[-1] == EOS
            assert EOS not in ids[:-1]
            assert parallel_text.decode_line(ids, words) == text
    assert found.source_lengths.sum() == len(found.source)


def test_first_word_has_the_same_tokens_as_elsewhere():
    words = tokenizer.train_tokenizer(["dog the dog the dog"] * 3, "bpe", 300)
    ids = words.encode(parallel_text.add_leading_space("dog the dog", words)).ids
    assert ids[0] == ids[2]


def test_long_pairs_are_skipped_and_counted():
    words = tokenizer.train_tokenizer([*TEXTS.sources, *TEXTS.targets], "spaces", 300)
    with pytest.raises(UserError, match="no pair has at most 2 tokens"):
        parallel_text.encode_pairs(TEXTS, words, max_tokens=2)
    found = parallel_text.encode_pairs(
        parallel_text.ParallelTexts(["a b", "a b c"], ["x", "y"], [], ""), words, max_tokens=2
    )
    assert (len(found), found.num_skipped) == (1, 1)


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), max_size=60),
    st.integers(1, 300),
    st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_each_pair_is_in_one_batch_within_the_budget(sizes, tokens, shuffle):
    lengths = np.array(sizes, np.int64).reshape(-1, 2)
    found = parallel_text.plan_pair_batches(lengths[:, 0], lengths[:, 1], tokens, seed=3, epoch=1, shuffle=shuffle)
    assert sorted(i for part in found for i in part.tolist()) == list(range(len(sizes)))
    for part in found:
        cost = (lengths[part, 0].max() + lengths[part, 1].max()) * len(part)
        assert cost <= tokens or len(part) == 1
    again = parallel_text.plan_pair_batches(lengths[:, 0], lengths[:, 1], tokens, seed=3, epoch=1, shuffle=shuffle)
    assert all((a == b).all() for a, b in zip(found, again, strict=True))


def test_batches_hold_little_padding():
    random = np.random.default_rng(0)
    sources = random.integers(5, 40, 3000)
    targets = np.clip(sources + random.integers(-4, 5, 3000), 1, None)
    found = parallel_text.plan_pair_batches(sources, targets, 4096, seed=0, epoch=0)
    places = sum((sources[p].max() + targets[p].max()) * len(p) for p in found)
    assert (sources.sum() + targets.sum()) / places > 0.9
