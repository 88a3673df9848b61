"""Many documents as a few flat arrays: token ids, and the offsets of documents and sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import tokenizers as tk

from regard.data.sentence_split import split_sentences
from regard.data.tokenizer import UNK, Tokenizer
from regard.data.word_shape import find_shapes, pack_shapes
from regard.errors import UserError

CHUNK_CHARACTERS = 4_000_000  # characters tokenized in one call: the library's encodings need 100 times more memory


@dataclass(frozen=True)
class TokenizedDocuments:
    """Token ids of documents, with the offsets of documents and sentences.

    Document i has the tokens ids[starts[i]:starts[i+1]] and the sentences sentence_offsets[i]:sentence_offsets[i+1].
    Sentence s starts at token sentence_starts[s] (an index into `ids`) and ends at the next start or at the end of the
    document. Every document and every sentence has at least one token.

    Attributes:
        ids: (tokens,) int32.
        starts: (documents + 1,) int64.
        sentence_starts: (sentences,) int64.
        sentence_offsets: (documents + 1,) int64.
        num_truncated: Number of documents that were truncated to `max_tokens`.
    """

    ids: np.ndarray
    starts: np.ndarray
    sentence_starts: np.ndarray
    sentence_offsets: np.ndarray
    num_truncated: int = 0

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> np.ndarray:
        """Number of tokens of each document."""
        return np.diff(self.starts)

    @property
    def sentence_counts(self) -> np.ndarray:
        """Number of sentences of each document."""
        return np.diff(self.sentence_offsets)

    @property
    def sentence_lengths(self) -> np.ndarray:
        """Number of tokens of each sentence of all documents."""
        return np.diff(self.sentence_starts, append=len(self.ids))

    def document(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the ids of document i and the bounds of its sentences: 0, ..., length."""
        if not -len(self) <= i < len(self):
            raise IndexError(f"document {i} of {len(self)}")
        i %= len(self)
        first, last = self.starts[i], self.starts[i + 1]
        bounds = self.sentence_starts[self.sentence_offsets[i] : self.sentence_offsets[i + 1]] - first
        return self.ids[first:last], np.append(bounds, last - first)


def encode_documents(
    texts: Sequence[str], tokenizer: Tokenizer, *, max_tokens: int | None = None, word_shapes: bool = False
) -> TokenizedDocuments:
    """Tokenize texts and split them into sentences.

    A token belongs to the sentence in which it starts. A text without tokens (only whitespace) becomes one [UNK].

    Args:
        texts: The documents.
        tokenizer: The tokenizer.
        max_tokens: Longer documents are truncated; the beginning is kept.
        word_shapes: Whether ids also contain the shape of the word (see regard.data.word_shape).
    """
    if max_tokens is not None and max_tokens < 1:
        raise UserError(f"max_tokens must be at least 1, got {max_tokens}")
    ids: list[np.ndarray] = [np.empty(0, np.int32)]
    lengths: list[int] = []
    sentence_starts: list[int] = []
    sentence_counts: list[int] = []
    num_tokens = num_truncated = 0
    for chunk in _split_chunks(texts):
        for text, encoding in zip(chunk, tokenizer.encode_batch_raw(chunk), strict=True):
            tokens = np.array(encoding.ids or [UNK], np.int32)
            if word_shapes and encoding.ids:
                tokens = pack_shapes(tokens, find_shapes(text, np.array(encoding.offsets)))
            if max_tokens is not None and len(tokens) > max_tokens:
                tokens, num_truncated = tokens[:max_tokens].copy(), num_truncated + 1
            starts = _find_sentence_starts(text, encoding, len(tokens))
            ids.append(tokens)
            lengths.append(len(tokens))
            sentence_starts.extend([num_tokens + start for start in starts])
            sentence_counts.append(len(starts))
            num_tokens += len(tokens)
    return TokenizedDocuments(
        ids=np.concatenate(ids),
        starts=np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64),
        sentence_starts=np.array(sentence_starts, np.int64),
        sentence_offsets=np.concatenate([[0], np.cumsum(sentence_counts, dtype=np.int64)]).astype(np.int64),
        num_truncated=num_truncated,
    )


def _split_chunks(texts: Sequence[str]) -> Iterator[list[str]]:
    chunk: list[str] = []
    size = 0
    for text in texts:
        chunk.append(text)
        size += len(text)
        if size >= CHUNK_CHARACTERS:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _find_sentence_starts(text: str, encoding: tk.Encoding, length: int) -> list[int]:
    """Return the first token of each sentence, without sentences that have no token or start beyond `length`."""
    spans = split_sentences(text)
    if len(spans) > 200:  # each char_to_token call scans the text: a binary search is faster for many sentences
        token_starts = np.array(encoding.offsets, np.int64).reshape(-1, 2)[:, 0]
        tokens = np.searchsorted(token_starts, [start for start, _ in spans[1:]]).tolist()
    else:
        tokens = [_find_token(encoding, start, end) for start, end in spans[1:]]
    starts = [0]
    for token in tokens:
        if token is not None and starts[-1] < token < length:
            starts.append(token)
    return starts


def _find_token(encoding: tk.Encoding, start: int, end: int) -> int | None:
    """Return the first token that starts between these characters."""
    for character in range(start, end):
        token = encoding.char_to_token(character)
        if token is not None:
            span = encoding.token_to_chars(token)
            if span is not None and span[0] >= start:
                return token
    return None
