"""Open book: find the sentences about a person, and extract the answer from them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import nn

from regard.data.facts import Facts, QuestionPattern
from regard.data.qa_passages import Passage, build_passage
from regard.data.tokenizer import Tokenizer
from regard.tasks.recall.extractive_qa import AnswerSpan, predict_spans
from regard.tasks.recall.name_lookup import NameIndex

NAME_SIMILARITY = 2
"""Index of the signal with the similarity of the names."""


@dataclass(frozen=True)
class ExtractedAnswer:
    """The answer to one question.

    Attributes:
        person: The known name that the question is taken to mean, or None if there is none.
        text: The answer.
        signals: Signals for its confidence.
        sentence: The sentence that contains the answer.
        word_weights: Attention weight of each word of the sentence.
        alternatives: Other known names that may be meant.
    """

    person: str | None
    text: str
    signals: list[float]
    sentence: str | None = None
    word_weights: list[tuple[str, float]] = field(default_factory=list)
    alternatives: list[str] = field(default_factory=list)


def answer_questions(
    model: nn.Module,
    tokenizer: Tokenizer,
    facts: Facts,
    name_index: NameIndex,
    patterns: Sequence[QuestionPattern],
    names: Sequence[str],
) -> list[ExtractedAnswer]:
    """Return the most likely answer to each question from all sentences about the person."""
    candidates = [name_index.find_candidates(name) for name in names]
    passages: list[tuple[int, int, Passage]] = []  # question, sentence, passage
    for i, (pattern, people) in enumerate(zip(patterns, candidates, strict=True)):
        for person, _ in people[:1]:
            passages += [
                (i, s, build_passage(pattern, person, facts.sentences[s], tokenizer))
                for s in facts.sentences_of[person]
            ]
    spans = predict_spans(model, [passage for _, _, passage in passages]) if passages else []
    best: dict[int, tuple[int, Passage, AnswerSpan]] = {}
    for (i, s, passage), span in zip(passages, spans, strict=True):
        if i not in best or span.probability > best[i][2].probability:
            best[i] = (s, passage, span)
    answers = []
    for i, people in enumerate(candidates):
        if i not in best:
            answers.append(ExtractedAnswer(None, "", [-20.0, 0.0, 0.0, 0.0]))
            continue
        (s, passage, span), (person, similarity) = best[i], people[0]
        word_weights = list(zip([word.strip() for word in passage.words], span.weights, strict=True))
        signals = [_log(span.probability), _log(1 - span.no_answer), similarity, _log(span.no_answer)]
        alternatives = [name for name, _ in people[1:]]
        answers.append(ExtractedAnswer(person, span.text, signals, facts.sentences[s], word_weights, alternatives))
    return answers


def _log(p: float) -> float:
    return math.log(max(p, 1e-9))
