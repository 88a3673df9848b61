"""Cut text into tokens that remember where they stood: byte-level BPE, whole words, single characters, or what stands
between spaces in text that was cut into words before.

All are made by the `tokenizers` library, trained on the user's own text and saved as its tokenizer.json. The
special tokens are the same in each: [PAD]=0 [UNK]=1 [BOS]=2 [EOS]=3 [MASK]=4 [SEP]=5. They are never found in a text:
"[MASK]" written by a user is six ordinary characters.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

# The library uses all cores, but its threads do not survive a fork: a child that asks for them hangs, so it gets one.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: os.environ.update(TOKENIZERS_PARALLELISM="false"))

import numpy as np
import tokenizers as tk
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers

from regard.errors import UserError, did_you_mean

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[BOS]", "[EOS]", "[MASK]", "[SEP]")
PAD, UNK, BOS, EOS, MASK, SEP = range(6)
KINDS = ("bpe", "words", "chars", "spaces")
_NO_TEXT = "no text to train a tokenizer on"
LARGE = 1_000_000  # characters of training text from which a word must be seen twice

# What counts as one word, here and where attention is shown on words. Scripts written without spaces go by character.
_SPACELESS = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}ー"
_LETTER = rf"[[\p{{L}}\p{{M}}\p{{N}}]&&[^{_SPACELESS}]]"
_CLITIC = r"['’](?i:s|re|ve|ll|d|m)(?!\p{L})"
_EMOJI_TAIL = "\u200d.|[\ufe0f\U0001f3fb-\U0001f3ff]"
_WORD = "|".join(
    (
        r"(?i:<br ?/?>)",
        r"(?>\p{N}+(?:[.,:]\p{N}+)*)(?!\p{L})",  # 7.5 and 10,000, but not the 80 of 80s
        rf"{_LETTER}+(?:(?!{_CLITIC})['’]{_LETTER}+)*",  # don't is one word
        _CLITIC,  # and film's is two
        rf"[{_SPACELESS}]\p{{M}}*",
        rf"([^\s\p{{L}}\p{{M}}\p{{N}}])(?:\1|{_EMOJI_TAIL})*",  # ... and !!! are one
    )
)
_SPACED_WORD = rf" ?(?:{_WORD})|\s+(?!\S)|\s+"  # the space before belongs to the word, as in GPT-2


@dataclass(frozen=True)
class Encoding:
    """Tokens of one text: their ids, the characters each covers, and the number of the word it is part of."""

    ids: list[int]
    offsets: list[tuple[int, int]]
    words: list[int]


class Tokenizer:
    """A trained tokenizer. `kind` is bpe, words, chars or spaces; `size` the number of ids, special ones included."""

    def __init__(self, core: tk.Tokenizer) -> None:
        core.encode_special_tokens = True  # not kept in the file, so set on each start
        self.core = core
        self.vocab_size: int = core.get_vocab_size()
        self.kind: str = _kind(core)
        self._grouper = pre_tokenizers.Split(Regex(_SPACED_WORD), "isolated")

    def encode(self, text: str) -> Encoding:
        """Tokens of one text."""
        return self._encoding(self.core.encode(text, add_special_tokens=False), text)

    def encode_batch(self, texts: Sequence[str]) -> list[Encoding]:
        """Tokens of many texts, by all cores."""
        return [self._encoding(e, t) for e, t in zip(self.encode_batch_raw(texts), texts, strict=True)]

    def encode_batch_raw(self, texts: Sequence[str]) -> list[tk.Encoding]:
        """The library's own encodings, which make Python lists only of what is asked for."""
        return self.core.encode_batch(list(texts), add_special_tokens=False)

    def decode(self, ids: Iterable[int]) -> str:
        """Text again, without special tokens; words come back joined by single spaces."""
        if self.kind == "spaces":
            return _joined(self.token(i) for i in ids)
        return self.core.decode([int(i) for i in ids], skip_special_tokens=True)

    def token(self, id: int) -> str:
        """The token as the vocabulary writes it."""
        return self.core.id_to_token(int(id)) or SPECIAL_TOKENS[UNK]

    def token_strings(self) -> list[str]:
        """How the vocabulary writes each token, by its id; "" for special ones."""
        return ["" if i < len(SPECIAL_TOKENS) else self.token(i) for i in range(self.vocab_size)]

    def split_words(self, text: str) -> list[str]:
        """A text cut into words, each with the space before it; together they are the text."""
        return [piece for piece, _ in self._grouper.pre_tokenize_str(text)]

    def save(self, path: str | Path) -> None:
        """Write tokenizer.json (into `path` if that is a folder), whole or not at all."""
        path = _file(path)
        part = path.with_name(path.name + ".tmp")
        part.write_text(self.core.to_str(pretty=True), encoding="utf-8")
        part.replace(path)

    @classmethod
    def load(cls, path: str | Path) -> Tokenizer:
        """Read tokenizer.json (from a folder, or the file itself)."""
        path = _file(path)
        try:
            content = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise UserError(f"no tokenizer file {str(path)!r}") from None
        except (OSError, UnicodeDecodeError) as problem:
            raise UserError(f"cannot read the tokenizer {path}: {problem}") from None
        try:
            core = tk.Tokenizer.from_str(content)
        except Exception as problem:  # the library raises bare Exception
            raise UserError(f"{path} is not a tokenizer.json, or is cut short: {problem}") from None
        found = [core.id_to_token(i) for i in range(len(SPECIAL_TOKENS))]
        if found != list(SPECIAL_TOKENS):
            raise UserError(
                f"{path} starts with the tokens {found}, and {list(SPECIAL_TOKENS)} are wanted: it is not one of ours"
            )
        return cls(core)

    def _encoding(self, encoding: tk.Encoding, text: str) -> Encoding:
        offsets = encoding.offsets
        words = self._groups(offsets, text) if self.kind == "chars" else encoding.word_ids
        return Encoding(encoding.ids, offsets, words)  # type: ignore[arg-type]

    def _groups(self, offsets: list[tuple[int, int]], text: str) -> list[int]:
        ends = [end for _, (_, end) in self._grouper.pre_tokenize_str(text)]
        return np.searchsorted(ends, [start for start, _ in offsets], side="right").tolist()


