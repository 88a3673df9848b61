"""Questions beside the sentence that answers them, word by word, with the place of the answer in it.

    [BOS] Where was born? [SEP] Corrsin was born on 3 April 1920 in Philadelphia , Pennsylvania .

Words are few (the frequent ones) and known by how they are written besides. Where the answer does not stand in the
sentence, [BOS] is what is to be pointed at.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.data.facts import QuestionPattern, question_without_name
from regard.data.tokenizer import BOS, SEP, UNK, Tokenizer

SHAPES = ("special", "small", "capital", "all capitals", "number", "year", "sign", "mixed")
MAX_ANSWER_WORDS = 8  # words of an answer


@dataclass(frozen=True)
class Passage:
    """ids, shapes and own (n,); the sentence's words are `pieces`, the first of them at `start`. `spans` are the places
    of the answer, first and last word; [(0, 0)] where it does not stand there."""

    ids: np.ndarray
    shapes: np.ndarray
    own: np.ndarray
    start: int
    pieces: list[str]
    spans: list[tuple[int, int]]

    def __len__(self) -> int:
        return len(self.ids)

    def text(self, first: int, last: int) -> str:
        """What stands from one place to another, as it is written."""
        return "".join(self.pieces[first - self.start : last - self.start + 1]).strip()


def build_passage(pattern: QuestionPattern, name: str, sentence: str, words: Tokenizer, answer: str | None = None) -> Passage:
    asked, pieces = words.split_words(question_without_name(pattern)), words.split_words(sentence)
    ids = [found.ids for found in words.encode_batch_raw([piece.strip() for piece in [*asked, *pieces]])]
    ids = [one[0] if one else UNK for one in ids]
    flat = [BOS, *ids[: len(asked)], SEP, *ids[len(asked) :]]
    start = len(asked) + 2
    shapes = [0] * start + [word_shape(piece.strip()) for piece in pieces]
    mine = {word.lower() for word in re.findall(r"\w+", name)}
    own = [0] * start + [int(piece.strip().lower() in mine) for piece in pieces]
    spans = [] if answer is None else [(s + start, e + start) for s, e in find_answer_spans(pieces, words.split_words(answer))]
    return Passage(
        np.array(flat, np.int64), np.array(shapes, np.int64), np.array(own, np.int64), start, pieces, spans or [(0, 0)]
    )


def find_answer_spans(pieces: Sequence[str], answer: Sequence[str]) -> list[tuple[int, int]]:
    """Where the words of the answer stand, first and last."""
    inside, wanted = [p.strip() for p in pieces], [p.strip() for p in answer]
    n = len(wanted)
    return [(i, i + n - 1) for i in range(len(inside) - n + 1) if inside[i : i + n] == wanted]


def word_shape(word: str) -> int:
    if not word:
        return 6
    if word.isdigit():
        return 5 if len(word) == 4 else 4
    if not any(letter.isalnum() for letter in word):
        return 6
    if word.isalpha() or "'" in word or "’" in word:
        if word.islower():
            return 1
        return 3 if len(word) > 1 and word.isupper() else 2
    return 7
