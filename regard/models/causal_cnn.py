"""A causal convolutional language model: layers whose filters reach back 1, 2, 4, ... places (van den Oord et al. 2016,
WaveNet, section 2.1), gated (Dauphin et al. 2017, Language Modeling with Gated Convolutional Networks, eq. 1).

    x_0 = e[w]
    a, g = Σ_Δ W_l[Δ] norm(x_l)[t - Δ · 2^l] + b_l      Δ = 0 .. width - 1
    x_{l+1}[t] = x_l[t] + V_l (a σ(g))                  P(w_{t+1}) = softmax(e norm(x_L)[t])

    e: `embed`, tied with the head    W, V: `layers[l].filter`, `.out`

A net of strided layers sees 2^L words at its top for one place in 2^L; with dilation in place of strides the same tree
of filters is read off at every place. What lies before the text is zero. After `cycle` layers the reach starts again
at 1; in all a word sees 1 + (width - 1) · Σ_l 2^(l mod cycle) words.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from regard.config.validation import check_positive
from regard.layers.dropout import Dropout
from regard.models.classifier_output import pick


@dataclass(frozen=True)
class CausalCNNConfig:
    dim: int = 256
    layers: int = 6
    width: int = 3
    cycle: int = 6
    dropout: float = 0.0

    def build(self, vocab: int) -> CausalCNN:
        check_positive("cnn", dim=self.dim, layers=self.layers, width=self.width, cycle=self.cycle)
        return CausalCNN(vocab, self)


class Gated(nn.Module):
    """(b, n, dim) to (b, n, dim), each place from itself and what lies before it."""

    def __init__(self, dim: int, width: int, reach: int, dropout: float):
        super().__init__()
        self.back = (width - 1) * reach
        self.norm, self.dropout = nn.LayerNorm(dim), Dropout(dropout)
        self.filter = nn.Conv1d(dim, 2 * dim, width, dilation=reach)
        self.out = nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        y = F.pad(self.norm(x).transpose(1, 2), (self.back, 0))
        return x + self.dropout(self.out(F.glu(self.filter(y), 1).transpose(1, 2)))


class CausalCNN(nn.Module):
    config_class = CausalCNNConfig

    def __init__(self, vocab: int, config: CausalCNNConfig):
        super().__init__()
        self.config = c = config
        self.embed = nn.Embedding(vocab, c.dim)
        nn.init.normal_(self.embed.weight, std=0.02)
        self.layers = nn.ModuleList(Gated(c.dim, c.width, 2 ** (i % c.cycle), c.dropout) for i in range(c.layers))
        self.norm, self.dropout = nn.LayerNorm(c.dim), Dropout(c.dropout)

    @property
    def sees(self) -> int:
        """How many words up to itself a place sees."""
        return 1 + sum(layer.back for layer in self.layers)  # type: ignore[arg-type,misc]

    def forward(self, ids: Tensor, *, mask: Tensor | None = None, places: Tensor | None = None) -> Tensor:
        """ids (b, n) to logits of the next word (b, n, vocab), or (k, vocab) of some places only, counted through all
        rows. Padding stands at the end, where nothing that counts looks: mask is not needed."""
        return self.head(pick(self.states(ids), places))

    def states(self, ids: Tensor) -> Tensor:
        x = self.dropout(self.embed(ids))
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)

    def head(self, states: Tensor) -> Tensor:
        return F.linear(states, self.embed.weight)
