"""A text of any size as one stream of token ids: tokenized once, stored in memory-mapped shards, read in windows.

    corpus = build_corpus(["books/", "more.txt.gz"], tokenizer, "corpus")   # a second call opens the stored corpus
    train, valid = corpus.split(int(0.9 * corpus.num_tokens))
    train.read([0, 1000], 64)                                               # (2, 64)

Documents follow one another, each followed by [EOS].
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from regard.config.owned_folders import claim_folder
from regard.data import chunks
from regard.data.encode_ids import BlockEncoder, EncodedBlock
from regard.data.fingerprint import CorpusKey, lock_folder
from regard.data.token_shards import Shard
from regard.data.tokenize_corpus import concatenate_blocks, progress_bar, tokenize_files
from regard.data.tokenizer import EOS, Tokenizer
from regard.errors import UserError

logger = logging.getLogger(__name__)

INDEX_NAME = "corpus.json"
MAX_MAPPED_BYTES = 256 << 20  # bytes of mapped pages that reading may accumulate before they are released
_ZERO_SIZES = np.zeros(3, np.int64)
_WINDOW_BYTES = 2 << 20  # bytes that the system may map around a window: a huge page


class TokenStream:
    """The arrays of a corpus: shards of ids, the starts of documents, and cumulative text sizes.

    Args:
        ids: Token ids of each shard.
        documents: First token of each document, per shard.
        sizes: Cumulative (tokens, characters, bytes) at some places, per shard; see `EncodedBlock`.
        fingerprint: Hash of text, tokenizer and document mode.
        shards: Memory-mapped files behind the arrays, whose pages are released from time to time.
    """

    def __init__(
        self,
        ids: Sequence[np.ndarray],
        documents: Sequence[np.ndarray],
        sizes: Sequence[np.ndarray],
        fingerprint: str,
        shards: Sequence[Shard] = (),
    ) -> None:
        self.ids, self._documents, self._sizes, self._shards = list(ids), documents, sizes, shards
        self.fingerprint = fingerprint
        self.ends = np.cumsum([len(part) for part in ids], dtype=np.int64)
        self.num_tokens = int(self.ends[-1]) if len(self.ends) else 0
        self._totals = np.cumsum([_ZERO_SIZES, *(part[-1] for part in sizes)], axis=0)  # before each shard
        self._mapped_bytes = 0

    def document_starts(self) -> np.ndarray:
        """Return the first token of each document."""
        shard_starts = self.ends - [len(part) for part in self.ids]
        starts = [start + part for start, part in zip(shard_starts, self._documents, strict=True)]
        return np.concatenate(starts) if starts else np.empty(0, np.int64)

    def text_size_before(self, token: int) -> np.ndarray:
        """Return the characters and bytes of the text before a token, interpolated between the nearest known sizes."""
        shard = int(np.searchsorted(self.ends, token))  # the first one that ends there or later
        if shard == len(self.ids):
            return self._totals[-1][1:]
        sizes, offset = self._sizes[shard], token - self._totals[shard][0]
        row = int(np.searchsorted(sizes[:, 0], offset))
        low, high = sizes[row - 1] if row else _ZERO_SIZES, sizes[row]
        fraction = (offset - low[0]) / max(high[0] - low[0], 1)
        return (self._totals[shard] + low + fraction * (high - low))[1:]

    def read(self, starts: np.ndarray, length: int) -> np.ndarray:
        """Return windows of the stream, (len(starts), length) int64."""
        windows = np.empty((len(starts), length), np.int64)
        if not windows.size:
            return windows
        first = np.searchsorted(self.ends, starts, side="right")
        last = np.searchsorted(self.ends, starts + length - 1, side="right")
        offsets = np.arange(length)
        for shard in np.unique(first):
            rows = np.flatnonzero((first == shard) & (last == shard))
            ids = self.ids[shard]
            windows[rows] = ids[(starts[rows] - (self.ends[shard] - len(ids)))[:, None] + offsets]
        for row in np.flatnonzero(first != last):
            windows[row] = self._read_across_shards(int(starts[row]), length, int(first[row]), int(last[row]))
        self._mapped_bytes += len(starts) * (_WINDOW_BYTES + length * 4)
        if self._mapped_bytes > MAX_MAPPED_BYTES:
            self._mapped_bytes = 0
            for shard in self._shards:
                shard.release_pages()
        return windows

    def _read_across_shards(self, start: int, length: int, first: int, last: int) -> np.ndarray:
        shard_starts = [int(self.ends[i]) - len(self.ids[i]) for i in range(first, last + 1)]
        shards = zip(self.ids[first : last + 1], shard_starts, strict=True)
        return np.concatenate([ids[max(start - begin, 0) : start + length - begin] for ids, begin in shards])


class Corpus:
    """A stream of tokens, or a slice of one. `len(corpus)` is the number of documents."""

    def __init__(self, stream: TokenStream, start: int = 0, stop: int | None = None) -> None:
        self._stream = stream
        self.start, self.stop = start, stream.num_tokens if stop is None else stop

    @classmethod
    def open(cls, folder: str | Path) -> Corpus:
        """Open a corpus that `build_corpus` has stored."""
        path = Path(folder) / INDEX_NAME
        try:
            index = json.loads(path.read_text(encoding="utf-8"))
            names, fingerprint = index["shards"], index["fingerprint"]
        except FileNotFoundError:
            raise UserError(f"{folder} contains no corpus: {INDEX_NAME} is missing; build the corpus again") from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"cannot read {path}: {error}; delete it and build the corpus again") from None
        shards = [Shard(path.with_name(name)) for name in names]
        if any(shard.metadata.get("fingerprint") != fingerprint for shard in shards):
            raise UserError(f"the shards in {folder} do not match {INDEX_NAME}; delete the folder and build it again")
        arrays = [shard.arrays for shard in shards]
        ids, documents, sizes = ([a[name] for a in arrays] for name in ("tokens", "documents", "sizes"))
        return cls(TokenStream(ids, documents, sizes, fingerprint, shards))

    @classmethod
    def from_texts(cls, texts: str | Iterable[str], tokenizer: Tokenizer, *, documents: str = "file") -> Corpus:
        """Tokenize texts into a small corpus in memory. Each text is treated like a file."""
        texts = [texts] if isinstance(texts, str) else list(texts)
        raw = [text.encode() for text in texts if text]
        blocks = [chunks.TextBlock(Path(f"text {i}"), 0, data, True, True, len(data)) for i, data in enumerate(raw)]
        return cls(_build_stream([*map(BlockEncoder(tokenizer, documents), blocks)]))

    @classmethod
    def from_ids(cls, documents: Iterable[Sequence[int]]) -> Corpus:
        """Build a small corpus in memory from ids; [EOS] is added after each document. Text sizes are 0."""
        arrays = [np.array([*ids, EOS], np.uint32) for ids in documents]
        first = np.zeros(1, np.int64)
        return cls(_build_stream([EncodedBlock(ids, first, np.array([[len(ids), 0, 0]], np.int64)) for ids in arrays]))

    @property
    def num_tokens(self) -> int:
        return self.stop - self.start

    @property
    def num_characters(self) -> int:
        """Characters of the text, for bits per character."""
        return self.text_size(0, self.num_tokens)[0]

    @property
    def num_bytes(self) -> int:
        """Bytes of the text in UTF-8, for bits per byte."""
        return self.text_size(0, self.num_tokens)[1]

    @property
    def fingerprint(self) -> str:
        """Hash of the text, the tokenizer and the document mode; a slice adds its bounds."""
        is_complete = (self.start, self.stop) == (0, self._stream.num_tokens)
        return self._stream.fingerprint + ("" if is_complete else f"[{self.start}:{self.stop}]")

    def __len__(self) -> int:
        return len(self.document_starts())

    def document_starts(self) -> np.ndarray:
        """Return the first token of each document. A slice that starts within a document starts with the rest of it."""
        starts = self._stream.document_starts()
        low, high = np.searchsorted(starts, [self.start, self.stop])
        starts = starts[low:high] - self.start
        starts_within_document = self.num_tokens and (not len(starts) or starts[0])
        return np.concatenate([[0], starts]) if starts_within_document else starts

    def read(self, starts: Sequence[int] | np.ndarray, length: int) -> np.ndarray:
        """Return windows of `length` tokens, (len(starts), length) int64."""
        starts = np.asarray(starts, np.int64).reshape(-1)
        if len(starts) and (starts.min() < 0 or starts.max() + length > self.num_tokens):
            raise IndexError(
                f"windows of {length} tokens from {starts.min()} to {starts.max()} exceed the {self.num_tokens} tokens"
            )
        return self._stream.read(starts + self.start, length)

    def text_size(self, start: int, stop: int) -> tuple[int, int]:
        """Return the characters and bytes of the text of tokens start..stop.

        The result is exact for the complete corpus, and where each token is a character. Elsewhere both ends are
        interpolated between places that are about 8 KB of text apart.
        """
        low, high = (self._stream.text_size_before(self.start + token) for token in (start, stop))
        characters, size = np.rint(high - low).astype(int).tolist()
        return characters, size

    def slice(self, start: int, stop: int) -> Corpus:
        """Return tokens start..stop as a corpus, without a copy."""
        if not 0 <= start <= stop <= self.num_tokens:
            raise UserError(f"cannot take tokens {start}..{stop} of a corpus of {self.num_tokens} tokens")
        return Corpus(self._stream, self.start + start, self.start + stop)

    def split(self, token: int) -> tuple[Corpus, Corpus]:
        """Return the tokens before `token` and the rest, for example for training and validation."""
        return self.slice(0, token), self.slice(token, self.num_tokens)


def build_corpus(
    paths: str | chunks.TextSource | Iterable[str | chunks.TextSource],
    tokenizer: Tokenizer,
    folder: str | Path,
    *,
    documents: str = "file",
    workers: int | None = None,
    progress: bool = True,
) -> Corpus:
    """Tokenize files into `folder`, or open the corpus there if it has the same text and tokenizer.

    An interrupted build resumes after its last complete shard.

    Args:
        paths: Text files, folders, or columns of tables such as reviews.csv:review.
        tokenizer: The tokenizer.
        folder: Where shards are stored.
        documents: What a document is: a "file", the text between "blank" lines, or a "line".
        workers: Number of blocks that are tokenized at the same time. Default: one more than there are cores.
        progress: Whether to show a progress bar.
    """
    encoder = BlockEncoder(tokenizer, documents)
    files, notes = chunks.find_text_files(paths)
    for note in notes:
        logger.info(note)
    folder = Path(folder)
    claim_folder(folder, "corpus")
    with lock_folder(folder):
        key = CorpusKey.from_files(files, tokenizer, documents)
        if not key.matches(folder / INDEX_NAME):
            (folder / INDEX_NAME).unlink(missing_ok=True)
            fingerprint = key.fingerprint
            with progress_bar(key.size, progress) as on_progress:
                names = tokenize_files(files, encoder, folder, fingerprint, workers, on_progress)
            if not names:
                raise UserError(f"no text in {', '.join(map(str, files[:3]))}: the files are empty or blank")
            key.write(folder / INDEX_NAME, names)
    return Corpus.open(folder)


def _build_stream(blocks: Sequence[EncodedBlock]) -> TokenStream:
    blocks = [block for block in blocks if len(block.sizes)]
    if not blocks:
        return TokenStream([], [], [], "memory")
    arrays = concatenate_blocks(blocks)
    digest = hashlib.sha256(arrays["tokens"].astype("<u4").tobytes()).hexdigest()
    return TokenStream([arrays["tokens"]], [arrays["documents"]], [arrays["sizes"]], digest)
