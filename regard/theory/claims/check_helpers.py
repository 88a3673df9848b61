"""Small helpers of the checks: noise by seed, slopes, gaps, entropies, layers with no zero left in them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import Tensor, nn

from regard.attention.scores import normalise
from regard.layers.multi_head_attention import MultiHead

M = TypeVar("M", bound=nn.Module)


def noise(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Torch's own random numbers from this seed, and put back afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def layer(dim: int, heads: int, mechanism: str = "dot", *, seed: int, **options) -> MultiHead:
    """A layer in float64 and evaluation mode whose biases have left zero."""
    with seeded(seed):
        made = shaken(MultiHead(dim, heads, mechanism, **options).double())
    return made.eval()


def shaken(module: M) -> M:
    """Every parameter moved a little, so that a bias of zero hides nothing."""
    with torch.no_grad():
        for p in module.parameters():
            p.add_(0.1 * torch.randn_like(p))
    return module


def gap(a: Tensor, b: Tensor) -> float:
    """The greatest difference; infinite where shapes differ or something is not a number."""
    if a.shape != b.shape:
        return math.inf
    worst = (a - b).detach().abs().nan_to_num(nan=math.inf)
    return float(worst.max()) if worst.numel() else 0.0


def slope(xs: Iterable[float], ys: Iterable[float]) -> float:
    """The exponent with which y grows with x: least squares on logarithms."""
    x = torch.tensor([math.log(v) for v in xs], dtype=torch.float64)
    y = torch.tensor([math.log(v) for v in ys], dtype=torch.float64)
    x = x - x.mean()
    return float((x * (y - y.mean())).sum() / (x * x).sum())


def entropy(weights: Tensor) -> Tensor:
    """In nats, over the last axis."""
    return -torch.special.xlogy(weights, weights).sum(-1)


def weigh(logits: Tensor) -> Tensor:
    return normalise(logits, None)


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean and 95 % interval (Student's t) over seeds."""
    from scipy.stats import t

    n = len(values)
    mean = sum(values) / n
    if n < 2:
        return mean, -math.inf, math.inf
    spread = math.sqrt(sum((v - mean) ** 2 for v in values) / (n - 1) / n)
    reach = float(t.ppf(0.975, n - 1)) * spread
    return mean, mean - reach, mean + reach
