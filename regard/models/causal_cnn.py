"""A causal convolutional language model: layers whose filters look back 1, 2, 4, ... positions (van den Oord et al.
2016, WaveNet, section 2.1), gated (Dauphin et al. 2017, Language Modeling with Gated Convolutional Networks, eq. 1).

    x_0 = e[w]
    a, g = Σ_Δ W_l[Δ] norm(x_l)[t - Δ · 2^l] + b_l      Δ = 0 .. kernel_size - 1
    x_{l+1}[t] = x_l[t] + V_l (a σ(g))                  P(w_{t+1}) = softmax(e norm(x_L)[t])

    e: `embed`, tied with the head    W, V: `layers[l].conv`, `.out`

A network of strided layers sees 2^L tokens at its top, for one position in 2^L. With dilation in place of strides the
same tree of filters ends at every position. The input before the text is zero. After `dilation_cycle` layers the
dilation starts again at 1; a position sees 1 + (kernel_size - 1) · Σ_l 2^(l mod dilation_cycle) tokens.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from regard.config.validation import check_positive
from regard.layers.cost_formulas import PartCosts, conv_cost, linear_cost, matmul_cost, params_cost
from regard.layers.dropout import Dropout
from regard.layers.typed_module_list import TypedModuleList
from regard.models.causal_model import CausalModel
from regard.models.classifier_output import select_positions
from regard.models.configured_model import ModelConfig


@dataclass(frozen=True)
class CausalCNNConfig(ModelConfig):
    """Options of the causal convolutional language model.

    Attributes:
        kernel_size: Positions that a filter reads.
        dilation_cycle: Number of layers after which the dilation starts again at 1.
    """

    dim: int = 256
    layers: int = 6
    kernel_size: int = 3
    dilation_cycle: int = 6
    dropout: float = 0.0


class GatedConv(nn.Module):
    """A causal gated convolution with a residual: (b, n, dim) to (b, n, dim)."""

    def __init__(self, dim: int, kernel_size: int, dilation: int, dropout: float):
        super().__init__()
        self.lookback = (kernel_size - 1) * dilation
        self.norm, self.dropout = nn.LayerNorm(dim), Dropout(dropout)
        self.conv = nn.Conv1d(dim, 2 * dim, kernel_size, dilation=dilation)
        self.out = nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        y = F.pad(self.norm(x).transpose(1, 2), (self.lookback, 0))
        return x + self.dropout(self.out(F.glu(self.conv(y), 1).transpose(1, 2)))


def build_gated_convs(
    dim: int, layers: int, kernel_size: int, dilation_cycle: int, dropout: float
) -> TypedModuleList[GatedConv]:
    """Layers with dilation 1, 2, 4, ..., starting again at 1 after `dilation_cycle` layers."""
    check_positive("cnn", dim=dim, layers=layers, kernel_size=kernel_size, dilation_cycle=dilation_cycle)
    return TypedModuleList[GatedConv](
        GatedConv(dim, kernel_size, 2 ** (i % dilation_cycle), dropout) for i in range(layers)
    )


def gated_conv_costs(layers: Iterable[GatedConv], n: int) -> PartCosts:
    """The cost of such layers by formula."""
    layers = list(layers)
    lookback = max(1, sum(layer.lookback for layer in layers))
    for i, layer in enumerate(layers):
        yield conv_cost(f"layers.{i}.conv", layer.conv, n, len(layers) * -(-(n - 1) // lookback))
        yield linear_cost(f"layers.{i}.out", layer.out, n)
        yield params_cost(f"layers.{i}.norm", layer.norm)


class CausalCNN(CausalModel[CausalCNNConfig]):
    """Causal convolutional language model.

    Args:
        vocab_size: Size of the vocabulary.
        config: The options; or pass fields of `CausalCNNConfig` as keywords.
    """

    config_class = CausalCNNConfig

    def __init__(self, vocab_size: int, config: CausalCNNConfig | None = None, **options: Any):
        super().__init__(config, options)
        c = self.config
        check_positive("cnn", dim=c.dim)
        self.embed = nn.Embedding(vocab_size, c.dim)
        nn.init.normal_(self.embed.weight, std=0.02)
        self.layers = build_gated_convs(c.dim, c.layers, c.kernel_size, c.dilation_cycle, c.dropout)
        self.norm, self.dropout = nn.LayerNorm(c.dim), Dropout(c.dropout)

    @property
    def context_size(self) -> int:
        """Number of tokens, up to its own, that a position depends on."""
        return 1 + sum(layer.lookback for layer in self.layers)

    def forward(self, ids: Tensor, *, mask: Tensor | None = None, logits_at: Tensor | None = None) -> Tensor:
        """Logits of the token after each token.

        Args:
            ids: Token ids, (b, n).
            mask: Not used: padding is at the end, and no real position depends on it.
            logits_at: Flat indices (k,) of the positions whose logits are wanted.

        Returns:
            Logits (b, n, vocab), or (k, vocab) with `logits_at`.
        """
        return self.head(select_positions(self.hidden_states(ids), logits_at))

    def hidden_states(self, ids: Tensor) -> Tensor:
        """The last layer's states, after the final norm, (b, n, dim)."""
        x = self.dropout(self.embed(ids))
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)

    def head(self, states: Tensor) -> Tensor:
        """Hidden states (..., dim) to logits (..., vocab)."""
        return F.linear(states, self.embed.weight)

    def cost_parts(self, n: int, m: int) -> PartCosts:
        vocab_size, dim = self.embed.weight.shape
        yield params_cost("embeddings (tied with the head)", self.embed)
        yield from gated_conv_costs(self.layers, n)
        yield params_cost("norm", self.norm)
        yield matmul_cost("head", n, dim, vocab_size, 0)
