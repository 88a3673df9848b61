"""Convert tokens to text while they are generated, in whole words and never in half a character.

    stream = Detokenizer(tokenizer).stream("Once upon a")
    for id in ids:
        print(stream.add(id), end="")          # the words that are complete now
    print(stream.flush())

The pieces together are the text that follows the prompt, with a space in between if tokens are words.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable

from regard.data.token_properties import token_bytes
from regard.data.tokenizer import EOS, UNK, Tokenizer


class Detokenizer:
    """Converts the token ids of a tokenizer to text."""

    def __init__(self, tokenizer: Tokenizer):
        self.tokenizer, self.kind = tokenizer, tokenizer.kind
        self.token_bytes = token_bytes(tokenizer)
        """The bytes of each token; empty for special tokens."""
        if self.kind == "spaces":  # here these two special tokens are text
            self.token_bytes[EOS], self.token_bytes[UNK] = b"\n", b"<unk>"

    def stream(self, prompt: str = "") -> TextStream:
        """The text after a prompt, to which tokens are added one by one."""
        return TextStream(self, prompt)

    def decode(self, ids: Iterable[int], prompt: str = "") -> str:
        """The text of all tokens, as it follows a prompt."""
        stream = self.stream(prompt)
        return "".join([*(stream.add(id) for id in ids), stream.flush()])


class TextStream:
    """A text to which tokens are added."""

    def __init__(self, detokenizer: Detokenizer, prompt: str):
        self._detokenizer, self._last_character, self._pending = detokenizer, prompt[-1:], ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, id: int) -> str:
        """Add a token. Returns the words that are complete now."""
        text = self._decoder.decode(self._bytes(id))
        self._last_character = text[-1:] or self._last_character
        self._pending += text
        words = self._detokenizer.tokenizer.split_words(self._pending)
        complete = "".join(words[:-1])
        self._pending = self._pending[len(complete) :]
        return complete

    def flush(self) -> str:
        """Return the pending text. Bytes of an incomplete character are dropped."""
        text, self._pending = self._pending, ""
        return text

    def _bytes(self, id: int) -> bytes:
        token = self._detokenizer.token_bytes[id]
        if self._detokenizer.kind in ("bpe", "chars") or not token:
            return token
        needs_space = self._last_character not in ("", " ", "\n") and token != b"\n"
        return b" " + token if needs_space else token