def train_tokenizer(texts: Iterable[str], kind: str = "bpe", vocab: int = 8000, *, lowercase: bool = True) -> Tokenizer:
    """Learn a vocabulary of at most `vocab` entries from `texts`. The same texts give the same tokenizer.

    bpe: byte-level BPE (Sennrich 2016; bytes as in GPT-2), which knows every text. words: the most frequent whole
    words, lowercased unless told otherwise. chars: the most frequent characters. spaces: the most frequent of what
    stands between spaces, for text that is cut into words already, such as WikiText: `<unk>` is [UNK], and the end of a
    line is [EOS], a token like any other.
    """
    if kind not in KINDS:
        raise UserError(f"unknown tokenizer {kind!r}; {did_you_mean(kind, KINDS)}")
    least = len(SPECIAL_TOKENS) + (256 if kind == "bpe" else 1)
    if vocab < least:
        raise UserError(f"a vocabulary of {vocab} is too small for {kind!r}; it wants {least} or more")
    if kind in ("chars", "spaces"):  # counted as they come: the texts need not fit into memory
        return Tokenizer(_chars(texts, vocab) if kind == "chars" else _spaces(texts, vocab))
    texts = texts if isinstance(texts, list) else list(texts)
    if not any(texts):
        raise UserError(_NO_TEXT)
    return Tokenizer(_bpe(texts, vocab) if kind == "bpe" else _words(texts, vocab, lowercase))


