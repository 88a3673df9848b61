"""Answers of a recall run, with the evidence for each."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from regard.data.facts import Questions


@dataclass(frozen=True)
class Answer:
    """The answer to one question.

    Attributes:
        question: The question.
        name: The name in the question.
        answer: The answer, or None if the model abstains.
        guess: The most likely answer, also where the model abstains.
        confidence: Calibrated probability that the guess is correct.
        threshold: The model answers if the confidence is at least this.
        name_known: Whether the facts contain the name.
        in_facts: Whether the facts contain the guess.
        person: The known name that the question is taken to mean, or None.
        alternatives: Other known names that may be meant.
        nearest: Closed book: the nearest known names, with their similarity and the model's answer for each.
        sentence: Open book: the sentence that contains the answer.
        word_weights: Open book: attention weight of each word of the sentence.
    """

    question: str
    name: str
    answer: str | None
    guess: str
    confidence: float
    threshold: float
    name_known: bool
    in_facts: bool
    person: str | None = None
    alternatives: list[str] = field(default_factory=list)
    nearest: list[dict[str, Any]] = field(default_factory=list)
    sentence: str | None = None
    word_weights: list[tuple[str, float]] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        return "not known" if self.answer is None else self.answer

    def explain(self) -> list[str]:
        """Return the evidence for the answer, one line each."""
        if not self.guess:
            return ["the model generated an empty answer" if self.person else "no person of that name is in the facts"]
        lines = [f"confidence {self.confidence:.2f}{self._explain_abstention()}"]
        if self.person is not None and self.person != self.name:
            lines.append(f"taken to mean: {self.person}")
        if self.alternatives:
            lines.append(f"other possible people: {', '.join(self.alternatives)}")
        if self.sentence is not None:
            top = sorted(self.word_weights, key=lambda pair: -pair[1])[:5]
            lines.append(f"found in: {self.sentence}")
            lines.append("attended to: " + ", ".join(f"{word} {weight:.2f}" for word, weight in top if weight >= 0.01))
            return lines
        if not self.name_known:
            lines.append("a guess: no person of that name is in the facts")
        occurrence = "occurs in the facts" if self.in_facts else "does not occur in the facts: it is made up"
        lines.append(f"{self.guess!r} {occurrence}")
        for row in self.nearest:
            lines.append(f"nearest: {row['name']} ({row['similarity']:.2f}), for whom it answers {row['answer']!r}")
        return lines

    def _explain_abstention(self) -> str:
        if self.answer is not None:
            return ""
        if self.threshold >= 1:
            return f" for {self.guess!r}; no threshold has so few wrong answers for the held-out people"
        return f" for {self.guess!r}, below the threshold of {self.threshold:.2f} (--abstain changes it)"


@dataclass(frozen=True)
class AnsweredQuestions:
    """Questions with the answers of a run, and its answers about unknown names."""

    questions: Questions
    answers: list[Answer]
    unknown_answers: list[Answer]

    @property
    def hits(self) -> list[bool]:
        """Whether each guess is correct."""
        return [a.guess == truth for a, truth in zip(self.answers, self.questions.answers, strict=True)]
