"""Extractive question answering: a question with a sentence, word by word, and the span of the answer in it.

    [BOS] Where was born? [SEP] Corrsin was born on 3 April 1920 in Philadelphia , Pennsylvania .

The vocabulary is small (frequent words), and the model also sees the shape of each word. If the sentence does not
contain the answer, the target is [BOS].
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.data.facts import QuestionPattern, question_without_name
from regard.data.tokenizer import BOS, SEP, UNK, Tokenizer

SHAPES = ("special", "lowercase", "capitalized", "all capitals", "number", "year", "punctuation", "mixed")
MAX_ANSWER_WORDS = 8


@dataclass(frozen=True)
class Passage:
    """A question and a sentence as model input.

    Attributes:
        ids: Token ids, (n,).
        shapes: Index of the shape of each word in `SHAPES`, (n,); 0 for the question.
        in_name: 1 where a word is part of the name in question, (n,).
        start: Position of the first word of the sentence.
        words: Words of the sentence.
        spans: Positions (first, last) of the answer; [(0, 0)] if the sentence does not contain it.
    """

    ids: np.ndarray
    shapes: np.ndarray
    in_name: np.ndarray
    start: int
    words: list[str]
    spans: list[tuple[int, int]]

    def __len__(self) -> int:
        return len(self.ids)

    def text(self, first: int, last: int) -> str:
        """Return the text from position `first` to position `last`."""
        return "".join(self.words[first - self.start : last - self.start + 1]).strip()


def build_passage(
    pattern: QuestionPattern, name: str, sentence: str, tokenizer: Tokenizer, answer: str | None = None
) -> Passage:
    """Build the model input for a question about a name and one sentence."""
    question, words = tokenizer.split_words(question_without_name(pattern)), tokenizer.split_words(sentence)
    encodings = tokenizer.encode_batch_raw([word.strip() for word in [*question, *words]])
    ids = [encoding.ids[0] if encoding.ids else UNK for encoding in encodings]
    ids = [BOS, *ids[: len(question)], SEP, *ids[len(question) :]]
    start = len(question) + 2
    shapes = [0] * start + [word_shape(word.strip()) for word in words]
    name_words = {word.lower() for word in re.findall(r"\w+", name)}
    in_name = [0] * start + [int(word.strip().lower() in name_words) for word in words]
    answer_spans = [] if answer is None else find_answer_spans(words, tokenizer.split_words(answer))
    return Passage(
        np.array(ids, np.int64),
        np.array(shapes, np.int64),
        np.array(in_name, np.int64),
        start,
        words,
        [(first + start, last + start) for first, last in answer_spans] or [(0, 0)],
    )


def find_answer_spans(words: Sequence[str], answer: Sequence[str]) -> list[tuple[int, int]]:
    """Return the first and last word of each occurrence of the answer."""
    words, answer = [word.strip() for word in words], [word.strip() for word in answer]
    n = len(answer)
    return [(i, i + n - 1) for i in range(len(words) - n + 1) if words[i : i + n] == answer]


def word_shape(word: str) -> int:
    """Return the index of the shape of a word in `SHAPES`."""
    if not word:
        return 6
    if word.isdigit():
        return 5 if len(word) == 4 else 4
    if not any(character.isalnum() for character in word):
        return 6
    if word.isalpha() or "'" in word or "’" in word:
        if word.islower():
            return 1
        return 3 if len(word) > 1 and word.isupper() else 2
    return 7
