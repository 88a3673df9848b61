"""Which tensors of regard and of Hugging Face correspond. One table of pairs serves both directions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class TensorPair:
    """A tensor of regard and the tensors of Hugging Face that it is made of.

    Attributes:
        name: The name in regard.
        hf_names: The names in Hugging Face's file.
        join: Hugging Face's tensors to regard's tensor.
        split: The inverse.
    """

    name: str
    hf_names: tuple[str, ...]
    join: Callable[[list[Tensor]], Tensor]
    split: Callable[[Tensor], list[Tensor]]


def same(name: str, hf_name: str) -> TensorPair:
    """The same tensor under two names."""
    return TensorPair(name, (hf_name,), lambda parts: parts[0], lambda whole: [whole])


def transposed(name: str, hf_name: str) -> TensorPair:
    """A matrix that Hugging Face stores as (in, out)."""
    return TensorPair(name, (hf_name,), lambda parts: parts[0].t().contiguous(), lambda whole: [whole.t().contiguous()])


def stacked(name: str, hf_names: Iterable[str]) -> TensorPair:
    """Tensors of equal height that regard stores as one."""
    hf_names = tuple(hf_names)
    return TensorPair(name, hf_names, torch.cat, lambda whole: list(whole.chunk(len(hf_names))))


def linear(name: str, hf_name: str) -> list[TensorPair]:
    """Weight and bias of a linear layer or a norm."""
    return [same(f"{name}.{part}", f"{hf_name}.{part}") for part in ("weight", "bias")]


def stacked_linear(name: str, hf_names: Iterable[str]) -> list[TensorPair]:
    """Weights and biases of linear layers that regard stores as one."""
    hf_names = tuple(hf_names)
    return [stacked(f"{name}.{part}", [f"{hf_name}.{part}" for hf_name in hf_names]) for part in ("weight", "bias")]


def join_tensors(state: Mapping[str, Tensor], pairs: Iterable[TensorPair]) -> dict[str, Tensor]:
    """Hugging Face's tensors to regard's. Pairs with a missing tensor are left out."""
    complete = (pair for pair in pairs if all(name in state for name in pair.hf_names))
    return {pair.name: pair.join([state[name] for name in pair.hf_names]) for pair in complete}


def split_tensors(state: Mapping[str, Tensor], pairs: Iterable[TensorPair]) -> dict[str, Tensor]:
    """Regard's tensors to Hugging Face's."""
    return {
        name: tensor for pair in pairs for name, tensor in zip(pair.hf_names, pair.split(state[pair.name]), strict=True)
    }
