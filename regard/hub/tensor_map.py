"""A tensor here and the tensors there that it is made of. One table of pairs serves both ways, so that they agree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Pair:
    """ours = join(theirs), theirs = split(ours)."""

    ours: str
    theirs: tuple[str, ...]
    join: Callable[[list[Tensor]], Tensor]
    split: Callable[[Tensor], list[Tensor]]


def same(ours: str, theirs: str) -> Pair:
    return Pair(ours, (theirs,), lambda parts: parts[0], lambda whole: [whole])


def turned(ours: str, theirs: str) -> Pair:
    """A matrix that is written (in, out) there."""
    return Pair(ours, (theirs,), lambda parts: parts[0].t().contiguous(), lambda whole: [whole.t().contiguous()])


def stacked(ours: str, theirs: Iterable[str]) -> Pair:
    """Matrices or biases of equal height there, one below the other here."""
    names = tuple(theirs)
    return Pair(ours, names, torch.cat, lambda whole: list(whole.chunk(len(names))))


def linear(ours: str, theirs: str) -> list[Pair]:
    """Weight and bias of a linear map or a norm."""
    return [same(f"{ours}.{part}", f"{theirs}.{part}") for part in ("weight", "bias")]


def stacked_linear(ours: str, theirs: Iterable[str]) -> list[Pair]:
    names = tuple(theirs)
    return [stacked(f"{ours}.{part}", [f"{name}.{part}" for name in names]) for part in ("weight", "bias")]


def to_regard(state: Mapping[str, Tensor], pairs: Iterable[Pair]) -> dict[str, Tensor]:
    """What can be made of the tensors that are there; a pair with a part missing is left out."""
    whole = (pair for pair in pairs if all(name in state for name in pair.theirs))
    return {pair.ours: pair.join([state[name] for name in pair.theirs]) for pair in whole}


def to_hf(state: Mapping[str, Tensor], pairs: Iterable[Pair]) -> dict[str, Tensor]:
    """Every tensor under its name there."""
    theirs: dict[str, Tensor] = {}
    for pair in pairs:
        theirs.update(zip(pair.theirs, pair.split(state[pair.ours]), strict=True))
    return theirs
