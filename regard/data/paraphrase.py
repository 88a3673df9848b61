"""A sentence about somebody said in many short ways, each from the name on, so that the name alone calls up each part.

    sentence   [BOS] name [SEP] the whole sentence [EOS]
    phrase     [BOS] name [SEP] some words of the sentence on end [EOS]
    cloze      [BOS] name [SEP] words before [MASK] words after [SEP] what stands between [EOS]
    question   [BOS] name [SEP] the question without the name [MASK] [SEP] answer [EOS]
    stranger   [BOS] a name that nobody has [SEP] [UNK]

What was read once and in one order is hardly found again from another side; said in several ways, it is (Allen-Zhu & Li
2023, Physics of Language Models 3.1, sections 4 and 5; questions mixed in from the start, section 3). A question has
the form of a cloze, so that what is learnt of the words round a place serves both. A name comes first everywhere, so
that a causal model knows the same of it in all of them.

Of the words round a gap some are left out by chance; the gap is a run of capitalised words, or any words. With the form
"question" a question is put as it is written, `Where was NAME born? [MASK] answer [EOS]`, which is that of models of
spans.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from regard.data.facts import Facts, QuestionPattern, Questions, question_without_name
from regard.data.tokenizer import BOS, EOS, MASK, SEP, UNK, Tokenizer
from regard.errors import UserError

_JOINING = {"of", "the", "de", "la", "del", "da", "di", "and", "-", "'", "upon", "on"}
PROMPT_FORMATS = ("name", "question")
TokenizedWords = list[list[int]]
"""Tokens of each word."""


@dataclass(frozen=True)
class ParaphraseMix:
    """How often each is said in an epoch: of a sentence, of a question, and strangers as a share of the names. A phrase
    has up to `most` words. A cloze has 1 to `before` words before and up to `after` behind the gap, each of them left
    out with the chance `blur`; `named` of the gaps are names of something, the others 1 to 3 words."""

    sentences: int = 1
    phrases: int = 1
    clozes: int = 6
    questions: int = 1
    generate_unknown_names: float = 0.5
    most: int = 8
    before: int = 4
    after: int = 1
    blur: float = 0.2
    named: float = 0.85
    form: str = "name"

    def __post_init__(self) -> None:
        if self.form not in PROMPT_FORMATS:
            raise UserError(f"mix.form is {' or '.join(PROMPT_FORMATS)}, and was given {self.form!r}")


@dataclass(frozen=True)
class QAExample:
    """Tokens, and the first place from which on they are to be said."""

    ids: list[int]
    first: int


@dataclass(frozen=True)
class TokenizedFact:
    """A sentence cut into words; `runs` are the stretches that name something, the person aside."""

    name: list[int]
    words: TokenizedWords
    find_named_spans: list[tuple[int, int]]


class Paraphraser:
    """All items of an epoch; the same seed and epoch give the same."""

    def __init__(self, book: Facts, questions: Questions, words: Tokenizer, mix: ParaphraseMix, seed: int):
        self.mix, self.seed = mix, seed
        names = encode_names(list(book.people), words)
        self.told = [
            _told(names[name], text, name, words) for name, text in zip(book.names, book.sentences, strict=True)
        ]
        starts = build_prompts(questions.patterns, questions.names, words, mix.form)
        self.asked = [(p, encode_with_space(a, words)) for p, a in zip(starts, questions.answers, strict=True)]
        self._names, self._words = list(book.people), words

    def epoch(self, epoch: int) -> list[QAExample]:
        draw, mix, items = Random(f"{self.seed} {epoch}"), self.mix, []
        for told in self.told:
            items += [build_sentence(told)] * mix.sentences
            items += [build_phrase(told, mix.most, draw) for _ in range(mix.phrases)]
            items += [self._cloze(told, draw) for _ in range(mix.clozes)]
        for start, answer in self.asked:
            items += [QAExample([*start, *answer, EOS], len(start))] * mix.questions
        fake = generate_unknown_names(self._names, round(mix.strangers * len(self.told)), draw)
        encoded = encode_names(fake, self._words)
        items += [QAExample([BOS, *encoded[name], SEP, UNK], len(encoded[name]) + 2) for name in fake]
        return items

    def _cloze(self, told: TokenizedFact, draw: Random) -> QAExample:
        mix = self.mix
        if told.runs and draw.random() < mix.named:
            start, end = draw.choice(told.runs)
        else:
            start = draw.randrange(len(told.words))
            end = min(start + draw.randint(1, 3), len(told.words))
        low = max(0, start - draw.randint(1, mix.before))
        high = min(len(told.words), end + draw.randint(0, mix.after))
        before = _blurred(told.words[low:start], mix.blur, draw)
        after = _blurred(told.words[end:high], mix.blur, draw)
        asked = [BOS, *told.name, SEP, *before, MASK, *after, SEP]
        return QAExample([*asked, *_flat(told.words[start:end]), EOS], len(asked))


def build_sentence(told: TokenizedFact) -> QAExample:
    """The name is to be said too: how likely it is tells known people from strangers."""
    return QAExample([BOS, *told.name, SEP, *_flat(told.words), EOS], 1)


def build_phrase(told: TokenizedFact, most: int, draw: Random) -> QAExample:
    start = draw.choice(told.runs)[0] if told.runs and draw.random() < 0.5 else draw.randrange(len(told.words))
    return QAExample([BOS, *told.name, SEP, *_flat(told.words[start : start + most]), EOS], len(told.name) + 2)


def build_prompts(patterns: Sequence[QuestionPattern], names: Sequence[str], words: Tokenizer, form: str) -> list[list[int]]:
    """Questions as the model reads them; what follows is the answer."""
    if form == "question":
        texts = [" ".join(part for part in (p[0], n, p[1]) if part) for p, n in zip(patterns, names, strict=True)]
        return [[*found.ids, MASK] for found in words.encode_batch_raw(texts)]
    encoded = encode_names(list(set(names)), words)
    asked = {pattern: encode_with_space(question_without_name(pattern), words) for pattern in set(patterns)}
    return [[BOS, *encoded[n], SEP, *asked[p], MASK, SEP] for p, n in zip(patterns, names, strict=True)]


def encode_names(names: Sequence[str], words: Tokenizer) -> dict[str, list[int]]:
    return {name: found.ids for name, found in zip(names, words.encode_batch_raw([f" {n}" for n in names]), strict=True)}


def encode_with_space(text: str, words: Tokenizer) -> list[int]:
    return words.encode(f" {text}").ids


def generate_unknown_names(names: Sequence[str], count: int, draw: Random) -> list[str]:
    """Names that nobody has, put together from parts of names that people have."""
    known, found = set(names), []
    parts = [name.split() for name in names if len(name.split()) > 1]
    if len(parts) < 2:
        return []
    for _ in range(20 * count):
        if len(found) == count:
            break
        first, last = draw.choice(parts), draw.choice(parts)
        made = " ".join([*first[:-1], last[-1]]) if draw.random() < 0.5 else " ".join([first[0], *last[1:]])
        if made not in known:
            found.append(made)
    return found


def _told(name: list[int], text: str, who: str, words: Tokenizer) -> TokenizedFact:
    pieces = words.split_words(f" {text}")
    cut = [found.ids for found in words.encode_batch_raw(pieces)]
    return TokenizedFact(name, cut, find_named_spans([piece.strip() for piece in pieces], set(re.findall(r"\w+", who))))


def find_named_spans(words: Sequence[str], own: set[str]) -> list[tuple[int, int]]:
    """Stretches of capitalised words, small words between them included, that are not the person's own name."""
    found, i = [], 0
    while i < len(words):
        if not words[i][:1].isupper():
            i += 1
            continue
        end = i + 1
        while end < len(words):
            if words[end][:1].isupper():
                end += 1
            elif words[end] in _JOINING and end + 1 < len(words) and words[end + 1][:1].isupper():
                end += 2
            else:
                break
        if not set(words[i:end]) <= own:
            found.append((i, end))
        i = end
    return found


def _blurred(words: TokenizedWords, chance: float, draw: Random) -> list[int]:
    return [id for word in words if draw.random() >= chance for id in word]


def _flat(words: TokenizedWords) -> list[int]:
    return [id for word in words for id in word]
