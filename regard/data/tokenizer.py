"""Tokenizers: byte-level BPE, words, characters, or space-separated words of pretokenized text.

All use the `tokenizers` library, are trained on the user's text, and are saved as tokenizer.json. All have the same
special tokens: [PAD]=0 [UNK]=1 [BOS]=2 [EOS]=3 [MASK]=4 [SEP]=5. Encoding a text never produces them: "[MASK]" in a
text is six ordinary characters.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

# The library uses all cores, but its threads do not survive a fork: a forked child would hang, so it uses one thread.
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
LARGE_TEXT = 1_000_000  # characters; in larger training texts a word must occur twice

# The definition of a word, also for showing attention on words. Scripts without spaces are split into characters.
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
_SPACED_WORD = rf" ?(?:{_WORD})|\s+(?!\S)|\s+"  # a word includes the space before it, as in GPT-2


@dataclass(frozen=True)
class Encoding:
    """Tokens of one text: ids, character spans (start, end), and the index of the word that each belongs to."""

    ids: list[int]
    offsets: list[tuple[int, int]]
    word_ids: list[int]


class Tokenizer:
    """A trained tokenizer.

    Attributes:
        core: The tokenizer of the `tokenizers` library.
        kind: "bpe", "words", "chars" or "spaces".
        vocab_size: Number of ids, including special tokens.
    """

    def __init__(self, core: tk.Tokenizer) -> None:
        core.encode_special_tokens = True  # not stored in tokenizer.json
        self.core = core
        self.vocab_size: int = core.get_vocab_size()
        self.kind: str = _find_kind(core)
        self._word_splitter = pre_tokenizers.Split(Regex(_SPACED_WORD), "isolated")

    def encode(self, text: str) -> Encoding:
        """Encode one text."""
        return self._build_encoding(self.core.encode(text, add_special_tokens=False), text)

    def encode_batch(self, texts: Sequence[str]) -> list[Encoding]:
        """Encode many texts, on all cores."""
        return [
            self._build_encoding(encoding, text)
            for encoding, text in zip(self.encode_batch_raw(texts), texts, strict=True)
        ]

    def encode_batch_raw(self, texts: Sequence[str]) -> list[tk.Encoding]:
        """Return the encodings of the library, which are converted to Python lists only on access."""
        return self.core.encode_batch(list(texts), add_special_tokens=False)

    def decode(self, ids: Iterable[int]) -> str:
        """Decode ids to text, without special tokens; words are joined by single spaces."""
        if self.kind == "spaces":
            return _join_words(self.token(i) for i in ids)
        return self.core.decode([int(i) for i in ids], skip_special_tokens=True)

    def token(self, id: int) -> str:
        """Return the string of a token in the vocabulary."""
        return self.core.id_to_token(int(id)) or SPECIAL_TOKENS[UNK]

    def token_strings(self) -> list[str]:
        """Return the string of each token by id; "" for special tokens."""
        return ["" if i < len(SPECIAL_TOKENS) else self.token(i) for i in range(self.vocab_size)]

    def split_words(self, text: str) -> list[str]:
        """Split a text into words, each with the space before it. Joined, they are the text."""
        return [word for word, _ in self._word_splitter.pre_tokenize_str(text)]

    def save(self, path: str | Path) -> None:
        """Write tokenizer.json atomically; `path` is a folder or the file."""
        path = _tokenizer_file(path)
        temporary = path.with_name(path.name + ".tmp")
        temporary.write_text(self.core.to_str(pretty=True), encoding="utf-8")
        temporary.replace(path)

    @classmethod
    def load(cls, path: str | Path) -> Tokenizer:
        """Read tokenizer.json; `path` is a folder or the file."""
        path = _tokenizer_file(path)
        try:
            content = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise UserError(f"no such tokenizer file: {str(path)!r}") from None
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"cannot read the tokenizer {path}: {error}") from None
        try:
            core = tk.Tokenizer.from_str(content)
        except Exception as error:  # the library raises plain Exception
            raise UserError(f"{path} is not a tokenizer.json, or is truncated: {error}") from None
        first_tokens = [core.id_to_token(i) for i in range(len(SPECIAL_TOKENS))]
        if first_tokens != list(SPECIAL_TOKENS):
            raise UserError(
                f"{path} was not trained by regard: it starts with {first_tokens}, expected {list(SPECIAL_TOKENS)}"
            )
        return cls(core)

    def _build_encoding(self, encoding: tk.Encoding, text: str) -> Encoding:
        offsets = encoding.offsets
        word_ids = self._find_word_ids(offsets, text) if self.kind == "chars" else encoding.word_ids
        return Encoding(encoding.ids, offsets, word_ids)  # type: ignore[arg-type]

    def _find_word_ids(self, offsets: list[tuple[int, int]], text: str) -> list[int]:
        word_ends = [end for _, (_, end) in self._word_splitter.pre_tokenize_str(text)]
        return np.searchsorted(word_ends, [start for start, _ in offsets], side="right").tolist()


def train_tokenizer(
    texts: Iterable[str], kind: str = "bpe", vocab_size: int = 8000, *, lowercase: bool = True
) -> Tokenizer:
    """Train a tokenizer. The same texts give the same tokenizer.

    Args:
        texts: Training texts.
        kind: "bpe" is byte-level BPE (Sennrich 2016; bytes as in GPT-2), which can encode any text. "words" are the
            most frequent words. "chars" are the most frequent characters. "spaces" are the most frequent
            space-separated words of pretokenized text such as WikiText: `<unk>` is [UNK], and a line end is an ordinary
            token, [EOS].
        vocab_size: Maximum size of the vocabulary, including special tokens.
        lowercase: Whether "words" are lowercased.
    """
    if kind not in KINDS:
        raise UserError(f"unknown tokenizer {kind!r}; {did_you_mean(kind, KINDS)}")
    min_size = len(SPECIAL_TOKENS) + (256 if kind == "bpe" else 1)
    if vocab_size < min_size:
        raise UserError(f"vocab_size={vocab_size} is too small for {kind!r}; it must be at least {min_size}")
    if kind in ("chars", "spaces"):  # counted one by one: the texts need not fit into memory
        return Tokenizer(_train_chars(texts, vocab_size) if kind == "chars" else _train_spaces(texts, vocab_size))
    texts = texts if isinstance(texts, list) else list(texts)
    if not any(texts):
        raise UserError(_NO_TEXT)
    return Tokenizer(_train_bpe(texts, vocab_size) if kind == "bpe" else _train_words(texts, vocab_size, lowercase))


def _train_bpe(texts: list[str], vocab_size: int) -> tk.Tokenizer:
    core = tk.Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_SPACED_WORD), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    core.post_processor = processors.ByteLevel(trim_offsets=True)
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        min_frequency=2,
        show_progress=False,
    )
    core.train_from_iterator(texts, trainer, length=len(texts))
    return core


def _train_words(texts: list[str], vocab_size: int, lowercase: bool) -> tk.Tokenizer:
    core = tk.Tokenizer(models.WordLevel({}, unk_token=SPECIAL_TOKENS[UNK]))
    steps = [normalizers.NFC(), normalizers.Replace("’", "'"), *([normalizers.Lowercase()] if lowercase else [])]
    core.normalizer = normalizers.Sequence(steps)
    core.pre_tokenizer = pre_tokenizers.Split(Regex(_WORD), "removed", invert=True)  # everything else is a separator
    min_frequency = 2 if sum(map(len, texts)) >= LARGE_TEXT else 1
    trainer = trainers.WordLevelTrainer(
        vocab_size=vocab_size, special_tokens=list(SPECIAL_TOKENS), min_frequency=min_frequency, show_progress=False
    )
    core.train_from_iterator(texts, trainer, length=len(texts))
    return core


def _train_chars(texts: Iterable[str], vocab_size: int) -> tk.Tokenizer:
    counts: Counter[str] = Counter()
    for text in texts:  # ten times faster than the trainer of the library
        counts.update(text)
    core = _build_word_level(counts, vocab_size)
    core.pre_tokenizer = pre_tokenizers.Split(Regex(r"(?m:.)"), "isolated")
    core.decoder = decoders.Fuse()
    return core


_LITERAL_SPECIAL = Regex(r"(?<!\S)(?:\[(?:PAD|UNK|BOS|EOS|MASK|SEP)\]|<unk>)(?!\S)")


def _train_spaces(texts: Iterable[str], vocab_size: int) -> tk.Tokenizer:
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text.split())
    core = _build_word_level(counts, vocab_size, exclude=("<unk>", *SPECIAL_TOKENS))
    # A special token that is written in the text is an unknown word.
    core.normalizer = normalizers.Sequence(
        [
            normalizers.Replace(_LITERAL_SPECIAL, SPECIAL_TOKENS[UNK]),
            normalizers.Replace("\n", f" {SPECIAL_TOKENS[EOS]} "),
        ]
    )
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return core


def _build_word_level(counts: Counter[str], vocab_size: int, exclude: Iterable[str] = ()) -> tk.Tokenizer:
    """Build a tokenizer whose vocabulary is the special tokens and the most frequent strings."""
    if not counts:
        raise UserError(_NO_TEXT)
    for word in exclude:
        del counts[word]
    frequent = sorted(counts, key=lambda token: (-counts[token], token))[: vocab_size - len(SPECIAL_TOKENS)]
    vocabulary = {token: i for i, token in enumerate([*SPECIAL_TOKENS, *frequent])}
    core = tk.Tokenizer(models.WordLevel(vocabulary, unk_token=SPECIAL_TOKENS[UNK]))
    core.add_special_tokens(list(SPECIAL_TOKENS))
    return core


def _join_words(tokens: Iterable[str]) -> str:
    """Join words with spaces; [EOS] becomes a line end."""
    text_of = {SPECIAL_TOKENS[EOS]: "\n", SPECIAL_TOKENS[UNK]: "<unk>"}
    words = (text_of.get(token, token) for token in tokens)
    text = " ".join(word for word in words if word not in SPECIAL_TOKENS)
    return text.replace(" \n", "\n").replace("\n ", "\n")


def _find_kind(core: tk.Tokenizer) -> str:
    if isinstance(core.model, models.BPE):
        return "bpe"
    if isinstance(core.pre_tokenizer, pre_tokenizers.WhitespaceSplit):
        return "spaces"
    return "chars" if isinstance(core.decoder, decoders.Fuse) else "words"


def _tokenizer_file(path: str | Path) -> Path:
    return Path(path) / "tokenizer.json" if Path(path).is_dir() else Path(path)
