"""Properties of tokens by id: word starts, sentence ends, and length in bytes and characters."""

from __future__ import annotations

import re
from functools import cached_property

import numpy as np
from tokenizers import pre_tokenizers

from regard.data.corpus import Corpus
from regard.data.tokenizer import BOS, EOS, MASK, PAD, SEP, SPECIAL_TOKENS, Tokenizer

NON_WORD_IDS = (PAD, BOS, EOS, MASK, SEP)
"""Special tokens that are not words; [UNK] replaces a word."""

_SENTENCE_ENDS = (b".", b"!", b"?", "…".encode(), "。".encode(), "！".encode(), "？".encode())
_CHUNK_TOKENS = 1 << 20
_CLOSING = "\"'”’»)]".encode()


class TokenProperties:
    """Lookup tables over the ids of a tokenizer."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.vocab_size, self.kind = tokenizer.vocab_size, tokenizer.kind
        self._bytes = token_bytes(tokenizer)
        self.is_word = np.ones(self.vocab_size, bool)
        """Whether an id is a word or a part of one, (vocab_size,) bool."""
        self.is_word[list(NON_WORD_IDS)] = False

    @cached_property
    def bytes(self) -> np.ndarray:
        """Number of bytes of each token in UTF-8."""
        return np.array([len(raw) for raw in self._bytes], np.int64)

    @cached_property
    def characters(self) -> np.ndarray:
        """Number of characters that start in each token: in UTF-8, every byte except 10xxxxxx starts one."""
        return np.array([sum(b & 0xC0 != 0x80 for b in raw) for raw in self._bytes], np.int64)

    def measure_text(self, corpus: Corpus) -> tuple[int, int, int]:
        """Count the characters, bytes and words (whitespace-separated, plus line ends) of the text of a corpus.

        With BPE and characters the count is derived from the ids and is exact for any slice. Otherwise characters and
        bytes come from the stored sizes.
        """
        characters, size = corpus.text_size(0, corpus.num_tokens)
        if self.kind not in ("bpe", "chars"):
            return characters, size, corpus.num_tokens
        totals, ends_with_space = np.zeros(3, np.int64), True
        for start in range(0, corpus.num_tokens, _CHUNK_TOKENS):
            ids = corpus.read([start], min(_CHUNK_TOKENS, corpus.num_tokens - start))[0]
            after_space = np.concatenate([[ends_with_space], self._ends_with_space[ids[:-1]]])
            words = self._inner_words[ids].sum() + (after_space & self._starts_with_word[ids]).sum()
            totals += self.characters[ids].sum(), self.bytes[ids].sum(), words
            ends_with_space = bool(self._ends_with_space[ids[-1]])
        if self.kind == "bpe":
            characters, size = int(totals[0]), int(totals[1])
        return characters, size, int(totals[2])

    @cached_property
    def _inner_words(self) -> np.ndarray:
        """Line ends in each token, plus words that start after whitespace within it."""
        return np.array([raw.count(b"\n") + len(re.findall(rb"(?<=\s)\S", raw)) for raw in self._bytes], np.int64)

    @cached_property
    def _starts_with_word(self) -> np.ndarray:
        return np.array([bool(raw) and not raw[:1].isspace() for raw in self._bytes])

    @cached_property
    def _ends_with_space(self) -> np.ndarray:
        return np.array([not raw or raw[-1:].isspace() for raw in self._bytes])

    @cached_property
    def ends_sentence(self) -> np.ndarray:
        """Whether a sentence may start after a token: after . ! ? and the like, a line end, or [EOS].

        Abbreviations are not recognized.
        """
        ends = [b"\n" in raw or raw.strip().rstrip(_CLOSING).endswith(_SENTENCE_ENDS) for raw in self._bytes]
        return np.array(ends) | (np.arange(self.vocab_size) == EOS)

    def find_word_starts(self, ids: np.ndarray) -> np.ndarray:
        """Return where words start in rows of ids: (b, n) -> (b, n) bool.

        A token continues the previous word if letters or digits meet without a space. If tokens are whole words, every
        token starts a word.
        """
        starts = np.ones(ids.shape, bool)
        starts[:, 1:] = ~(self._starts_alphanumeric[ids[:, 1:]] & self._ends_alphanumeric[ids[:, :-1]])
        return starts

    @cached_property
    def _starts_alphanumeric(self) -> np.ndarray:
        return self._is_alphanumeric(0)

    @cached_property
    def _ends_alphanumeric(self) -> np.ndarray:
        return self._is_alphanumeric(-1)

    def _is_alphanumeric(self, index: int) -> np.ndarray:
        """Whether the byte at `index` of a token is a letter or digit; all non-ASCII bytes count as such."""
        if self.kind in ("words", "spaces"):
            return np.zeros(self.vocab_size, bool)
        return np.array([bool(raw) and (raw[index] >= 0x80 or chr(raw[index]).isalnum()) for raw in self._bytes])


def token_bytes(tokenizer: Tokenizer) -> list[bytes]:
    """Return the UTF-8 text of each token; b"" for special tokens."""
    tokens = [tokenizer.token(i) for i in range(tokenizer.vocab_size)]
    if tokenizer.kind == "bpe":
        byte_of = _byte_level_alphabet()
        raw = [bytes(byte_of.get(character, 0x3F) for character in token) for token in tokens]
    else:
        raw = [token.encode("utf-8", "replace") for token in tokens]
    return [b"" if i < len(SPECIAL_TOKENS) else part for i, part in enumerate(raw)]


def _byte_level_alphabet() -> dict[str, int]:
    """Return the byte of each character of GPT-2's alphabet: printable bytes are themselves, others start at U+0100."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in printable]
    table = {chr(b): b for b in printable} | {chr(0x100 + i): b for i, b in enumerate(others)}
    assert set(table) == set(pre_tokenizers.ByteLevel.alphabet())
    return table
