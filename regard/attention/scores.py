"""The seam: attention is softmax(score(query, memory) + mask) · value, and only this file normalises over keys.

Dimensions, everywhere: b batch, h heads, q queries, k keys, d width.

Scores come in three kinds, each with the same three words: `weights(mask)` is what attention is, (b, h, q, k), pure;
`read(weights, value)` is what weights read, a plain product unless there is more to read (Shaw's relative scores);
`attend(value, mask)` is both at once, by the fastest way there is.

    Dot      query · key, fused (torch's scaled_dot_product_attention)
    DenseScores    any logits that are already there
    WindowScores   query · key within a window, in blocks, so that the cost grows linearly    (regard/banded.py)

`Attend` is a module, so that each place where attention happens has a name and a hook.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.masks import Mask
from regard.attention.token_positions import QueryKeyPositions

PART = 1 << 18
"""Weights that are made at once where no gradient is wanted: whoever looks holds what is kept and little more."""


class Scores(Protocol):
    """What a mechanism gives: how much each query regards each key, before the softmax."""

    @property
    def qk_positions(self) -> QueryKeyPositions: ...

    def weights(self, mask: Mask | None = None) -> Tensor:
        """The attention itself, (b, h, q, k): rows sum to one, forbidden keys weigh exactly zero."""
        ...

    def apply(self, weights: Tensor, value: Tensor) -> Tensor:
        """What these weights read of the values (b, h, k, d): (b, h, q, d)."""
        ...

    def attend(self, value: Tensor, mask: Mask | None = None) -> Tensor:
        """read(weights(mask), value), without keeping the weights where that can be helped."""
        ...


@dataclass(frozen=True)
class DotScores:
    """scale · query · keyᵀ + bias (Vaswani et al. 2017, eq. 1), by the fused kernel."""

    query: Tensor
    key: Tensor
    qk_positions: QueryKeyPositions
    scale: float
    bias: Tensor | None = None

    def weights(self, mask: Mask | None = None) -> Tensor:
        allowed = _allowed(mask, self.qk_positions, self.query.device)
        (b, h, q, _), k = self.query.shape, self.key.shape[-2]
        rows = max(1, PART // max(1, b * h * k))
        if torch.is_grad_enabled() or rows >= q:
            return self._weights(slice(None), allowed)
        first = self._weights(slice(0, rows), allowed)
        whole = first.new_empty(b, first.shape[1], q, k)
        whole[:, :, :rows] = first
        for start in range(rows, q, rows):
            part = slice(start, start + rows)
            whole[:, :, part] = self._weights(part, allowed)
        return whole

    def _weights(self, rows: slice, allowed: Tensor | None) -> Tensor:
        """Of these queries; `bias` and `allowed` may have one row for all."""
        query = self.query[:, :, rows]
        logits = (query if self.scale == 1.0 else query * self.scale) @ self.key.transpose(-2, -1)
        if self.bias is not None:
            logits = logits + (self.bias[..., rows, :] if self.bias.shape[-2] > 1 else self.bias)
        return masked_softmax(logits, allowed if allowed is None or allowed.shape[-2] == 1 else allowed[..., rows, :])

    def apply(self, weights: Tensor, value: Tensor) -> Tensor:
        return weights @ value

    def attend(self, value: Tensor, mask: Mask | None = None) -> Tensor:
        p = self.qk_positions
        if self.bias is None and mask is not None and mask.is_plain_causal(p.q_pos, p.k_pos):
            return F.scaled_dot_product_attention(self.query, self.key, value, is_causal=True, scale=self.scale)
        allowed = _allowed(mask, p, value.device)
        if self.bias is not None:
            # The kernel wants one additive tensor; a row with nothing allowed becomes all -inf, which it reads as zero.
            bias = self.bias.to(self.query.dtype)
            allowed = bias if allowed is None else torch.where(allowed, bias, -torch.inf)
        return F.scaled_dot_product_attention(self.query, self.key, value, attn_mask=allowed, scale=self.scale)


@dataclass(frozen=True)
class DenseScores:
    """Logits (b, h, q, k) that are already there, as additive and synthesized scores give them."""

    logits: Tensor
    qk_positions: QueryKeyPositions

    def weights(self, mask: Mask | None = None) -> Tensor:
        return masked_softmax(self.logits, _allowed(mask, self.qk_positions, self.logits.device))

    def apply(self, weights: Tensor, value: Tensor) -> Tensor:
        return weights @ value

    def attend(self, value: Tensor, mask: Mask | None = None) -> Tensor:
        return self.weights(mask) @ value


def masked_softmax(logits: Tensor, allowed: Tensor | None) -> Tensor:
    """softmax over the allowed keys: exactly zero elsewhere, and all zero where nothing is allowed, never NaN."""
    if allowed is None:
        return logits.softmax(-1)
    hidden = ~allowed
    return logits.masked_fill(hidden, -torch.inf).softmax(-1).masked_fill(hidden, 0.0)


def _allowed(mask: Mask | None, qk_positions: QueryKeyPositions, device: torch.device) -> Tensor | None:
    return None if mask is None else mask.allowed(qk_positions.q_pos, qk_positions.k_pos, device)


class Attend(nn.Module):
    """The act of attention. Its inputs say all there is to know, so a hook can look (`record`) or step in (`edit`)."""

    def __init__(self, dropout: float = 0.0):
        super().__init__()
        self.dropout = dropout

    def forward(self, scores: Scores, value: Tensor, mask: Mask | None = None) -> Tensor:
        """(b, h, k, d) values to (b, h, q, d) contexts."""
        if self.dropout > 0 and self.training:
            return scores.apply(F.dropout(scores.weights(mask), self.dropout), value)
        return scores.attend(value, mask)

    def extra_repr(self) -> str:
        return f"dropout={self.dropout}" if self.dropout else ""
