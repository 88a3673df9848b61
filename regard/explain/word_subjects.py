"""Look into a language model: at the next word, at a missing one, or at the vector of a text.

    causal     log p(next word | text); the picture is the row of the last token
    masked     log p(word | text with [MASK]); the row of the [MASK]
    vector     how alike the mean state of part of a text is to that of the whole (cosine); the mean of all rows

The picture of a model of several layers is attention through all of them (rollout). Words are taken out of the text,
and those behind move up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import UserError, did_you_mean
from regard.explain.subject import Picture, Subject, must_attend, padded
from regard.inspect import AttentionMap, rollout, stacked

TOP = 30  # words that are named with their chances


@dataclass(frozen=True)
class Reading:
    """A text as a model reads it: ids, and tokens as the page has them. `word` gives the text of an id, `find` the id
    of a word that a user names (None: it is no single token); `empty` is read where nothing is left."""

    text: str
    ids: list[int]
    tokens: list[dict[str, Any]]
    word: Callable[[int], str]
    find: Callable[[str], int | None]
    empty: int = 1
    never: tuple[int, ...] = ()


class _Read(Subject):
    how = "attention"

    def __init__(self, net: nn.Module, reading: Reading, *, name: str, folder: str = ""):
        must_attend(net, name)
        if not reading.ids:
            raise UserError("there is nothing to look at: the text is empty")
        self.net, self.reading, self.text, self.tokens = net, reading, reading.text, reading.tokens
        self.model_name, self.folder = name, folder

    @property
    def ids(self) -> Tensor:
        return torch.tensor(self.reading.ids)

    def answers(self, rows: Sequence[np.ndarray]) -> Tensor:
        return self._asked(*padded([self.ids[torch.from_numpy(row)] for row in rows], self.reading.empty), rows)

    def score(self, ids: Tensor) -> Tensor:
        rows = [np.arange(len(self.tokens))] * len(ids)
        return self._asked(ids, torch.ones(ids.shape, dtype=torch.bool), rows)

    def _asked(self, ids: Tensor, mask: Tensor, rows: Sequence[np.ndarray]) -> Tensor:
        raise NotImplementedError

    def chances(self) -> dict[str, float]:
        return {}

    def sizes(self) -> dict[str, int]:
        return {"tokens": len(self.tokens)}

    def picture(self, seen: list[AttentionMap]) -> Picture | None:
        layers = stacked(seen)
        if not layers:
            return None
        whole = rollout([m.weights.float() for m in layers])[-1]
        through = "attention through all layers (rollout)" if len(layers) > 1 else "attention, half of it kept in place"
        return Picture(self._row(whole).double().numpy()[None], f"{self.how}: {through}")

    def _row(self, whole: Tensor) -> Tensor:
        raise NotImplementedError


class Word(_Read):
    """A word is asked about, by its log-probability."""

    said = "log p"

    def __init__(self, net: nn.Module, reading: Reading, *, name: str, folder: str = "", label: str | None = None):
        super().__init__(net, reading, name=name, folder=folder)
        with torch.no_grad():
            said = self._logits(self.ids[None], torch.ones(1, len(self.tokens), dtype=torch.bool), self._places(1))[0]
        self.target = int(_without(said, reading.never).argmax())
        if label is not None:
            found = reading.find(label)
            if found is None:
                best = _without(said, reading.never).topk(min(200, len(said))).indices.tolist()
                hint = did_you_mean(label, [reading.word(i).strip() for i in best][:30])
                raise UserError(f"{label!r} is no single token of this model, so it cannot be asked about; {hint}")
            self.target = found
        self.labels = [_shown(reading.word(self.target))]

    def _places(self, b: int) -> list[int]:
        return [len(self.tokens) - 1] * b

    def _logits(self, ids: Tensor, mask: Tensor, places: list[int]) -> Tensor:
        """Of the word asked about, at one place in each row: (b, vocab)."""
        wide = ids.shape[1]
        said = self.net(ids, mask=mask, places=torch.tensor([i * wide + place for i, place in enumerate(places)]))
        return (said[0] if isinstance(said, tuple) else said).float()

    def chances(self) -> dict[str, float]:
        with torch.no_grad():
            mask = torch.ones(1, len(self.tokens), dtype=torch.bool)
            said = self._logits(self.ids[None], mask, self._places(1))[0]
        p = said.log_softmax(-1).exp()
        named: dict[str, float] = {}
        for i in _without(said, self.reading.never).topk(min(TOP, len(said))).indices.tolist():
            name = _shown(self.reading.word(i))
            named[name + "′" * sum(known.rstrip("′") == name for known in named)] = float(p[i])
        if self.labels and self.labels[0] not in named:
            named[self.labels[0]] = float(p[self.target])
        return named


class Next(Word):
    """The word after the text, by a causal model."""

    how = speaks = "what the last word regards"

    def _asked(self, ids: Tensor, mask: Tensor, rows: Sequence[np.ndarray]) -> Tensor:
        places = [max(1, len(row)) - 1 for row in rows]
        return self._logits(ids, mask, places).log_softmax(-1)[:, self.target, None]

    def _row(self, whole: Tensor) -> Tensor:
        return whole[-1]

    def asking(self, rows: str, count: int) -> list[list[int]]:
        return [[count - 1]]


class Missing(Word):
    """The word at a [MASK], by a model that looks both ways."""

    how = speaks = "what the missing word regards"

    def __init__(self, net: nn.Module, reading: Reading, place: int, **more: Any):
        self.place = place
        super().__init__(net, reading, **more)
        self.tokens[place]["fixed"] = True

    def _places(self, b: int) -> list[int]:
        return [self.place] * b

    def _asked(self, ids: Tensor, mask: Tensor, rows: Sequence[np.ndarray]) -> Tensor:
        places = [int(np.flatnonzero(row == self.place)[0]) for row in rows]
        return self._logits(ids, mask, places).log_softmax(-1)[:, self.target, None]

    def _row(self, whole: Tensor) -> Tensor:
        return whole[self.place]

    def asking(self, rows: str, count: int) -> list[list[int]]:
        return [[self.place]] if rows == "tokens" else super().asking(rows, count)


class Vector(_Read):
    """The text as one vector: the mean of the states of its tokens."""

    said, how = "likeness", "what all places regard in the mean"

    def __init__(self, net: nn.Module, reading: Reading, *, name: str, folder: str = ""):
        super().__init__(net, reading, name=name, folder=folder)
        self.labels = ["to the whole text"]

    def _asked(self, ids: Tensor, mask: Tensor, rows: Sequence[np.ndarray]) -> Tensor:
        with torch.no_grad():
            whole = self._mean(self.ids[None], torch.ones(1, len(self.tokens), dtype=torch.bool))
        return F.cosine_similarity(self._mean(ids, mask), whole)[:, None]

    def _mean(self, ids: Tensor, mask: Tensor) -> Tensor:
        states = self.net.states(ids, mask=mask)  # type: ignore[operator]
        return states.masked_fill(~mask[..., None], 0.0).sum(1) / mask.sum(1, keepdim=True)

    def _row(self, whole: Tensor) -> Tensor:
        return whole.mean(0)


def _without(said: Tensor, never: Sequence[int]) -> Tensor:
    said = said.clone()
    said[list(never)] = -torch.inf
    return said


def _shown(text: str) -> str:
    return text.strip() or text.replace("\n", "⏎").replace(" ", "␣") or "␣"
