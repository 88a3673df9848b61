"""What the tokens of a vocabulary are, looked up by their ids: where words begin, where sentences end, how long they
are as text."""

from __future__ import annotations

import re
from functools import cached_property

import numpy as np
from tokenizers import pre_tokenizers

from regard.data.corpus import Corpus
from regard.data.tokenizer import BOS, EOS, MASK, PAD, SEP, SPECIAL_TOKENS, Tokenizer

NON_WORD_IDS = (PAD, BOS, EOS, MASK, SEP)
"""Special tokens that stand for no word; [UNK] stands for one that is not known."""

_ENDS = (b".", b"!", b"?", "…".encode(), "。".encode(), "！".encode(), "？".encode())
_CHUNK = 1 << 20
_CLOSE = "\"'”’»)]".encode()


class Vocabulary:
    """Tables of a tokenizer's ids."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.vocab_size, self.kind = tokenizer.vocab_size, tokenizer.kind
        self._raw = token_bytes(tokenizer)
        self.is_word = np.ones(self.vocab_size, bool)
        """Whether an id stands for (a part of) a word, and not for a place or a border."""
        self.is_word[list(NON_WORD_IDS)] = False

    @cached_property
    def bytes(self) -> np.ndarray:
        """Bytes of each token as UTF-8."""
        return np.array([len(raw) for raw in self._raw], np.int64)

    @cached_property
    def characters(self) -> np.ndarray:
        """Characters that begin in each token: in UTF-8 every byte but 10xxxxxx begins one."""
        return np.array([sum(b & 0xC0 != 0x80 for b in raw) for raw in self._raw], np.int64)

    def measure_text(self, corpus: Corpus) -> tuple[int, int, int]:
        """Characters, bytes and words (what stands between spaces, and line ends) of the text of a corpus.

        From the ids where they say it all, which is exact for any part; from the files' lengths where they do not.
        """
        characters, size = corpus.text_size(0, corpus.num_tokens)
        if self.kind not in ("bpe", "chars"):
            return characters, size, corpus.num_tokens
        totals, space = np.zeros(3, np.int64), True
        for start in range(0, corpus.num_tokens, _CHUNK):
            ids = corpus.read([start], min(_CHUNK, corpus.num_tokens - start))[0]
            after_space = np.concatenate([[space], self._space_last[ids[:-1]]])
            words = self._words_inside[ids].sum() + (after_space & self._word_first[ids]).sum()
            totals += self.characters[ids].sum(), self.bytes[ids].sum(), words
            space = bool(self._space_last[ids[-1]])
        if self.kind == "bpe":
            characters, size = int(totals[0]), int(totals[1])
        return characters, size, int(totals[2])

    @cached_property
    def _words_inside(self) -> np.ndarray:
        """Line ends in each token, and words that begin after a space within it."""
        return np.array([raw.count(b"\n") + len(re.findall(rb"(?<=\s)\S", raw)) for raw in self._raw], np.int64)

    @cached_property
    def _word_first(self) -> np.ndarray:
        return np.array([bool(raw) and not raw[:1].isspace() for raw in self._raw])

    @cached_property
    def _space_last(self) -> np.ndarray:
        return np.array([not raw or raw[-1:].isspace() for raw in self._raw])

    @cached_property
    def ends_sentence(self) -> np.ndarray:
        """Tokens after which a sentence may begin: a full stop and the like, a line end, [EOS]. Abbreviations are not
        told apart."""
        ends = [b"\n" in raw or raw.strip().rstrip(_CLOSE).endswith(_ENDS) for raw in self._raw]
        return np.array(ends) | (np.arange(self.vocab_size) == EOS)

    def find_word_starts(self, ids: np.ndarray) -> np.ndarray:
        """Where words begin in rows of ids (b, n). A token goes on with the word before it if letters or digits meet
        without a space between them; with whole words for tokens, none does."""
        starts = np.ones(ids.shape, bool)
        starts[:, 1:] = ~(self._first[ids[:, 1:]] & self._last[ids[:, :-1]])
        return starts

    @cached_property
    def _first(self) -> np.ndarray:
        return self._letters(0)

    @cached_property
    def _last(self) -> np.ndarray:
        return self._letters(-1)

    def _letters(self, place: int) -> np.ndarray:
        """Whether the byte there is of a letter or a digit. Those beyond ASCII count as such."""
        if self.kind in ("words", "spaces"):
            return np.zeros(self.vocab_size, bool)
        return np.array([bool(raw) and (raw[place] >= 0x80 or chr(raw[place]).isalnum()) for raw in self._raw])


def token_bytes(tokenizer: Tokenizer) -> list[bytes]:
    """The text of each token; nothing for special ones."""
    tokens = [tokenizer.token(i) for i in range(tokenizer.vocab_size)]
    if tokenizer.kind == "bpe":
        table = _byte_of_letter()
        raw = [bytes(table.get(letter, 0x3F) for letter in token) for token in tokens]
    else:
        raw = [token.encode("utf-8", "replace") for token in tokens]
    return [b"" if i < len(SPECIAL_TOKENS) else part for i, part in enumerate(raw)]


def _byte_of_letter() -> dict[str, int]:
    """The library writes a byte as a letter (GPT-2's table): printable bytes as themselves, the others from U+0100."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [b for b in range(256) if b not in shown]
    table = {chr(b): b for b in shown} | {chr(0x100 + i): b for i, b in enumerate(hidden)}
    assert set(table) == set(pre_tokenizers.ByteLevel.alphabet())
    return table
