"""A text of any size as one stream of tokens: tokenised once, kept in memory-mapped shards, read in windows.

    corpus = build(["books/", "more.txt.gz"], tokenizer, "corpus")   # a second call finds it done
    train, valid = corpus.split(int(0.9 * corpus.num_tokens))
    train.read([0, 1000], 64)                                         # (2, 64)

Documents stand one after another, each followed by [EOS].
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from regard.data import chunks
from regard.data.encode_ids import BlockEncoder, EncodedBlock
from regard.data.fingerprint import CorpusKey, lock_folder
from regard.data.token_shards import Shard
from regard.data.tokenize_corpus import concatenate_blocks, progress_bar, tokenize_files
from regard.data.tokenizer import EOS, Tokenizer
from regard.errors import UserError

logger = logging.getLogger(__name__)

INDEX_NAME = "corpus.json"
MAX_MAPPED_BYTES = 256 << 20  # bytes of mapped pages that reading may gather before it lets them go
_ORIGIN = np.zeros(3, np.int64)
_TOUCHED = 2 << 20  # bytes that the system may map around a window: a huge page


class TokenStream:
    """The arrays behind a corpus and its parts: shards of ids, where documents start, how long the text is where."""

    def __init__(
        self,
        ids: Sequence[np.ndarray],
        documents: Sequence[np.ndarray],
        marks: Sequence[np.ndarray],
        fingerprint: str,
        shards: Sequence[Shard] = (),
    ) -> None:
        self.ids, self._documents, self._marks, self._shards = list(ids), documents, marks, shards
        self.fingerprint = fingerprint
        self.ends = np.cumsum([len(part) for part in ids], dtype=np.int64)
        self.num_tokens = int(self.ends[-1]) if len(self.ends) else 0
        self._totals = np.cumsum([_ORIGIN, *(part[-1] for part in marks)], axis=0)  # before each shard
        self._touched = 0

    def documents(self) -> np.ndarray:
        """First tokens of all documents."""
        before = self.ends - [len(part) for part in self.ids]
        starts = [start + part for start, part in zip(before, self._documents, strict=True)]
        return np.concatenate(starts) if starts else np.empty(0, np.int64)

    def lengths(self, token: int) -> np.ndarray:
        """Characters and bytes of the text before a token: from the marks on both sides of it."""
        shard = int(np.searchsorted(self.ends, token))  # the first that ends there or later
        if shard == len(self.ids):
            return self._totals[-1][1:]
        marks, rest = self._marks[shard], token - self._totals[shard][0]
        at = int(np.searchsorted(marks[:, 0], rest))
        low, high = marks[at - 1] if at else _ORIGIN, marks[at]
        part = (rest - low[0]) / max(high[0] - low[0], 1)
        return (self._totals[shard] + low + part * (high - low))[1:]

    def read(self, starts: np.ndarray, length: int) -> np.ndarray:
        """Windows of the stream, from whichever shards hold them."""
        out = np.empty((len(starts), length), np.int64)
        if not out.size:
            return out
        first = np.searchsorted(self.ends, starts, side="right")
        last = np.searchsorted(self.ends, starts + length - 1, side="right")
        places = np.arange(length)
        for number in np.unique(first):
            rows = np.flatnonzero((first == number) & (last == number))
            ids = self.ids[number]
            out[rows] = ids[(starts[rows] - (self.ends[number] - len(ids)))[:, None] + places]
        for row in np.flatnonzero(first != last):
            out[row] = self._across(int(starts[row]), length, int(first[row]), int(last[row]))
        self._touched += len(starts) * (_TOUCHED + length * 4)
        if self._touched > MAX_MAPPED_BYTES:
            self._touched = 0
            for shard in self._shards:
                shard.forget()
        return out

    def _across(self, start: int, length: int, first: int, last: int) -> np.ndarray:
        before = [int(self.ends[i]) - len(self.ids[i]) for i in range(first, last + 1)]
        parts = zip(self.ids[first : last + 1], before, strict=True)
        return np.concatenate([ids[max(start - b, 0) : start + length - b] for ids, b in parts])


class Corpus:
    """A stream of tokens, or a part of one. `len` is the number of documents, `tokens` that of tokens."""

    def __init__(self, stream: TokenStream, start: int = 0, stop: int | None = None) -> None:
        self._stream = stream
        self.start, self.stop = start, stream.num_tokens if stop is None else stop

    @classmethod
    def open(cls, folder: str | Path) -> Corpus:
        """A corpus that was built before."""
        path = Path(folder) / INDEX_NAME
        try:
            about = json.loads(path.read_text(encoding="utf-8"))
            names, fingerprint = about["shards"], about["fingerprint"]
        except FileNotFoundError:
            raise UserError(f"{folder} holds no corpus: there is no {INDEX_NAME}; build it first, or again") from None
        except (OSError, ValueError, KeyError, TypeError) as problem:
            raise UserError(f"cannot read {path}: {problem}; delete it and build the corpus again") from None
        shards = [Shard(path.with_name(name)) for name in names]
        if any(shard.about.get("fingerprint") != fingerprint for shard in shards):
            raise UserError(
                f"the shards in {folder} are not those of its {INDEX_NAME}; delete the folder and build again"
            )
        parts = [shard.arrays for shard in shards]
        return cls(
            TokenStream(
                [p["tokens"] for p in parts], [p["documents"] for p in parts], [p["marks"] for p in parts],
                fingerprint, shards,
            )
        )  # fmt: skip

    @classmethod
    def from_texts(cls, texts: str | Iterable[str], tokenizer: Tokenizer, *, documents: str = "file") -> Corpus:
        """A small corpus in memory; each text is as a file."""
        texts = [texts] if isinstance(texts, str) else list(texts)
        raw = [text.encode() for text in texts if text]
        blocks = [chunks.TextBlock(Path(f"text {i}"), 0, data, True, True, len(data)) for i, data in enumerate(raw)]
        return cls(_stream([*map(BlockEncoder(tokenizer, documents), blocks)]))

    @classmethod
    def from_ids(cls, documents: Iterable[Sequence[int]]) -> Corpus:
        """A small corpus in memory from ids, [EOS] put after each document. It knows no characters and no bytes."""
        arrays = [np.array([*ids, EOS], np.uint32) for ids in documents]
        first = np.zeros(1, np.int64)
        return cls(_stream([EncodedBlock(ids, first, np.array([[len(ids), 0, 0]], np.int64)) for ids in arrays]))

    @property
    def num_tokens(self) -> int:
        return self.stop - self.start

    @property
    def num_characters(self) -> int:
        """Characters of the text, for bits per character."""
        return self.text_size(0, self.num_tokens)[0]

    @property
    def num_bytes(self) -> int:
        """Bytes of the text as UTF-8, for bits per byte."""
        return self.text_size(0, self.num_tokens)[1]

    @property
    def fingerprint(self) -> str:
        """Of the files' contents, the tokenizer and how documents were cut; and of the part, if this is one."""
        whole = (self.start, self.stop) == (0, self._stream.num_tokens)
        return self._stream.fingerprint + ("" if whole else f"[{self.start}:{self.stop}]")

    def __len__(self) -> int:
        return len(self.document_starts())

    def document_starts(self) -> np.ndarray:
        """The first token of each document. A part that begins within a document begins with the rest of it."""
        starts = self._stream.documents()
        low, high = np.searchsorted(starts, [self.start, self.stop])
        inside = starts[low:high] - self.start
        cut = self.num_tokens and (not len(inside) or inside[0])
        return np.concatenate([[0], inside]) if cut else inside

    def read(self, starts: Sequence[int] | np.ndarray, length: int) -> np.ndarray:
        """Windows of `length` tokens, (len(starts), length), as int64."""
        starts = np.asarray(starts, np.int64).reshape(-1)
        if len(starts) and (starts.min() < 0 or starts.max() + length > self.num_tokens):
            raise IndexError(
                f"windows of {length} from {starts.min()} to {starts.max()} leave the {self.num_tokens} tokens"
            )
        return self._stream.read(starts + self.start, length)

    def text_size(self, start: int, stop: int) -> tuple[int, int]:
        """Characters and bytes of the text of tokens start..stop.

        Exact for the whole corpus and where each token is a character; elsewhere the two ends are interpolated between
        marks, which stand about 8 KB of text apart.
        """
        low, high = (self._stream.lengths(self.start + token) for token in (start, stop))
        characters, size = np.rint(high - low).astype(int).tolist()
        return characters, size

    def slice(self, start: int, stop: int) -> Corpus:
        """Tokens start..stop as a corpus: a view."""
        if not 0 <= start <= stop <= self.num_tokens:
            raise UserError(f"tokens {start}..{stop} are not a part of a corpus of {self.num_tokens}")
        return Corpus(self._stream, self.start + start, self.start + stop)

    def split(self, at: int) -> tuple[Corpus, Corpus]:
        """What stands before a token and what follows, as for training and validation."""
        return self.slice(0, at), self.slice(at, self.num_tokens)


