"""What a run of recall says to a question, and what that rests on."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from regard.data.facts import Questions


@dataclass(frozen=True)
class Answer:
    """`answer` is None where it is not known; `guess` is what would have been said. `confidence` is the chance that the
    guess is right, `level` the least at which it is given as an answer. `read`: whether the guess stands in what was
    read; `known`: whether the name does. `person` is whom the name was taken for, `others` who else may be meant.
    `near` are the nearest known names, with how alike they are and what is said of them (closed book); `sentence` and
    `words` what the answer was read from, and how attention fell on each word (open book)."""

    question: str
    name: str
    answer: str | None
    guess: str
    confidence: float
    level: float
    known: bool
    read: bool
    person: str | None = None
    others: list[str] = field(default_factory=list)
    near: list[dict[str, Any]] = field(default_factory=list)
    sentence: str | None = None
    words: list[tuple[str, float]] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        return "not known" if self.answer is None else self.answer

    def explained(self) -> list[str]:
        """What it rests on, a line each."""
        if not self.guess:
            return ["it says nothing at all" if self.person else "nobody of that name stands in what was read"]
        lines = [f"confidence {self.confidence:.2f}{self._silent()}"]
        if self.person is not None and self.person != self.name:
            lines.append(f"taken for: {self.person}")
        if self.others:
            lines.append(f"may also be meant: {', '.join(self.others)}")
        if self.sentence is not None:
            seen = sorted(self.words, key=lambda pair: -pair[1])[:5]
            lines.append(f"read in: {self.sentence}")
            lines.append("attended to: " + ", ".join(f"{word} {weight:.2f}" for word, weight in seen if weight >= 0.01))
            return lines
        if not self.known:
            lines.append("a guess: nobody of that name stands in what was read")
        where = "stands in what was read" if self.read else "stands nowhere in what was read: it is made up"
        lines.append(f"{self.guess!r} {where}")
        for one in self.near:
            lines.append(f"near: {one['name']} ({one['alike']:.2f}), of whom it says {one['said']!r}")
        return lines

    def _silent(self) -> str:
        """Why the guess is not given as an answer."""
        if self.answer is not None:
            return ""
        if self.level >= 1:
            return f" for {self.guess!r}; at no level were so few answers wrong among the people set aside"
        return f" for {self.guess!r}, and {self.level:.2f} is the least at which it answers (--abstain sets another)"


@dataclass(frozen=True)
class Tried:
    """Questions, what was said to each, and what was said of people whom nobody has named."""

    asked: Questions
    made: list[Answer]
    others: list[Answer]

    @property
    def hits(self) -> list[bool]:
        return [a.guess == wanted for a, wanted in zip(self.made, self.asked.answers, strict=True)]
