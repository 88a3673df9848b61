"""Ask the book: find the sentences about a person, and let the reader point at the answer in them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import nn

from regard.data.facts import Facts, QuestionPattern
from regard.data.qa_passages import Passage, build_passage
from regard.data.tokenizer import Tokenizer
from regard.tasks.recall.extractive_qa import Pointed, read
from regard.tasks.recall.name_lookup import Names

ALIKE = 2
"""Which of the signals says how alike the names are."""


@dataclass(frozen=True)
class Passage:
    """What was found for a question: whom the name was taken for (None: nobody), how alike the names are, the sentence,
    its words with what attention gave each, the answer and the signals that tell how far to believe it; and who else
    may have been meant."""

    person: str | None
    alike: float
    text: str
    signals: list[float]
    sentence: str | None = None
    words: list[tuple[str, float]] = field(default_factory=list)
    others: list[str] = field(default_factory=list)


def ask(
    model: nn.Module,
    words: Tokenizer,
    book: Facts,
    index: Names,
    patterns: Sequence[QuestionPattern],
    names: Sequence[str],
) -> list[Passage]:
    """For each question the best answer of all the sentences about that person."""
    meant = [index.meant(name) for name in names]
    jobs: list[tuple[int, int, Passage]] = []
    for i, (pattern, people) in enumerate(zip(patterns, meant, strict=True)):
        for person, _ in people[:1]:
            jobs += [
                (i, s, build_passage(pattern, person, book.sentences[s], words)) for s in book.sentences_of[person]
            ]
    found = read(model, [made for _, _, made in jobs]) if jobs else []
    best: dict[int, tuple[int, Passage, Pointed]] = {}
    for (i, s, made), said in zip(jobs, found, strict=True):
        if i not in best or said.chance > best[i][2].chance:
            best[i] = (s, made, said)
    passages = []
    for i, people in enumerate(meant):
        if i not in best:
            passages.append(Passage(None, 0.0, "", [-20.0, 0.0, 0.0, 0.0]))
            continue
        (s, made, said), (person, alike) = best[i], people[0]
        shown = list(zip([piece.strip() for piece in made.words], said.weights, strict=True))
        signals = [_log(said.chance), _log(1 - said.none), alike, _log(said.none)]
        others = [other for other, _ in people[1:]]
        passages.append(Passage(person, alike, said.text, signals, book.sentences[s], shown, others))
    return passages


def _log(p: float) -> float:
    return math.log(max(p, 1e-9))
