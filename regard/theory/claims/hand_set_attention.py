"""Attention by hand: queries, keys and values set so that one head copies, averages, is fragile, or two are sturdy.

    weights = softmax(K q)        c = Σ_i weights_i v_i        raw dot products, no scale

Keys are unit vectors μ_i, orthogonal to one another, unless noise is put on them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.attention.scores import masked_softmax


def attention(query: Tensor, keys: Tensor) -> Tensor:
    """softmax over the keys of query · key: (..., d), (..., n, d) -> (..., n)."""
    return masked_softmax((keys @ query[..., None])[..., 0], None)


def copying(margin: float, n: int) -> Tensor:
    """Weights of a query that exceeds all other scores by a margin at the first of n keys: q = margin · k_0."""
    keys = torch.eye(n, dtype=torch.float64)
    return attention(margin * keys[0], keys)


def weight_of_margin(margin: float, n: int) -> float:
    """What copying comes to: 1 / (1 + (n - 1) exp(-margin))."""
    return 1 / (1 + (n - 1) * math.exp(-margin))


def averaging(strength: float, n: int) -> Tensor:
    """Weights of q = M (k_a + k_b), a and b being the first two of n orthogonal keys of equal norm."""
    keys = torch.eye(n, dtype=torch.float64)
    return attention(strength * (keys[0] + keys[1]), keys)


def margin_for_entropy(entropy: float, n: int) -> float:
    """The margin at which copying's row of n weights has this entropy, between 0 and log n; by bisection."""
    low, high = 0.0, 100.0
    for _ in range(200):
        middle = (low + high) / 2
        row = copying(middle, n)
        if float(-torch.special.xlogy(row, row).sum()) > entropy:
            low = middle
        else:
            high = middle
    return low


@dataclass(frozen=True)
class Draws:
    """Coefficients of the output on v_a and v_b, one row a draw: (draws, 2)."""

    coefficients: Tensor

    @property
    def variance(self) -> float:
        """E ‖c - E c‖², in the plane of v_a and v_b."""
        return float(self.coefficients.var(0, unbiased=True).sum())

    @property
    def mean(self) -> list[float]:
        return self.coefficients.mean(0).tolist()

    @property
    def off(self) -> float:
        """The share of draws whose v_a part is nearer to 0 than to where it should be, ½."""
        return float((self.coefficients[:, 0] < 0.25).double().mean())


def keys_with_noise(n: int, alpha: float, draws: int, seed: int) -> Tensor:
    """k_a ~ N(μ_a, αI + ½ μ_a μ_aᵀ), the others N(μ_i, αI): (draws, n, n); a is the first."""
    made = torch.Generator().manual_seed(seed)
    keys = torch.eye(n, dtype=torch.float64).expand(draws, n, n).clone()
    keys += math.sqrt(alpha) * torch.randn(draws, n, n, generator=made, dtype=torch.float64)
    keys[:, 0, 0] += math.sqrt(0.5) * torch.randn(draws, generator=made, dtype=torch.float64)
    return keys


def one_head(strength: float, n: int = 10, alpha: float = 1e-6, draws: int = 10_000, seed: int = 0) -> Draws:
    """q = M(μ_a + μ_b): where k_a comes out long the output is v_a, where it comes out short v_b."""
    keys = keys_with_noise(n, alpha, draws, seed)
    query = torch.zeros(n, dtype=torch.float64)
    query[:2] = strength
    return Draws(attention(query.expand(draws, n), keys)[:, :2])


def two_heads(strength: float, n: int = 10, alpha: float = 1e-6, draws: int = 10_000, seed: int = 0) -> Draws:
    """q_1 = Mμ_a, q_2 = Mμ_b: each finds its own key, and the output is the mean of both heads'."""
    keys = keys_with_noise(n, alpha, draws, seed)
    heads = []
    for which in (0, 1):
        query = torch.zeros(n, dtype=torch.float64)
        query[which] = strength
        heads.append(attention(query.expand(draws, n), keys)[:, :2])
    return Draws((heads[0] + heads[1]) / 2)


def chance_of_failing(strength: float, n: int = 10) -> float:
    """Φ(√2 (ln(n-1)/M - 1)): k_a's score falls below what n - 1 others weigh together."""
    return 0.5 * (1 + math.erf(math.log(n - 1) / strength - 1))


@dataclass(frozen=True)
class ByHand:
    """Outputs c (3, 4) in the basis u_a, u_b, u_c, u_d of norm β, each in units of its vector; weights (3, 3)."""

    outputs: Tensor
    weights: Tensor


def by_hand(beta: float, *, identity: bool = False, add: str = "") -> ByHand:
    """x1 = u_d + u_b, x2 = u_a, x3 = u_c + u_b; V = (u_b u_bᵀ - u_c u_cᵀ)/β², K = I, Q = (u_d u_aᵀ + u_c u_dᵀ)/β².

    identity=True sets Q = K = V = I instead; `add` adds these vectors ("c", "cd") to x2.
    """
    u = {name: beta * torch.eye(4, dtype=torch.float64)[i] for i, name in enumerate("abcd")}
    x = torch.stack((u["d"] + u["b"], u["a"] + sum(u[name] for name in add), u["c"] + u["b"]))
    eye = torch.eye(4, dtype=torch.float64)
    q = k = v = eye
    if not identity:
        v = (torch.outer(u["b"], u["b"]) - torch.outer(u["c"], u["c"])) / beta**2
        q = (torch.outer(u["d"], u["a"]) + torch.outer(u["c"], u["d"])) / beta**2
    weights = attention(x @ q.T, (x @ k.T).expand(3, 3, 4))
    return ByHand(weights @ (x @ v.T) / beta, weights)
