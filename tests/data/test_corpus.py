from __future__ import annotations

import gzip
import json
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.config.messages import collect_messages
from regard.config.owned_folders import claim_folder
from regard.data import chunks, encode_ids, token_shards, tokenize_corpus
from regard.data import corpus as corpus_module
from regard.data import tokenizer as tokenizers
from regard.data.corpus import Corpus, build_corpus
from regard.data.tokenizer import EOS, KINDS, Tokenizer
from regard.errors import UserError

# Whatever might stick together across a blank, or make another token of it.
FRAGMENTS = [
    " ", "\n", "\r\n", "\t", "\u00a0", "\u3000", "\u2028", "\x0b", "\x1c", "\x85", "\ufeff", "<unk>", "[MASK]",
    "the", "The", "film", "can't", "'s", "'", "80s", "7.5", "10,", ":", "...", "!", "<br", "<br />", "/", ">", "<",
    "\U0001f600", "\u200d", "\ufe0f", "\u0301", "é", "e", "Σ", "ς", "İ", "ß", "我", "们", "。", "ー", "ไทย", "\u00bf",
    "\u1681", "\u2014", "\u3001",
]  # fmt: skip
TEXT = st.lists(st.sampled_from(FRAGMENTS) | st.characters(exclude_categories=["Cs"]), max_size=60).map("".join)
STORY = "The film's end -- can't we say? -- is <br />7.5 of 10, as in the 80s...\nA line.\r\n\r\nThe film é 我们 。\n\n"


@cache
def trained(kind: str) -> Tokenizer:
    return tokenizers.train_tokenizer([STORY * 3 + "".join(FRAGMENTS)], kind, 400)


def whole(tokenizer: Tokenizer, text: str) -> list[int]:
    return tokenizer.core.encode(text, add_special_tokens=False).ids


def words(tokenizer: Tokenizer, text: str) -> list[str]:
    """What the model of the tokenizer is given to cut: where these are the same, ids are, whatever the vocabulary."""
    core = tokenizer.core
    normal = core.normalizer.normalize_str(text) if core.normalizer else text
    return [word for word, _ in core.pre_tokenizer.pre_tokenize_str(normal)]


