"""What a run of recall says to a question, and what that rests on."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from regard.data.facts import Questions


@dataclass(frozen=True)
class Answer:
    """`answer` is None where it is not known; `guess` is what would have been said. `confidence` is the chance that the
    guess is right. `read`: whether the guess stands in what was read; `known`: whether the name does. `near` are the
    nearest known names, with how alike they are and what is said of them (closed book); `sentence` and `words` what the
    answer was read from, and how attention fell on each word (open book)."""

    question: str
    name: str
    answer: str | None
    guess: str
    confidence: float
    known: bool
    read: bool
    person: str | None = None
    near: list[dict[str, Any]] = field(default_factory=list)
    sentence: str | None = None
    words: list[tuple[str, float]] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        return "not known" if self.answer is None else self.answer

    def explained(self) -> list[str]:
        """What it rests on, a line each."""
        lines = []
        if self.sentence is not None:
            seen = sorted(self.words, key=lambda pair: -pair[1])[:5]
            lines.append(f"confidence {self.confidence:.2f}" + (f", for {self.guess!r}" if self.answer is None else ""))
            if self.person != self.name:
                lines.append(f"taken for: {self.person}")
            lines.append(f"read in: {self.sentence}")
            lines.append("attended to: " + ", ".join(f"{word} {weight:.2f}" for word, weight in seen if weight >= 0.01))
            return lines
        if not self.guess:
            return ["it says nothing at all" if self.known else "nobody of that name stands in what was read"]
        what = "stands in what was read" if self.read else "stands nowhere in what was read: it is made up"
        who = "" if self.known else "; the name stands nowhere in it"
        lines.append(f"confidence {self.confidence:.2f} for {self.guess!r}, which {what}{who}")
        for one in self.near:
            lines.append(f"near: {one['name']} ({one['alike']:.2f}), of whom it says {one['said']!r}")
        return lines


@dataclass(frozen=True)
class Tried:
    """Questions, what was said to each, and what was said of people whom nobody has named."""

    asked: Questions
    made: list[Answer]
    others: list[Answer]

    @property
    def hits(self) -> list[bool]:
        return [a.guess == wanted for a, wanted in zip(self.made, self.asked.answers, strict=True)]
