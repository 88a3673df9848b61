"""Strided CNN: convolutions with stride 2, so that after L layers a position has seen about 2^L words.

    L_0[b, t, i] = e[w_t]
    L_{l+1}[b, t, i] = σ(Σ_{Δt, i'} W_l[Δt, i', i] L_l[b, 2t + Δt, i'] - B_l[i])      Δt = 0 .. kernel_size - 1
    class = softmax(W_c max_t L_L[b, t] + b_c)

σ is the ReLU. A document of n words has ⌈n / 2⌉ positions in the next layer. Positions beyond the end are zero in every
layer, so that a document does not depend on the others in its batch. A document of one position stays one position
long.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.config.validation import check_positive
from regard.layers.cost_formulas import PartCosts, linear_cost, matmul_cost, params_cost
from regard.layers.dropout import Dropout
from regard.layers.typed_module_list import TypedModuleList
from regard.models.classifier_output import ClassifierOutput, all_real
from regard.models.configured_model import ConfiguredModel, ModelConfig


@dataclass(frozen=True)
class StridedCNNConfig(ModelConfig):
    """Options of the strided CNN. `kernel_size` is the number of positions that a filter reads."""

    dim: int = 128
    layers: int = 4
    kernel_size: int = 3
    dropout: float = 0.3


class StridedConv(nn.Module):
    """Convolution with stride 2 and ReLU: (b, n, dim) to (b, ⌈n / 2⌉, dim)."""

    def __init__(self, dim: int, kernel_size: int):
        super().__init__()
        scale = (2 / (dim * kernel_size)) ** 0.5  # keeps the variance after a ReLU (He et al. 2015)
        self.weight = nn.Parameter(scale * torch.randn(kernel_size, dim, dim))  # W[Δt, i', i]
        self.bias = nn.Parameter(torch.zeros(dim))

    def forward(self, x: Tensor) -> Tensor:
        x = F.pad(x.transpose(1, 2), (0, self.weight.shape[0] - 1))
        return torch.relu(F.conv1d(x, self.weight.permute(2, 1, 0), -self.bias, stride=2)).transpose(1, 2)


class StridedCNN(ConfiguredModel[StridedCNNConfig]):
    """Strided convolutions, the maximum over time and a linear head.

    Args:
        vocab_size: Size of the vocabulary.
        num_classes: Number of classes.
        config: The options; or pass fields of `StridedCNNConfig` as keywords.
    """

    config_class = StridedCNNConfig

    def __init__(self, vocab_size: int, num_classes: int, config: StridedCNNConfig | None = None, **options: Any):
        super().__init__(config, options)
        c = self.config
        check_positive("cnn", dim=c.dim, layers=c.layers, kernel_size=c.kernel_size)
        self.embedding = nn.Embedding(vocab_size, c.dim, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.layers = TypedModuleList[StridedConv](StridedConv(c.dim, c.kernel_size) for _ in range(c.layers))
        self.dropout = Dropout(c.dropout)
        self.head = nn.Linear(c.dim, num_classes)

    def forward(self, ids: Tensor, mask: Tensor | None = None, sentences: Tensor | None = None) -> ClassifierOutput:
        """Token ids and mask (b, n) to logits (b, classes); `sentences` is not used."""
        mask = all_real(ids) if mask is None else mask
        lengths = mask.sum(1).clamp(min=1)
        x = self.dropout(self.embedding(ids)) * mask[..., None]
        for layer in self.layers:
            x, lengths = layer(x), (lengths + 1) // 2
            mask = torch.arange(x.shape[1], device=ids.device) < lengths[:, None]
            x = x * mask[..., None]
        return ClassifierOutput(self.head(self.dropout(x.amax(1))))  # σ >= 0: padding is never the maximum

    def cost_parts(self, n: int, m: int) -> PartCosts:
        yield params_cost("embeddings", self.embedding)
        for i, layer in enumerate(self.layers):
            n = -(-n // 2)
            kernel_size, dim, _ = layer.weight.shape
            yield replace(matmul_cost(f"layers.{i}", n, kernel_size * dim, dim), path=len(self.layers))
        yield linear_cost("head", self.head, 1)
