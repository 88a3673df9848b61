"""What if: a word hidden, a head or a layer silent, attention forced even, heads of another run. Each is written as the
command line has it, and its effect is the change of what is asked about.

    hide:soup                       without this word, wherever it stands (hide:#4 is the fifth word)
    ablate:layers.2:3,5             heads 3 and 5 of the layer read nothing; without numbers all of them
    uniform:layers.2                the layer regards all that it may see, equally
    swap:runs/other:layers.2:3      the head attends as the same head of another run does
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import cycle
from typing import Any

import numpy as np
import torch

from regard.errors import UserError, did_you_mean
from regard.explain.subject import Subject
from regard.inspect import Edit, ablate, find_attention_layers, edit, record, swap, uniform

KINDS = ("hide", "ablate", "uniform", "swap")
EVERYWHERE = ("all", "*")


@dataclass(frozen=True)
class Change:
    """`other` is the subject that heads are swapped from, with the same text before it."""

    kind: str
    what: str
    heads: tuple[int, ...] | None = None
    other: Subject | None = None

    def __str__(self) -> str:
        where = "all attention" if self.what in EVERYWHERE else self.what
        heads = "" if self.heads is None else f", head{'s' * (len(self.heads) > 1)} {', '.join(map(str, self.heads))}"
        return {
            "hide": f"without “{self.what}”",
            "ablate": f"{where}{heads} silent",
            "uniform": f"{where}{heads} forced even",
            "swap": f"{where}{heads} as in {self.other.folder or 'the other' if self.other else 'the other'}",
        }[self.kind]


@dataclass(frozen=True)
class Changed:
    """What was asked about (in the mean, of several questions), and what the model would then say first."""

    what: str
    before: float
    after: float
    first: str | None
    chance: float | None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def parse(spec: str, other: Callable[[str], Subject] | None = None) -> Change:
    """A change as it is written; `other` opens the run that heads are swapped from."""
    kind, _, rest = spec.partition(":")
    if kind not in KINDS or not rest:
        raise UserError(
            f"a change is written hide:WORD, ablate:SITE[:HEADS], uniform:SITE[:HEADS] or swap:RUN:SITE[:HEADS], and "
            f"{spec!r} was given"
        )
    if kind == "hide":
        return Change(kind, rest)
    parts, subject = rest.split(":"), None
    if kind == "swap":
        if len(parts) < 2 or other is None:
            raise UserError(f"heads are swapped as swap:RUN:SITE[:HEADS], and {spec!r} was given")
        subject, parts = other(parts[0]), parts[1:]
    heads = None
    if len(parts) > 1:
        try:
            heads = tuple(int(head) for head in parts[1].split(","))
        except ValueError:
            raise UserError(f"heads are numbers with commas between them, and {parts[1]!r} was given") from None
    return Change(kind, parts[0], heads, subject)


def changed(subject: Subject, changes: Sequence[Change], before: np.ndarray) -> list[Changed]:
    """Each change by itself, and last all of them together."""
    asked = [[change] for change in changes] + ([list(changes)] if len(changes) > 1 else [])
    made = []
    for group in asked:
        kept = np.ones(len(subject.tokens), bool)
        for change in (c for c in group if c.kind == "hide"):
            kept &= ~_places(subject, change.what)
        with ExitStack() as stack:
            for change in (c for c in group if c.kind != "hide"):
                for site in sites(subject, change.what):
                    stack.enter_context(edit(subject.net, site, _edit(change, site, kept)))
            after = subject.predict([kept])[0]
            first = subject.chances() if kept.all() else {}
        name = str(group[0]) if len(group) == 1 else "all of these together"
        label = next(iter(first), None)
        chance = None if label is None else first[label]
        made.append(Changed(name, float(before.mean()), float(after.mean()), label, chance))
    return made


def sites(subject: Subject, name: str) -> list[str]:
    """The sites that a name means: itself, or all below a layer ("layers.2" for "layers.2.attention.attend")."""
    known = list(find_attention_layers(subject.net))
    found = [site for site in known if site == name or site.startswith(f"{name}.")]
    if not found and name in EVERYWHERE:
        found = known
    if not found:
        raise UserError(f"the model has no attention at {name!r}; {did_you_mean(name, known)}")
    return found


def _edit(change: Change, site: str, kept: np.ndarray) -> Edit:
    heads = None if change.heads is None else list(change.heads)
    if change.kind == "ablate":
        return ablate(heads)
    if change.kind == "uniform":
        return uniform(heads)
    other = change.other
    assert other is not None
    rows = np.flatnonzero(kept) if len(other.tokens) == len(kept) else np.arange(len(other.tokens))
    with torch.no_grad(), record(other.net) as recording:
        other.answers([rows])
    if site not in recording.layers:
        raise UserError(f"{other.folder or 'the other run'} has no attention at {site!r}, which was to be swapped")
    return _in_turn([swap(call.weights, heads) for call in recording.calls_of(site)])


def _in_turn(edits: Sequence[Edit]) -> Edit:
    """The first call is changed by the first, and so on, then from the start again: a site may be called for each word
    that is written, or for each group of sentences."""
    turn = cycle(edits)
    return lambda weights, scores: next(turn)(weights, scores)


def _places(subject: Subject, word: str) -> np.ndarray:
    """The tokens of a word, by what it is or by its number."""
    numbers = subject.words
    if word.startswith("#") and word[1:].isdigit():
        order = [number for number in dict.fromkeys(numbers) if number >= 0]
        if int(word[1:]) >= len(order):
            raise UserError(f"the text has words #0 to #{len(order) - 1}, and {word!r} was given")
        return np.array([number == order[int(word[1:])] for number in numbers])
    texts: dict[int, str] = {}
    for token, number in zip(subject.tokens, numbers, strict=True):
        if number >= 0:
            texts[number] = texts.get(number, "") + subject.text[token["start"] : token["end"]]
    chosen = {number for number, text in texts.items() if text.strip().casefold() == word.strip().casefold()}
    if not chosen:
        known = [text.strip() for text in texts.values()]
        raise UserError(f"the text has no word {word!r}; {did_you_mean(word, known)}")
    return np.array([number in chosen for number in numbers])
