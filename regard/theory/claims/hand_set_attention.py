"""Attention with queries, keys and values set by hand: one head that copies or averages, and two heads that are robust.

    weights = softmax(K q)        c = Σ_i weights_i v_i        raw dot products, not scaled

Keys are orthogonal unit vectors μ_i, unless noise is added to them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.theory.claims.check_helpers import entropy, softmax_rows

NUM_SAMPLES = 10_000


def attention_weights(query: Tensor, keys: Tensor) -> Tensor:
    """Softmax over the keys of query · key: (..., d), (..., n, d) -> (..., n)."""
    return softmax_rows((keys @ query[..., None])[..., 0])


def copying_weights(margin: float, n: int) -> Tensor:
    """Return the weights of a query whose score at the first of n keys exceeds the others by a margin."""
    keys = torch.eye(n, dtype=torch.float64)
    return attention_weights(margin * keys[0], keys)


def weight_by_margin(margin: float, n: int) -> float:
    """Return the largest weight of `copying_weights`: 1 / (1 + (n - 1) exp(-margin))."""
    return 1 / (1 + (n - 1) * math.exp(-margin))


def averaging_weights(scale: float, n: int) -> Tensor:
    """Return the weights of q = M (k_a + k_b), a and b being the first two of n orthogonal keys of equal norm."""
    keys = torch.eye(n, dtype=torch.float64)
    return attention_weights(scale * (keys[0] + keys[1]), keys)


def margin_for_entropy(target: float, n: int) -> float:
    """Return the margin at which `copying_weights` has this entropy, between 0 and log n, by bisection."""
    low, high = 0.0, 100.0
    for _ in range(200):
        middle = (low + high) / 2
        if float(entropy(copying_weights(middle, n))) > target:
            low = middle
        else:
            high = middle
    return low


@dataclass(frozen=True)
class OutputSamples:
    """Coefficients of the output on v_a and v_b for random keys, (samples, 2)."""

    coefficients: Tensor

    @property
    def variance(self) -> float:
        """E ‖c - E c‖², in the plane of v_a and v_b."""
        return float(self.coefficients.var(0, unbiased=True).sum())

    @property
    def mean(self) -> list[float]:
        return self.coefficients.mean(0).tolist()

    @property
    def failure_rate(self) -> float:
        """The fraction of samples whose coefficient on v_a is nearer to 0 than to ½."""
        return float((self.coefficients[:, 0] < 0.25).double().mean())


def sample_keys(n: int, alpha: float, samples: int, seed: int) -> Tensor:
    """Sample k_a ~ N(μ_a, αI + ½ μ_a μ_aᵀ), the other keys from N(μ_i, αI): (samples, n, n); a is the first."""
    generator = torch.Generator().manual_seed(seed)
    keys = torch.eye(n, dtype=torch.float64).expand(samples, n, n).clone()
    keys += math.sqrt(alpha) * torch.randn(samples, n, n, generator=generator, dtype=torch.float64)
    keys[:, 0, 0] += math.sqrt(0.5) * torch.randn(samples, generator=generator, dtype=torch.float64)
    return keys


def _head_output(scales: tuple[float, float], keys: Tensor) -> Tensor:
    """Return the weights of keys a and b for q = scales[0] μ_a + scales[1] μ_b, (samples, 2)."""
    samples, n, _ = keys.shape
    query = torch.zeros(n, dtype=torch.float64)
    query[0], query[1] = scales
    return attention_weights(query.expand(samples, n), keys)[:, :2]


def one_head(
    scale: float, n: int = 10, alpha: float = 1e-6, samples: int = NUM_SAMPLES, seed: int = 0
) -> OutputSamples:
    """Sample the output for q = M(μ_a + μ_b): it is near v_a if k_a is long, and near v_b if k_a is short."""
    return OutputSamples(_head_output((scale, scale), sample_keys(n, alpha, samples, seed)))


def two_heads(
    scale: float, n: int = 10, alpha: float = 1e-6, samples: int = NUM_SAMPLES, seed: int = 0
) -> OutputSamples:
    """Sample the mean output of two heads with q_1 = Mμ_a and q_2 = Mμ_b."""
    keys = sample_keys(n, alpha, samples, seed)
    return OutputSamples((_head_output((scale, 0.0), keys) + _head_output((0.0, scale), keys)) / 2)


def failure_probability(scale: float, n: int = 10) -> float:
    """Return Φ(√2 (ln(n-1)/M - 1)), the probability that the score of k_a is too low against n - 1 other keys."""
    return 0.5 * (1 + math.erf(math.log(n - 1) / scale - 1))


@dataclass(frozen=True)
class HandSetLayer:
    """Outputs (3, 4) in the basis u_a, u_b, u_c, u_d, in units of their norm β; weights (3, 3)."""

    outputs: Tensor
    weights: Tensor


def hand_set_layer(beta: float, *, identity: bool = False, add: str = "") -> HandSetLayer:
    """Run x1 = u_d + u_b, x2 = u_a, x3 = u_c + u_b through matrices that are set by hand.

    V = (u_b u_bᵀ - u_c u_cᵀ)/β², K = I, Q = (u_d u_aᵀ + u_c u_dᵀ)/β².

    Args:
        beta: The norm of u_a ... u_d.
        identity: Use Q = K = V = I instead.
        add: Names of vectors to add to x2, such as "c" or "cd".
    """
    u = {name: beta * torch.eye(4, dtype=torch.float64)[i] for i, name in enumerate("abcd")}
    x = torch.stack((u["d"] + u["b"], u["a"] + sum(u[name] for name in add), u["c"] + u["b"]))
    q = k = v = torch.eye(4, dtype=torch.float64)
    if not identity:
        v = (torch.outer(u["b"], u["b"]) - torch.outer(u["c"], u["c"])) / beta**2
        q = (torch.outer(u["d"], u["a"]) + torch.outer(u["c"], u["d"])) / beta**2
    weights = attention_weights(x @ q.T, (x @ k.T).expand(3, 3, 4))
    return HandSetLayer(weights @ (x @ v.T) / beta, weights)
