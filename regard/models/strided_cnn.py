"""Language CNN: layers of convolution, each of which reads two places on for every place it writes, so that after L
layers one place has seen about 2^L words.

    L_0[b, t, i] = e[w_t]
    L_{l+1}[b, t, i] = σ(Σ_{Δt, i'} W_l[Δt, i', i] L_l[b, 2t + Δt, i'] - B_l[i])      Δt = 0 .. width - 1
    class = softmax(W_c max_t L_L[b, t] + b_c)

σ is the rectifier. A document of n words has ⌈n / 2⌉ places in the next layer; what lies beyond them is zero in every
layer, whatever stands beside the document in its batch. Once a document is one place long it stays so, and further
layers read that place alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.config.validation import check_positive
from regard.layers.dropout import Dropout
from regard.models.classifier_output import ClassifierOutput


@dataclass(frozen=True)
class StridedCNNConfig:
    dim: int = 128
    layers: int = 4
    width: int = 3
    dropout: float = 0.3

    def build(self, vocab: int, classes: int) -> StridedCNN:
        check_positive("convolution", dim=self.dim, layers=self.layers, width=self.width)
        return StridedCNN(vocab, classes, self.dim, self.layers, self.width, self.dropout)


class Halve(nn.Module):
    """(b, n, dim) to (b, ⌈n / 2⌉, dim)."""

    def __init__(self, dim: int, width: int):
        super().__init__()
        scale = (2 / (dim * width)) ** 0.5  # keeps the size of what a rectifier lets through (He et al. 2015)
        self.weight = nn.Parameter(scale * torch.randn(width, dim, dim))  # W[Δt, i', i]
        self.bias = nn.Parameter(torch.zeros(dim))

    def forward(self, x: Tensor) -> Tensor:
        x = F.pad(x.transpose(1, 2), (0, self.weight.shape[0] - 1))
        return torch.relu(F.conv1d(x, self.weight.permute(2, 1, 0), -self.bias, stride=2)).transpose(1, 2)


class StridedCNN(nn.Module):
    config_class = StridedCNNConfig

    def __init__(self, vocab: int, classes: int, dim: int, layers: int, width: int, dropout: float):
        super().__init__()
        self.embedding = nn.Embedding(vocab, dim, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.layers = nn.ModuleList(Halve(dim, width) for _ in range(layers))
        self.dropout = Dropout(dropout)
        self.head = nn.Linear(dim, classes)

    def forward(self, ids: Tensor, mask: Tensor, sentences: Tensor | None = None) -> ClassifierOutput:
        """ids and mask (b, n); sentences are not used."""
        lengths = mask.sum(1).clamp(min=1)
        x = self.dropout(self.embedding(ids)) * mask[..., None]
        for layer in self.layers:
            x, lengths = layer(x), (lengths + 1) // 2
            real = torch.arange(x.shape[1], device=ids.device) < lengths[:, None]
            x = x * real[..., None]
        return ClassifierOutput(self.head(self.dropout(x.amax(1))))  # σ >= 0: places beyond the end never win