def build_corpus(
    paths: str | chunks.TextSource | Iterable[str | chunks.TextSource],
    tokenizer: Tokenizer,
    folder: str | Path,
    *,
    documents: str = "file",
    workers: int | None = None,
    progress: bool = True,
) -> Corpus:
    """Tokenise files and folders of text into `folder`, or open what is there if it is of the same text and tokenizer.

    A document is a file, what stands between blank lines (`blank`), or a line (`line`). A build that was stopped goes
    on where its last whole shard ends. All cores tokenise; `workers` blocks of text are in hand at once.
    """
    encoder = BlockEncoder(tokenizer, documents)
    files, notes = chunks.find_text_files(paths)
    for note in notes:
        logger.info(note)
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise UserError(f"cannot make the folder {folder}: {problem.strerror or problem}") from None
    with lock_folder(folder):
        key = CorpusKey.of(files, tokenizer, documents)
        if not key.matches(folder / INDEX_NAME):
            (folder / INDEX_NAME).unlink(missing_ok=True)
            fingerprint = key.fingerprint
            with progress_bar(key.size, progress) as shown:
                names = tokenize_files(files, encoder, folder, fingerprint, workers, shown)
            if not names:
                raise UserError(f"there is no text in {', '.join(map(str, files[:3]))}: nothing, or blank lines only")
            key.write(folder / INDEX_NAME, names)
    return Corpus.open(folder)


def _stream(done: Sequence[EncodedBlock]) -> TokenStream:
    done = [part for part in done if len(part.marks)]
    if not done:
        return TokenStream([], [], [], "memory")
    all_ = concatenate_blocks(done)
    digest = hashlib.sha256(all_["tokens"].astype("<u4").tobytes()).hexdigest()
    return TokenStream([all_["tokens"]], [all_["documents"]], [all_["marks"]], digest)
