"""A matrix that starts as those of the dot product do (Glorot & Bengio 2010, no bias at first), so that mechanisms that
are compared differ in their scores and in nothing else."""

from __future__ import annotations

from torch import nn


def projection(dim: int, width: int, bias: bool) -> nn.Linear:
    linear = nn.Linear(dim, width, bias)
    nn.init.xavier_uniform_(linear.weight)
    if bias:
        nn.init.zeros_(linear.bias)
    return linear