def _bpe(texts: list[str], vocab: int) -> tk.Tokenizer:
    core = tk.Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_SPACED_WORD), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    core.post_processor = processors.ByteLevel(trim_offsets=True)
    core.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=vocab, special_tokens=list(SPECIAL_TOKENS), initial_alphabet=alphabet, min_frequency=2, show_progress=False
    )
    core.train_from_iterator(texts, trainer, length=len(texts))
    return core


def _words(texts: list[str], vocab: int, lowercase: bool) -> tk.Tokenizer:
    core = tk.Tokenizer(models.WordLevel({}, unk_token=SPECIAL_TOKENS[UNK]))
    steps = [normalizers.NFC(), normalizers.Replace("’", "'"), *([normalizers.Lowercase()] if lowercase else [])]
    core.normalizer = normalizers.Sequence(steps)
    core.pre_tokenizer = pre_tokenizers.Split(Regex(_WORD), "removed", invert=True)  # what is no word is space
    least = 2 if sum(map(len, texts)) >= LARGE else 1
    trainer = trainers.WordLevelTrainer(
        vocab_size=vocab, special_tokens=list(SPECIAL_TOKENS), min_frequency=least, show_progress=False
    )
    core.train_from_iterator(texts, trainer, length=len(texts))
    return core


def _chars(texts: Iterable[str], vocab: int) -> tk.Tokenizer:
    counts: Counter[str] = Counter()
    for text in texts:  # ten times faster than the library's trainer
        counts.update(text)
    if not counts:
        raise UserError(_NO_TEXT)
    frequent = sorted(counts, key=lambda c: (-counts[c], c))[: vocab - len(SPECIAL_TOKENS)]
    vocabulary = {token: i for i, token in enumerate([*SPECIAL_TOKENS, *frequent])}
    core = tk.Tokenizer(models.WordLevel(vocabulary, unk_token=SPECIAL_TOKENS[UNK]))
    core.add_special_tokens(list(SPECIAL_TOKENS))
    core.pre_tokenizer = pre_tokenizers.Split(Regex(r"(?m:.)"), "isolated")
    core.decoder = decoders.Fuse()
    return core


_LITERAL = Regex(r"(?<!\S)(?:\[(?:PAD|UNK|BOS|EOS|MASK|SEP)\]|<unk>)(?!\S)")


def _spaces(texts: Iterable[str], vocab: int) -> tk.Tokenizer:
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text.split())
    if not counts:
        raise UserError(_NO_TEXT)
    for word in ("<unk>", *SPECIAL_TOKENS):
        del counts[word]
    frequent = sorted(counts, key=lambda w: (-counts[w], w))[: vocab - len(SPECIAL_TOKENS)]
    vocabulary = {token: i for i, token in enumerate([*SPECIAL_TOKENS, *frequent])}
    core = tk.Tokenizer(models.WordLevel(vocabulary, unk_token=SPECIAL_TOKENS[UNK]))
    core.add_special_tokens(list(SPECIAL_TOKENS))
    # What a user writes like a special token is a word that is not known.
    core.normalizer = normalizers.Sequence(
        [normalizers.Replace(_LITERAL, SPECIAL_TOKENS[UNK]), normalizers.Replace("\n", f" {SPECIAL_TOKENS[EOS]} ")]
    )
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return core


def _joined(tokens: Iterable[str]) -> str:
    """Words with spaces between them, and lines where [EOS] stood."""
    words = ("\n" if token == SPECIAL_TOKENS[EOS] else "<unk>" if token == SPECIAL_TOKENS[UNK] else token for token in tokens)
    text = " ".join(word for word in words if word not in SPECIAL_TOKENS)
    return text.replace(" \n", "\n").replace("\n ", "\n")


def _kind(core: tk.Tokenizer) -> str:
    if isinstance(core.model, models.BPE):
        return "bpe"
    if isinstance(core.pre_tokenizer, pre_tokenizers.WhitespaceSplit):
        return "spaces"
    return "chars" if isinstance(core.decoder, decoders.Fuse) else "words"


def _file(path: str | Path) -> Path:
    return Path(path) / "tokenizer.json" if Path(path).is_dir() else Path(path)