def all_of(corpus: Corpus) -> list[int]:
    return corpus.read([0], corpus.num_tokens)[0].tolist()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks, pieces and shards so small that a short text has many."""
    monkeypatch.setattr(chunks.read_blocks, "__defaults__", ("file", 40, 0, True))
    monkeypatch.setattr(encode_ids, "PIECE_BYTES", 16)
    monkeypatch.setattr(tokenize_corpus, "SHARD_TOKENS", 25)


# Cuts


@pytest.mark.parametrize("kind", KINDS)
@given(text=TEXT, size=st.integers(1, 12))
@settings(max_examples=300, deadline=None)
def test_pieces_have_the_tokens_of_the_whole_text(kind, text, size):
    parts = [part.decode() for part in chunks.split_text(text.encode(), size)]
    assert "".join(parts) == text
    tokenizer = trained(kind)
    assert [i for part in parts for i in whole(tokenizer, part)] == whole(tokenizer, text)
    assert [word for part in parts for word in words(tokenizer, part)] == words(tokenizer, text)


@pytest.mark.parametrize("kind", KINDS)
def test_cuts_between_any_two_characters_change_no_token(kind):
    """Every character up to the last that is a blank, and some beyond, before and after one that is cut at."""
    tokenizer, checked = trained(kind), 0
    every = [chr(c) for c in (*range(0x3100), *range(0x3100, 0xD800, 97), *range(0xE000, 0x30000, 97))]
    for c in every:
        for text in (f"a{c} {c}b", f"a{c}\n{c}b", f"!{c} b", f"a{c}\r\n{c}b"):
            parts = [part.decode() for part in chunks.split_text(text.encode(), 1)]
            if len(parts) > 1:
                assert [word for part in parts for word in words(tokenizer, part)] == words(tokenizer, text), repr(text)
                checked += 1
    assert checked > 3 * len(every)


def test_pieces_are_small_in_ordinary_text():
    data = (STORY * 100).encode()
    assert max(map(len, chunks.split_text(data, 100))) < 150
    assert b"".join(chunks.split_text(data, 100)) == data


def _documents(text: str, documents: str) -> list[str]:
    """What documents are, said the slow way."""
    if documents == "file":
        return [text] if text else []
    lines = text.split("\n")
    if documents == "line":
        return [line.removesuffix("\r") for line in lines if line.strip(" \t\r\x0b\x0c")]
    found: list[list[str]] = [[]]
    for line in lines:
        if line.strip(" \t\r\x0b\x0c"):
            found[-1].append(line)
        else:
            found.append([])
    return ["\n".join(group).rstrip(" \t\r\n\x0b\x0c") for group in found if group]


@pytest.mark.parametrize("documents", chunks.DOCUMENTS)
@given(text=TEXT, size=st.integers(1, 30), resumed=st.integers(0, 20))
@settings(max_examples=300, deadline=None)
def test_documents_do_not_depend_on_blocks(tmp_path_factory, documents, text, size, resumed):
    file = tmp_path_factory.getbasetemp() / "text.txt"
    file.write_bytes(text.encode())
    blocks = list(chunks.read_blocks(file, documents, size))
    plain = text.removeprefix("\ufeff")
    assert b"".join(b.data for b in blocks) == plain.encode()
    found, open_ = [], False
    for block in blocks:
        for data, ended in chunks.split_documents(block, documents):
            found[len(found) - open_ :] = [(found[-1] if open_ else "") + data.decode()]
            open_ = not ended
    assert found == _documents(plain, documents)
    if resumed < len(blocks) - 1:
        last = blocks[resumed]
        again = list(chunks.read_blocks(file, documents, size, last.offset + len(last.data), last.ends))
        assert again == blocks[resumed + 1 :]


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_character_table_equals_the_library(text):
    corpus = Corpus.from_texts(["x" + text], trained("chars"))
    assert all_of(corpus) == [*whole(trained("chars"), "x" + text), EOS]


# Building


@pytest.mark.parametrize("documents", chunks.DOCUMENTS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("workers", [1, 2])
def test_small_blocks_give_the_same_corpus_as_one_block(tmp_path, small, kind, documents, workers):
    texts = [STORY * 3, "\n \n" + STORY, "one", "a\n\nb\n\n  \nc  \n"]
    for i, text in enumerate(texts):
        name = tmp_path / "in" / f"{i}.txt"
        name.parent.mkdir(exist_ok=True)
        if i == 1:
            name.with_suffix(".txt.gz").write_bytes(gzip.compress(text.encode()))
        else:
            name.write_bytes(text.encode())
    tokenizer = trained(kind)
    corpus = build_corpus(
        tmp_path / "in", tokenizer, tmp_path / "out", documents=documents, workers=workers, progress=False
    )
    assert len(list((tmp_path / "out").glob("shard-*"))) > 3
    expected = [doc for text in texts for doc in _documents(text, documents)]
    ids = [whole(tokenizer, doc) for doc in expected]
    ids = [i if i and i[-1] == EOS else [*i, EOS] for i in ids]
    assert all_of(corpus) == [i for each in ids for i in each]
    assert corpus.num_tokens == sum(map(len, ids))
    assert corpus.document_starts().tolist() == np.cumsum([0, *map(len, ids)])[:-1].tolist()
    assert len(corpus) == len(expected)
    assert corpus.num_characters == sum(map(len, expected))
    assert corpus.num_bytes == sum(len(doc.encode()) for doc in expected)
    in_memory = Corpus.from_texts(texts, tokenizer, documents=documents)
    assert all_of(in_memory) == all_of(corpus)
    assert in_memory.document_starts().tolist() == corpus.document_starts().tolist()
    assert (in_memory.num_characters, in_memory.num_bytes) == (corpus.num_characters, corpus.num_bytes)


def _blocks_counted(
    monkeypatch: pytest.MonkeyPatch, stop: int | None = None, how: type[BaseException] = KeyboardInterrupt
) -> list[int]:
    """Counts the blocks that are encoded, and stops after so many."""
    seen: list[int] = []
    plain = encode_ids.BlockEncoder.__call__

    def counted(self: encode_ids.BlockEncoder, block: chunks.TextBlock) -> encode_ids.EncodedBlock:
        seen.append(block.offset)
        if stop is not None and len(seen) > stop:
            raise how
        return plain(self, block)

    monkeypatch.setattr(encode_ids.BlockEncoder, "__call__", counted)
    return seen


def _build(folder: Path, *, documents: str = "file", kind: str = "bpe") -> Corpus:
    return build_corpus(folder / "in", trained(kind), folder / "out", documents=documents, workers=1, progress=False)


@pytest.fixture
def book(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_bytes((STORY * 4).encode())
    (tmp_path / "in" / "b.txt.gz").write_bytes(gzip.compress((STORY * 5).encode()))
    return tmp_path


@pytest.mark.parametrize("documents", chunks.DOCUMENTS)
@pytest.mark.parametrize("stop", [0, 3, 9, 14])
@pytest.mark.parametrize("how", [KeyboardInterrupt, MemoryError])
def test_interrupted_build_resumes(book, small, monkeypatch, stop, documents, how):
    with monkeypatch.context() as patch:
        blocks = _blocks_counted(patch)
        expected = all_of(_build(book, documents=documents))
    shards = {p.name: p.read_bytes() for p in (book / "out").glob("shard-*")}
    (book / "out").rename(book / "first")
    with monkeypatch.context() as patch:
        _blocks_counted(patch, stop, how)
        with pytest.raises(how):
            _build(book, documents=documents)
    kept = len(list((book / "out").glob("shard-*")))
    assert not (book / "out" / "corpus.json").exists()
    with pytest.raises(UserError, match="contains no corpus"):
        Corpus.open(book / "out")
    (book / "out" / f"shard-{kept:05d}.safetensors.123.tmp").write_bytes(b"half")
    with monkeypatch.context() as patch:
        again = _blocks_counted(patch)
        assert all_of(_build(book, documents=documents)) == expected
    if how is KeyboardInterrupt:
        assert len(again) == len(blocks) - stop, "Ctrl-C loses nothing"
    else:
        assert {p.name: p.read_bytes() for p in (book / "out").glob("shard-*")} == shards
    assert again == blocks[len(blocks) - len(again) :]
    assert len(again) <= len(blocks) - kept
    assert kept or stop < 9


def test_truncated_shard_is_an_error(book, small):
    expected = all_of(_build(book))
    shard = book / "out" / "shard-00001.safetensors"
    content = shard.read_bytes()
    for broken in (content[:-1], content[: len(content) // 2], content[:5], b"", b"\xff" * 100):
        shard.write_bytes(broken)
        with pytest.raises(UserError, match="not a complete shard"):
            Corpus.open(book / "out")
        assert all_of(_build(book)) == expected
    shard.unlink()
    assert all_of(_build(book)) == expected


def test_shards_of_another_corpus_are_an_error(book, small):
    expected = all_of(_build(book))
    shard = book / "out" / "shard-00001.safetensors"
    of_this = shard.read_bytes()
    _build(book, documents="blank")
    of_another = shard.read_bytes()
    assert all_of(_build(book)) == expected
    assert shard.read_bytes() == of_this
    shard.write_bytes(of_another)
    with pytest.raises(UserError, match=r"do not match corpus\.json"):
        Corpus.open(book / "out")
    assert all_of(_build(book)) == expected


def test_build_resumes_after_a_killed_process(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text(STORY * 3000)
    trained("bpe").save(tmp_path / "tokenizer.json")
    code = (
        "import sys; from regard.data import chunks, corpus, encode_ids, tokenize_corpus, tokenizer\n"
        "chunks.read_blocks.__defaults__ = ('file', 4000, 0, True); tokenize_corpus.SHARD_TOKENS = 4000\n"
        "folder = sys.argv[1]; loaded = tokenizer.Tokenizer.load(folder)\n"
        "corpus.build_corpus(folder + '/in', loaded, folder + '/out', workers=2)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    killed = subprocess.Popen(command)
    until = time.monotonic() + 60
    while not (tmp_path / "out" / "shard-00003.safetensors").exists() and time.monotonic() < until:
        time.sleep(0.002)
    killed.send_signal(signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL
    stamps = {p: p.stat().st_mtime_ns for p in (tmp_path / "out").glob("shard-*.safetensors")}
    assert not (tmp_path / "out" / "corpus.json").exists()
    subprocess.run(command, check=True)
    assert len(stamps) >= 4
    assert all(p.stat().st_mtime_ns == stamp for p, stamp in stamps.items())
    assert all_of(Corpus.open(tmp_path / "out")) == [*whole(trained("bpe"), STORY * 3000), EOS]


def test_same_text_is_tokenized_once(book, monkeypatch):
    first = _build(book)
    seen = _blocks_counted(monkeypatch)
    file = book / "in" / "a.txt"
    assert _build(book).fingerprint == first.fingerprint
    os.utime(file, (1, 1))  # another date, the same contents
    assert _build(book).fingerprint == first.fingerprint
    (book / "in").rename(book / "elsewhere")
    (book / "in").mkdir()
    for each in (book / "elsewhere").iterdir():
        each.rename(book / "in" / each.name)
    assert _build(book).fingerprint == first.fingerprint
    assert not seen
    content = file.read_bytes()
    file.write_bytes(content.replace(b"film", b"fild"))  # at once, and of the same size
    changed = _build(book)
    assert changed.fingerprint != first.fingerprint
    assert all_of(changed) != all_of(first)
    assert seen


@pytest.mark.parametrize("change", [{"documents": "blank"}, {"kind": "words"}])
def test_another_tokenizer_or_document_mode_rebuilds(book, change):
    first = _build(book)
    ids = all_of(first)
    second = _build(book, **change)
    assert second.fingerprint != first.fingerprint
    assert all_of(second) != ids
    assert all_of(first) == ids, "who has the old one open goes on reading it"


def test_modification_time_is_trusted_only_if_old(book):
    _build(book)
    assert json.loads((book / "out" / "corpus.json").read_text())["file_stats"] is None
    for file in (book / "in").iterdir():
        os.utime(file, (1, 1))
    (book / "out" / "corpus.json").unlink()
    _build(book)
    assert json.loads((book / "out" / "corpus.json").read_text())["file_stats"] is not None


def test_text_that_changes_during_the_build_is_an_error(book, monkeypatch):
    plain = encode_ids.BlockEncoder.__call__

    def changing(self: encode_ids.BlockEncoder, block: chunks.TextBlock) -> encode_ids.EncodedBlock:
        with open(book / "in" / "a.txt", "ab") as file:
            file.write(b"more")
        return plain(self, block)

    monkeypatch.setattr(encode_ids.BlockEncoder, "__call__", changing)
    with pytest.raises(UserError, match="changed while"):
        _build(book)


def test_concurrent_builds_tokenize_once(book, caplog):
    fcntl = pytest.importorskip("fcntl")
    claim_folder(book / "out", "corpus")
    caplog.set_level(logging.INFO, "regard")
    with open(book / "out" / ".lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        other = threading.Thread(target=_build, args=(book,))
        other.start()
        for _ in range(500):
            if caplog.messages:
                break
            time.sleep(0.01)
        assert "waiting" in caplog.messages[0]
        assert not (book / "out" / "corpus.json").exists()
    other.join(30)
    assert (book / "out" / "corpus.json").exists()


def test_ids_have_two_or_four_bytes(tmp_path, monkeypatch):
    (tmp_path / "a.md").write_text(STORY)
    tokenizer = trained("bpe")
    small = build_corpus(tmp_path / "a.md", tokenizer, tmp_path / "2", progress=False)
    monkeypatch.setattr(tokenizer, "vocab_size", (1 << 16) + 1)
    large = build_corpus(tmp_path / "a.md", tokenizer, tmp_path / "4", progress=False)
    assert all_of(small) == all_of(large)
    sizes = [next((tmp_path / n).glob("shard*")).stat().st_size for n in "24"]
    assert 0 <= sizes[1] - sizes[0] - 2 * small.num_tokens < 16


# Bad input


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("at", [0, 3, 57, 1000])
def test_invalid_utf8_error_has_the_offset(tmp_path, small, zipped, at):
    data = bytearray((STORY * 20).encode())
    at = next(i for i in range(at, len(data)) if data[i] < 128)
    data[at] = 0xE9
    file = tmp_path / ("a.txt.gz" if zipped else "a.txt")
    file.write_bytes(gzip.compress(bytes(data)) if zipped else bytes(data))
    with pytest.raises(UserError, match=rf"{re.escape(str(file))} is not valid UTF-8: byte 0xe9 at offset {at}\b"):
        build_corpus([file], trained("bpe"), tmp_path / "out", progress=False)


def test_bad_files_have_clear_errors(tmp_path):
    def fails(path: Path, words: str, **keywords) -> None:
        with pytest.raises(UserError, match=words):
            build_corpus(path, trained("bpe"), tmp_path / "out", progress=False, **keywords)

    good = tmp_path / "good.txt"
    good.write_text("a")
    fails(tmp_path / "goof.txt", "did you mean 'good.txt'")
    fails(good, "unknown documents='paragraph'; known: blank, file, line", documents="paragraph")
    (tmp_path / "utf16.txt").write_bytes("hello".encode("utf-16"))
    fails(tmp_path / "utf16.txt", "UTF-16")
    (tmp_path / "cut.txt.gz").write_bytes(gzip.compress(os.urandom(1000))[:-300])
    fails(tmp_path / "cut.txt.gz", r"cannot read .*cut\.txt\.gz")
    (tmp_path / "x.pdf").write_text("a")
    fails(tmp_path / "x.pdf", "does not have the suffix of a text file")
    (tmp_path / "none").mkdir()
    fails(tmp_path / "none", "contains no text files")
    (tmp_path / "empty.txt").write_text("")
    fails(tmp_path / "empty.txt", "no text in .*empty.txt")
    (tmp_path / "blank.txt").write_text(" \n\n")
    fails(tmp_path / "blank.txt", "no text in", documents="line")
    fails(good / "x.txt", "no such file|cannot read")
    with pytest.raises(UserError, match="no text files; pass files"):
        build_corpus([], trained("bpe"), tmp_path / "out")
    with pytest.raises(UserError, match="cannot create the folder"):
        build_corpus(good, trained("bpe"), good / "out")


def test_folders_are_sorted_and_files_read_once(tmp_path):
    for name in ("b/2.txt", "b/1.MD", "a.txt", ".hidden/x.txt", "b/.y.txt", "picture.png"):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_text(name)
    found, notes = chunks.find_text_files([tmp_path / "in", tmp_path / "in" / "a.txt"])
    assert [f.relative_to(tmp_path / "in").as_posix() for f in found] == ["a.txt", "b/1.MD", "b/2.txt"]
    assert len(notes) == 2
    assert "1 files" in notes[0]
    assert "given twice" in notes[1]


def test_byte_order_mark_is_not_text(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfthe film")
    corpus = build_corpus(tmp_path / "a.txt", trained("bpe"), tmp_path / "out", progress=False)
    assert all_of(corpus) == [*whole(trained("bpe"), "the film"), EOS]
    assert corpus.num_bytes == 8


# Reading


@pytest.fixture(scope="module")
def sharded(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    folder = tmp_path_factory.mktemp("sharded")
    (folder / "a.txt").write_text(STORY * 7)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks.read_blocks, "__defaults__", ("file", 40, 0, True))
        patch.setattr(encode_ids, "PIECE_BYTES", 16)
        patch.setattr(tokenize_corpus, "SHARD_TOKENS", 30)
        return build_corpus(folder / "a.txt", trained("bpe"), folder / "out", documents="blank", progress=False)


@given(data=st.data())
@settings(deadline=None)
def test_windows_are_slices_of_the_stream(sharded, data):
    stream = np.array(all_of(sharded))
    start = data.draw(st.integers(0, len(stream)))
    stop = data.draw(st.integers(start, len(stream)))
    part = sharded.slice(start, stop)
    length = data.draw(st.integers(0, part.num_tokens))
    starts = data.draw(st.lists(st.integers(0, part.num_tokens - length), max_size=20))
    windows = part.read(starts, length)
    assert windows.shape == (len(starts), length)
    assert windows.dtype == np.int64
    for first, window in zip(starts, windows, strict=True):
        assert window.tolist() == stream[start + first : start + first + length].tolist()


def test_windows_outside_the_corpus_are_an_error(sharded):
    for starts, length in (([-1], 2), ([0, sharded.num_tokens - 1], 2), ([0], sharded.num_tokens + 1)):
        with pytest.raises(IndexError, match="exceed"):
            sharded.read(starts, length)
    with pytest.raises(UserError, match="cannot take tokens"):
        sharded.slice(3, sharded.num_tokens + 1)


@given(data=st.data())
@settings(deadline=None)
def test_slices_have_correct_documents_and_sizes(sharded, data):
    at = data.draw(st.integers(0, sharded.num_tokens))
    first, second = sharded.split(at)
    assert first.num_tokens + second.num_tokens == sharded.num_tokens
    ids, bounds = all_of(sharded), set(sharded.document_starts().tolist())
    for part, ids_, offset in ((first, ids[:at], 0), (second, ids[at:], at)):
        if not part.num_tokens:
            continue
        assert all_of(part) == ids_
        assert part.document_starts().tolist() == [i for i in range(part.num_tokens) if i == 0 or i + offset in bounds]
        assert len(part) == len(part.document_starts())
    assert abs(first.num_characters + second.num_characters - sharded.num_characters) <= 1
    text = trained("bpe").decode([i for i in ids[:at] if i != EOS])
    assert abs(first.num_characters - len(text)) <= 40, "within a piece"
    assert {first.fingerprint, second.fingerprint} & {sharded.fingerprint} == (
        {sharded.fingerprint} if at in (0, sharded.num_tokens) else set()
    )


def test_slices_of_character_tokens_have_exact_sizes():
    corpus = Corpus.from_texts([STORY * 200], trained("chars"))
    for at in (0, 1, 777, 9000, 9999):
        first, second = corpus.split(at)
        assert first.num_characters == at
        assert second.num_characters == len(STORY) * 200 - at


def test_a_corpus_of_ids():
    corpus = Corpus.from_ids([[7, 8], [], [70_000]])
    assert all_of(corpus) == [7, 8, EOS, EOS, 70_000, EOS]
    assert corpus.document_starts().tolist() == [0, 3, 4]
    assert corpus.num_characters == 0
    assert corpus.fingerprint != Corpus.from_ids([[7, 8], [], [70_001]]).fingerprint
    assert (
        len(Corpus.from_ids([]))
        == Corpus.from_ids([]).num_tokens
        == Corpus.from_texts([], trained("bpe")).num_tokens
        == 0
    )
    assert Corpus.from_texts(["\n \n"], trained("bpe"), documents="blank").num_characters == 0


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="wants Linux")
def test_reading_releases_mapped_pages(tmp_path, monkeypatch):
    """Pages that were read are let go: far less than the file stays in the process."""
    (tmp_path / "a.txt").write_text("x")
    build_corpus(tmp_path / "a.txt", trained("bpe"), tmp_path / "out", progress=False)
    about = json.loads((tmp_path / "out" / "corpus.json").read_text())
    ids = np.arange(32 << 20, dtype="<u2")
    arrays = {"tokens": ids, "documents": np.zeros(1, np.int64), "sizes": np.array([[len(ids), 1, 1]])}
    token_shards.write_shard(tmp_path / "out" / about["shards"][0], arrays, {"fingerprint": about["fingerprint"]})
    monkeypatch.setattr(corpus_module, "MAX_MAPPED_BYTES", 8 << 20)

    def file_pages() -> int:
        status = Path("/proc/self/status").read_text()
        return int(re.search(r"RssFile:\s+(\d+)", status)[1]) << 10  # type: ignore[index]

    corpus = Corpus.open(tmp_path / "out")
    before, most, random = file_pages(), 0, np.random.default_rng(0)
    for _ in range(300):
        starts = random.integers(0, corpus.num_tokens - 64, 16)
        assert (corpus.read(starts, 64)[:, 0] == starts % (1 << 16)).all()
        most = max(most, file_pages() - before)
    assert most < 16 << 20
    monkeypatch.setattr(corpus_module, "MAX_MAPPED_BYTES", 1 << 40)
    for _ in range(300):
        corpus.read(random.integers(0, corpus.num_tokens - 64, 16), 64)
    assert file_pages() - before > 24 << 20, "this test can see"


def test_progress_is_logged_without_a_terminal(book, small, monkeypatch):
    monkeypatch.setattr(tokenize_corpus, "LOG_SECONDS", 0.0)
    with collect_messages() as messages:
        build_corpus(book / "in", trained("bpe"), book / "out")
    assert len(messages) > 5
    assert re.fullmatch(r"tokenizing \d+ of \d+ MB  \d+\.\d MB/s", messages[-1])


@pytest.mark.data
def test_wikitext_has_its_known_number_of_tokens(tmp_path):
    file = Path(__file__).parents[2] / "../shared/data/wikitext2/valid.txt.gz"
    if not file.exists():
        pytest.skip("no ../shared/data")
    text = gzip.decompress(file.read_bytes()).decode()
    corpus = build_corpus(file, tokenizers.train_tokenizer([text], "spaces", 40_000), tmp_path / "out", progress=False)
    assert corpus.num_tokens == len(text.split()) + text.count("\n") == 217_646
    assert len(corpus) == 1
    assert corpus.num_characters == len(text)
