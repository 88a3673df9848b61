"""Helpers that the checks share: seeded random tensors and layers, differences, growth exponents, intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from regard.attention.scores import Scores, masked_softmax
from regard.attention.token_positions import QueryKeyPositions
from regard.layers.multi_head_attention import MultiHeadAttention

M = TypeVar("M", bound=nn.Module)
TOLERANCE = 1e-10
"""Largest difference between two float64 computations of the same quantity."""


def randn(*shape: int, seed: int) -> Tensor:
    """Return normal float64 noise from its own seed."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def random_ids(low: int, high: int, shape: tuple[int, ...], seed: int) -> Tensor:
    """Return integers in [low, high) from their own seed."""
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(seed))


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch's global generator, and restore its state afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def build_layer(dim: int, heads: int, mechanism: str = "dot", *, seed: int, **options: Any) -> MultiHeadAttention:
    """Build an attention layer in float64 and evaluation mode with perturbed parameters."""
    with seeded(seed):
        layer = perturb(MultiHeadAttention(dim, heads, mechanism, **options).double())
    return layer.eval()


def perturb(module: M) -> M:
    """Add noise to every parameter in place, so that no bias stays zero and hides an error."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return module


def self_attention_scores(mechanism: Any, x: Tensor) -> Scores:
    """Score every position of x, (b, n, dim), against every other."""
    positions = range(x.shape[1])
    query, (key, _) = mechanism.project_query(x, positions), mechanism.project_kv(x, positions)
    return mechanism.score(query, key, QueryKeyPositions(positions, positions))


def softmax_rows(logits: Tensor) -> Tensor:
    """Softmax over the last axis without a mask."""
    return masked_softmax(logits, None)


def max_difference(a: Tensor, b: Tensor) -> float:
    """Return the largest absolute difference; infinity if the shapes differ or a value is NaN."""
    if a.shape != b.shape:
        return math.inf
    difference = (a - b).detach().abs().nan_to_num(nan=math.inf)
    return float(difference.max()) if difference.numel() else 0.0


def growth_exponent(sizes: Iterable[float], values: Iterable[float]) -> float:
    """Return e in value ~ size^e: the slope of least squares on logarithms."""
    x = torch.tensor([math.log(v) for v in sizes], dtype=torch.float64)
    y = torch.tensor([math.log(v) for v in values], dtype=torch.float64)
    x = x - x.mean()
    return float((x * (y - y.mean())).sum() / (x * x).sum())


def entropy(weights: Tensor) -> Tensor:
    """Entropy in nats over the last axis."""
    return -torch.special.xlogy(weights, weights).sum(-1)


def mean_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean over seeds and the ends of its 95 % interval (Student's t)."""
    from scipy.stats import t

    n = len(values)
    mean = sum(values) / n
    if n < 2:
        return mean, -math.inf, math.inf
    error = math.sqrt(sum((v - mean) ** 2 for v in values) / (n - 1) / n)
    half_width = float(t.ppf(0.975, n - 1)) * error
    return mean, mean - half_width, mean + half_width


def difference_interval(a: Sequence[float], b: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean and 95 % interval of the paired differences a - b over seeds."""
    return mean_interval([x - y for x, y in zip(a, b, strict=True)])
