"""Attention is softmax(score(query, key) + mask) · value. This file is the only one that normalizes over keys.

Dimensions, everywhere in regard: b batch, h heads, q queries, k keys, d width.

Each mechanism returns a `Scores` object. All kinds have the same methods: `weights(mask)` returns the attention weights
(b, h, q, k), `apply(weights, value)` the weighted values, and `attend(value, mask)` does both on the fastest path.

    DotScores        query · key with the fused kernel (torch's scaled_dot_product_attention)
    DenseScores      given logits
    WindowScores     query · key within a window, in blocks, at linear cost                     (attention/window.py)
    Window2dScores   the same in two dimensions                                                 (attention/window_2d.py)
    RelativeScores   query · key with relative positions in keys and values         (attention/mechanisms/relative.py)

`Attend` is a module, so that every attention call of a model has a name and can have a hook.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.masks import Mask
from regard.attention.token_positions import QueryKeyPositions

CHUNK_WEIGHTS = 1 << 18
"""Number of weights that are computed in one chunk without gradients, to limit the peak memory of `record`."""


class Scores(Protocol):
    """Attention scores before the softmax."""

    @property
    def qk_positions(self) -> QueryKeyPositions: ...

    def weights(self, mask: Mask | None = None) -> Tensor:
        """Attention weights (b, h, q, k). Rows sum to one; masked keys have weight exactly zero."""
        ...

    def apply(self, weights: Tensor, value: Tensor) -> Tensor:
        """Weighted sum of the values: (b, h, q, k) and (b, h, k, d) to (b, h, q, d)."""
        ...

    def attend(self, value: Tensor, mask: Mask | None = None) -> Tensor:
        """apply(weights(mask), value), without storing the weights where a kernel avoids it."""
        ...


@dataclass(frozen=True)
class DotScores:
    """scale · query · keyᵀ + bias, with the fused kernel (Vaswani et al. 2017, eq. 1).

    Args:
        query: (b, h, q, d).
        key: (b, h, k, d).
        qk_positions: Positions of queries and keys.
        scale: Factor of the product, usually 1 / sqrt(d).
        bias: Added to the scaled product; broadcasts to (b, h, q, k).
    """

    query: Tensor
    key: Tensor
    qk_positions: QueryKeyPositions
    scale: float
    bias: Tensor | None = None

    def weights(self, mask: Mask | None = None) -> Tensor:
        allowed = allowed_pairs(mask, self.qk_positions, self.query.device)
        (b, h, q, _), k = self.query.shape, self.key.shape[-2]
        rows = max(1, CHUNK_WEIGHTS // max(1, b * h * k))
        if torch.is_grad_enabled() or rows >= q:
            return self._chunk_weights(slice(None), allowed)
        first = self._chunk_weights(slice(0, rows), allowed)
        weights = first.new_empty(b, first.shape[1], q, k)
        weights[:, :, :rows] = first
        for start in range(rows, q, rows):
            chunk = slice(start, start + rows)
            weights[:, :, chunk] = self._chunk_weights(chunk, allowed)
        return weights

    def _chunk_weights(self, rows: slice, allowed: Tensor | None) -> Tensor:
        """Weights of a range of queries. `bias` and `allowed` may have a single row for all queries."""
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
        allowed = allowed_pairs(mask, p, value.device)
        if self.bias is not None:
            # The kernel takes one additive mask. For a row of -inf it returns zeros.
            bias = self.bias.to(self.query.dtype)
            allowed = bias if allowed is None else torch.where(allowed, bias, -torch.inf)
        return F.scaled_dot_product_attention(self.query, self.key, value, attn_mask=allowed, scale=self.scale)


@dataclass(frozen=True)
class DenseScores:
    """Scores given as logits (b, h, q, k), as additive attention and Synthesizers compute them."""

    logits: Tensor
    qk_positions: QueryKeyPositions

    def weights(self, mask: Mask | None = None) -> Tensor:
        return masked_softmax(self.logits, allowed_pairs(mask, self.qk_positions, self.logits.device))

    def apply(self, weights: Tensor, value: Tensor) -> Tensor:
        return weights @ value

    def attend(self, value: Tensor, mask: Mask | None = None) -> Tensor:
        return self.weights(mask) @ value


def masked_softmax(logits: Tensor, allowed: Tensor | None) -> Tensor:
    """Softmax over the allowed keys. Other keys get exactly zero; a row without allowed keys is all zero, never NaN.

    Args:
        logits: (..., k).
        allowed: Bool tensor that broadcasts to the logits. None allows all keys.
    """
    if allowed is None:
        return logits.softmax(-1)
    hidden = ~allowed
    return logits.masked_fill(hidden, -torch.inf).softmax(-1).masked_fill(hidden, 0.0)


def allowed_pairs(mask: Mask | None, qk_positions: QueryKeyPositions, device: torch.device) -> Tensor | None:
    """Allowed query-key pairs as one bool tensor that broadcasts to (b, h, q, k). None if nothing is masked."""
    return None if mask is None else mask.allowed(qk_positions.q_pos, qk_positions.k_pos, device)


class Attend(nn.Module):
    """Apply attention to values. `record` and `edit` hook this module; its inputs determine the weights."""

    def __init__(self, dropout: float = 0.0):
        super().__init__()
        self.dropout = dropout

    def forward(self, scores: Scores, value: Tensor, mask: Mask | None = None) -> Tensor:
        """Values (b, h, k, d) to outputs (b, h, q, d). Dropout acts on the weights, in training only."""
        if self.dropout > 0 and self.training:
            return scores.apply(F.dropout(scores.weights(mask), self.dropout), value)
        return scores.attend(value, mask)

    def extra_repr(self) -> str:
        return f"dropout={self.dropout}" if self.dropout else ""
