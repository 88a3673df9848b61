"""Paraphrases of facts about people. All start with the name, so that the name alone retrieves every part of a fact.

    sentence   [BOS] name [SEP] the whole sentence [EOS]
    phrase     [BOS] name [SEP] consecutive words of the sentence [EOS]
    cloze      [BOS] name [SEP] words before [MASK] words after [SEP] the masked words [EOS]
    question   [BOS] name [SEP] the question without the name [MASK] [SEP] answer [EOS]
    unknown    [BOS] a name that nobody has [SEP] [UNK]

A fact that was read only once and in one order is hard to retrieve in another way; stated in several ways, it can be
retrieved (Allen-Zhu & Li 2023, Physics of Language Models 3.1, sections 4 and 5; questions mixed in from the start,
section 3). A question has the form of a cloze, so that both share what the model learns about the context of a gap. The
name comes first everywhere, so that a causal model has the same representation of it in all examples.

Some of the words around a gap are dropped at random. The gap is a run of capitalized words, or any words. With
`prompt_format="question"` a question keeps its original form, `Where was NAME born? [MASK] answer [EOS]`, which is the
form of span-filling models.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from regard.data.facts import Facts, QuestionPattern, Questions, question_without_name
from regard.data.tokenizer import BOS, EOS, MASK, SEP, UNK, Tokenizer
from regard.errors import UserError

_LINKING_WORDS = {"of", "the", "de", "la", "del", "da", "di", "and", "-", "'", "upon", "on"}
PROMPT_FORMATS = ("name", "question")
TokenizedWords = list[list[int]]
"""Token ids of each word."""


@dataclass(frozen=True)
class ParaphraseMix:
    """How many examples of each kind an epoch has.

    Attributes:
        sentences: Times that each sentence occurs as a whole.
        phrases: Phrases per sentence.
        clozes: Clozes per sentence.
        questions: Times that each question occurs.
        unknown_names: Number of unknown names, as a fraction of the number of sentences.
        max_phrase_words: Words of a phrase.
        max_words_before: A cloze has 1 to this many words before the gap.
        max_words_after: A cloze has 0 to this many words after the gap.
        word_dropout: Probability of dropping a word around the gap.
        named_fraction: Fraction of gaps that are capitalized words; the others are 1 to 3 words.
        prompt_format: "name" or "question", see the module docstring.
    """

    sentences: int = 1
    phrases: int = 1
    clozes: int = 6
    questions: int = 1
    unknown_names: float = 0.5
    max_phrase_words: int = 8
    max_words_before: int = 4
    max_words_after: int = 1
    word_dropout: float = 0.2
    named_fraction: float = 0.85
    prompt_format: str = "name"

    def __post_init__(self) -> None:
        if self.prompt_format not in PROMPT_FORMATS:
            raise UserError(f"mix.prompt_format must be {' or '.join(PROMPT_FORMATS)}, got {self.prompt_format!r}")


@dataclass(frozen=True)
class QAExample:
    """Token ids of a training example; the loss covers the tokens from index `first` on."""

    ids: list[int]
    first: int


@dataclass(frozen=True)
class TokenizedFact:
    """A tokenized sentence about a person.

    Attributes:
        name: Token ids of the name.
        words: Token ids of each word of the sentence.
        named_spans: Word spans (start, end) of capitalized words other than the name itself.
    """

    name: list[int]
    words: TokenizedWords
    named_spans: list[tuple[int, int]]


class Paraphraser:
    """Generates the examples of each epoch. The same seed and epoch give the same examples."""

    def __init__(self, facts: Facts, questions: Questions, tokenizer: Tokenizer, mix: ParaphraseMix, seed: int):
        self.mix, self.seed = mix, seed
        name_ids = encode_names(list(facts.sentences_of), tokenizer)
        self.facts = [
            _tokenize_fact(name_ids[name], sentence, name, tokenizer)
            for name, sentence in zip(facts.names, facts.sentences, strict=True)
        ]
        prompts = build_prompts(questions.patterns, questions.names, tokenizer, mix.prompt_format)
        answers = [encode_with_space(answer, tokenizer) for answer in questions.answers]
        self.questions = list(zip(prompts, answers, strict=True))
        self._names, self._tokenizer = list(facts.sentences_of), tokenizer

    def generate_epoch(self, epoch: int) -> list[QAExample]:
        rng, mix, examples = Random(f"{self.seed} {epoch}"), self.mix, []
        for fact in self.facts:
            examples += [build_sentence(fact)] * mix.sentences
            examples += [build_phrase(fact, mix.max_phrase_words, rng) for _ in range(mix.phrases)]
            examples += [self._build_cloze(fact, rng) for _ in range(mix.clozes)]
        for prompt, answer in self.questions:
            examples += [QAExample([*prompt, *answer, EOS], len(prompt))] * mix.questions
        names = generate_unknown_names(self._names, round(mix.unknown_names * len(self.facts)), rng)
        name_ids = encode_names(names, self._tokenizer)
        examples += [QAExample([BOS, *name_ids[name], SEP, UNK], len(name_ids[name]) + 2) for name in names]
        return examples

    def _build_cloze(self, fact: TokenizedFact, rng: Random) -> QAExample:
        mix = self.mix
        if fact.named_spans and rng.random() < mix.named_fraction:
            start, end = rng.choice(fact.named_spans)
        else:
            start = rng.randrange(len(fact.words))
            end = min(start + rng.randint(1, 3), len(fact.words))
        low = max(0, start - rng.randint(1, mix.max_words_before))
        high = min(len(fact.words), end + rng.randint(0, mix.max_words_after))
        before = _drop_words(fact.words[low:start], mix.word_dropout, rng)
        after = _drop_words(fact.words[end:high], mix.word_dropout, rng)
        prompt = [BOS, *fact.name, SEP, *before, MASK, *after, SEP]
        return QAExample([*prompt, *_flatten(fact.words[start:end]), EOS], len(prompt))


def build_sentence(fact: TokenizedFact) -> QAExample:
    """Build a sentence example. The loss includes the name: its likelihood distinguishes known from unknown people."""
    return QAExample([BOS, *fact.name, SEP, *_flatten(fact.words), EOS], 1)


def build_phrase(fact: TokenizedFact, max_words: int, rng: Random) -> QAExample:
    """Build a phrase example of up to `max_words` words. Half of the phrases start at a capitalized word."""
    if fact.named_spans and rng.random() < 0.5:
        start = rng.choice(fact.named_spans)[0]
    else:
        start = rng.randrange(len(fact.words))
    words = fact.words[start : start + max_words]
    return QAExample([BOS, *fact.name, SEP, *_flatten(words), EOS], len(fact.name) + 2)


def build_prompts(
    patterns: Sequence[QuestionPattern], names: Sequence[str], tokenizer: Tokenizer, prompt_format: str
) -> list[list[int]]:
    """Return the token ids of questions, up to where the answer starts."""
    if prompt_format == "question":
        texts = [" ".join(part for part in (p[0], n, p[1]) if part) for p, n in zip(patterns, names, strict=True)]
        return [[*encoding.ids, MASK] for encoding in tokenizer.encode_batch_raw(texts)]
    name_ids = encode_names(list(set(names)), tokenizer)
    pattern_ids = {p: encode_with_space(question_without_name(p), tokenizer) for p in set(patterns)}
    return [[BOS, *name_ids[n], SEP, *pattern_ids[p], MASK, SEP] for p, n in zip(patterns, names, strict=True)]


def encode_names(names: Sequence[str], tokenizer: Tokenizer) -> dict[str, list[int]]:
    """Return the token ids of each name, with a space before it."""
    encodings = tokenizer.encode_batch_raw([f" {name}" for name in names])
    return {name: encoding.ids for name, encoding in zip(names, encodings, strict=True)}


def encode_with_space(text: str, tokenizer: Tokenizer) -> list[int]:
    """Return the token ids of a text with a space before it."""
    return tokenizer.encode(f" {text}").ids


def generate_unknown_names(names: Sequence[str], count: int, rng: Random) -> list[str]:
    """Generate names that are not in `names`, by combining parts of two names."""
    known, generated = set(names), []
    parts = [name.split() for name in names if len(name.split()) > 1]
    if len(parts) < 2:
        return []
    for _ in range(20 * count):
        if len(generated) == count:
            break
        first, last = rng.choice(parts), rng.choice(parts)
        name = " ".join([*first[:-1], last[-1]]) if rng.random() < 0.5 else " ".join([first[0], *last[1:]])
        if name not in known:
            generated.append(name)
    return generated


def _tokenize_fact(name_ids: list[int], sentence: str, name: str, tokenizer: Tokenizer) -> TokenizedFact:
    words = tokenizer.split_words(f" {sentence}")
    ids = [encoding.ids for encoding in tokenizer.encode_batch_raw(words)]
    spans = find_named_spans([word.strip() for word in words], set(re.findall(r"\w+", name)))
    return TokenizedFact(name_ids, ids, spans)


def find_named_spans(words: Sequence[str], name_words: set[str]) -> list[tuple[int, int]]:
    """Return runs (start, end) of capitalized words, with linking words between them, except the person's own name."""
    spans, i = [], 0
    while i < len(words):
        if not words[i][:1].isupper():
            i += 1
            continue
        end = i + 1
        while end < len(words):
            if words[end][:1].isupper():
                end += 1
            elif words[end] in _LINKING_WORDS and end + 1 < len(words) and words[end + 1][:1].isupper():
                end += 2
            else:
                break
        if not set(words[i:end]) <= name_words:
            spans.append((i, end))
        i = end
    return spans


def _drop_words(words: TokenizedWords, probability: float, rng: Random) -> list[int]:
    return [id for word in words if rng.random() >= probability for id in word]


def _flatten(words: TokenizedWords) -> list[int]:
    return [id for word in words for id in word]
