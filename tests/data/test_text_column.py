"""Columns of tables as training text."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from regard.data import chunks, tokenizer
from regard.data.corpus import build_corpus
from regard.data.text_column import TextColumn, find_text_column
from regard.errors import UserError

ROWS = [("good", 'a fine film, "truly"'), ("bad", "two\nlines  here"), ("good", "three")]


@pytest.fixture
def table(tmp_path) -> Path:
    file = tmp_path / "reviews.csv"
    quoted = [f'{label},"{text.replace(chr(34), chr(34) * 2)}"' for label, text in ROWS]
    file.write_text("\n".join(["opinion,review", *quoted]) + "\n")
    return file


def text_of(found: list[chunks.TextSource]) -> str:
    return b"".join(block.data for file in found for block in chunks.read_blocks(file, "line")).decode()


def test_column_is_read_as_lines(table):
    found, notes = chunks.find_text_files(f"{table}:review")
    assert text_of(found) == 'a fine film, "truly"\ntwo lines  here\nthree\n'
    assert notes == []
    found, notes = chunks.find_text_files(table)
    assert text_of(found).endswith("three\n")
    assert notes == ["reviews.csv: using 'review' as the text column"]


@pytest.mark.parametrize("zipped", [False, True])
def test_lines_with_labels_and_tables_without_a_header(tmp_path, zipped):
    write = (lambda name, text: (tmp_path / f"{name}.gz").write_bytes(gzip.compress(text.encode()))) if zipped else (
        lambda name, text: (tmp_path / name).write_text(text)
    )  # fmt: skip
    end = ".gz" if zipped else ""
    write("questions.txt", "5 When was it ?\n3 Who was it ?\n")
    write("reviews.tsv", "0\t7\tA film.\n1\t9\tAnother.\n")
    found, _ = chunks.find_text_files([tmp_path / f"questions.txt{end}:text", f"{tmp_path}/reviews.tsv{end}:2"])
    assert text_of(found) == "When was it ?\nWho was it ?\nA film.\nAnother.\n"
    assert text_of(chunks.find_text_files(tmp_path / f"questions.txt{end}")[0]).startswith("5 When")


def test_file_name_with_a_colon(tmp_path):
    (tmp_path / "notes.txt").write_text("0 not this")
    (tmp_path / "notes.txt:text").write_text("unknown ending")
    (tmp_path / "a:b.txt").write_text("text")
    assert find_text_column(tmp_path / "notes.txt:text") is None
    assert text_of(chunks.find_text_files(tmp_path / "a:b.txt")[0]) == "text"


def test_invalid_columns_are_errors(table, tmp_path):
    for name, said in (
        (f"{table}:revue", "no text column 'revue'.*did you mean 'review'"),
        (f"{table.parent}/reviws.csv:review", "no such file"),
        (f"{table.parent}/x.pdf:text", "no such file"),
    ):
        with pytest.raises(UserError, match=said):
            chunks.find_text_files(name)
    (tmp_path / "q.txt").write_text("5 When ?\n")
    with pytest.raises(UserError, match=r"use q\.txt:text"):
        chunks.find_text_files(tmp_path / "q.txt:question")
    (tmp_path / "x.pdf").write_text("")
    with pytest.raises(UserError, match=r"column of a table, such as reviews\.csv:review"):
        chunks.find_text_files(tmp_path / "x.pdf")


@pytest.mark.parametrize("documents", ["file", "blank", "line"])
def test_rows_are_documents_and_a_corpus_is_reused(table, tmp_path, documents):
    words = tokenizer.train_tokenizer([text for _, text in ROWS], "words", 50)
    given = {"documents": documents, "progress": False}
    made = build_corpus(f"{table}:review", words, tmp_path / "tokens", **given)
    assert len(made) == len(ROWS)
    shard = next((tmp_path / "tokens").glob("shard-*"))
    before = shard.stat().st_mtime_ns
    os.utime(table, ns=(10**18, 10**18))  # the same contents with another date
    again = build_corpus(TextColumn(table, "review"), words, tmp_path / "tokens", **given)
    assert shard.stat().st_mtime_ns == before
    assert again.fingerprint == made.fingerprint
    table.write_text(table.read_text().replace("bad,", "poor,"))  # labels are no part of it
    assert build_corpus(f"{table}:review", words, tmp_path / "tokens", **given).fingerprint == made.fingerprint
    table.write_text(table.read_text().replace("three", "fine"))
    changed = build_corpus(f"{table}:review", words, tmp_path / "tokens", **given)
    assert changed.fingerprint != made.fingerprint
    ids = changed.read([0], changed.num_tokens)[0]
    assert np.array_equal(ids[-2:], [words.encode("fine").ids[0], tokenizer.EOS])
