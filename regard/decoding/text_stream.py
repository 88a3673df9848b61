"""Tokens to text while they come: never half a character, and on a terminal never half a word.

    text = Speller(tokenizer).after("Once upon a")
    for id in ids:
        print(text.add(id), end="")          # the words that have become whole
    print(text.rest())

All pieces together are what follows the prompt, with the space that stands between where words are tokens.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable

from regard.data.tokenizer import EOS, UNK, Tokenizer
from regard.data.vocabulary import token_bytes


class Speller:
    """How a tokenizer's ids are written."""

    def __init__(self, tokenizer: Tokenizer):
        self.tokenizer, self.kind = tokenizer, tokenizer.kind
        self.raw = token_bytes(tokenizer)
        """The bytes of each token; none for special ones."""
        if self.kind == "spaces":  # there these two stand for text
            self.raw[EOS], self.raw[UNK] = b"\n", b"<unk>"

    def after(self, prompt: str = "") -> Text:
        return Text(self, prompt)

    def text(self, ids: Iterable[int], after: str = "") -> str:
        """All of it at once."""
        text = self.after(after)
        return "".join([*(text.add(id) for id in ids), text.rest()])


class Text:
    """A text that grows by tokens."""

    def __init__(self, speller: Speller, prompt: str):
        self._speller, self._before, self._held = speller, prompt[-1:], ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, id: int) -> str:
        """The next token: gives what has become whole by it."""
        letters = self._decoder.decode(self._bytes(id))
        self._before = letters[-1:] or self._before
        self._held += letters
        words = self._speller.tokenizer.split_words(self._held)
        whole = "".join(words[:-1])
        self._held = self._held[len(whole) :]
        return whole

    def rest(self) -> str:
        """What was held back. Bytes that begin a character whose end never came are left out."""
        rest, self._held = self._held, ""
        return rest

    def _bytes(self, id: int) -> bytes:
        word = self._speller.raw[id]
        if self._speller.kind in ("bpe", "chars") or not word:
            return word
        apart = self._before not in ("", " ", "\n") and word != b"\n"
        return b" " + word if apart else word
