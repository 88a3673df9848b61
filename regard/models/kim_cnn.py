"""One layer of convolution and the maximum over time (Kim 2014, Convolutional Neural Networks for Sentence
Classification).

    c_i = ReLU(W x_{i : i + h - 1} + b)      for each window of h words, h = 3, 4, 5 with `filters` filters each  eq. 2
    ĉ = max_i c_i                            class = softmax(W_c (ĉ ∘ r) + b_c), r drops half of them         eqs. 3-5

Differences from the paper: windows may extend beyond either end (a wide convolution with zero padding), so that a
document of one word has windows too; embeddings are trained from scratch (the paper's CNN-rand), and the norm of W_c
is not limited to 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import UserError
from regard.layers.cost_formulas import PartCosts, conv_cost, linear_cost, params_cost
from regard.layers.dropout import Dropout
from regard.layers.typed_module_list import TypedModuleList
from regard.models.classifier_output import ClassifierOutput, all_real
from regard.models.configured_model import ConfiguredModel, ModelConfig


@dataclass(frozen=True)
class KimCNNConfig(ModelConfig):
    """Options of Kim's CNN. `filters` is the number of filters of each of the `kernel_sizes`."""

    embed: int = 128
    filters: int = 100
    kernel_sizes: str = "3,4,5"
    dropout: float = 0.5


class KimCNN(ConfiguredModel[KimCNNConfig]):
    """Convolutions of several widths, the maximum over time and a linear head.

    Args:
        vocab_size: Size of the vocabulary.
        num_classes: Number of classes.
        config: The options; or pass fields of `KimCNNConfig` as keywords.
    """

    config_class = KimCNNConfig

    def __init__(self, vocab_size: int, num_classes: int, config: KimCNNConfig | None = None, **options: Any):
        super().__init__(config, options)
        c, kernel_sizes = self.config, parse_sizes(self.config.kernel_sizes)
        self.embedding = nn.Embedding(vocab_size, c.embed, padding_idx=0)
        nn.init.uniform_(self.embedding.weight, -0.25, 0.25)  # as the paper's words without a pretrained vector
        self.convs = TypedModuleList[nn.Conv1d](
            nn.Conv1d(c.embed, c.filters, size, padding=size - 1) for size in kernel_sizes
        )
        self.dropout = Dropout(c.dropout)
        self.head = nn.Linear(len(kernel_sizes) * c.filters, num_classes)

    def forward(self, ids: Tensor, mask: Tensor | None = None, sentences: Tensor | None = None) -> ClassifierOutput:
        """Token ids and mask (b, n) to logits (b, classes); `sentences` is not used."""
        mask = all_real(ids) if mask is None else mask
        x = (self.embedding(ids) * mask[..., None]).transpose(1, 2)  # (b, embed, n)
        lengths = mask.sum(1, keepdim=True)
        maxima = []
        for conv in self.convs:
            c = torch.relu(conv(x))  # (b, filters, n + h - 1)
            # windows that contain a word of the document; c >= 0, so the others are never the maximum
            overhang = c.shape[2] - x.shape[2]
            has_word = torch.arange(c.shape[2], device=ids.device) < lengths + overhang
            maxima.append((c * has_word[:, None]).amax(2))
        return ClassifierOutput(self.head(self.dropout(torch.cat(maxima, 1))))

    def cost_parts(self, n: int, m: int) -> PartCosts:
        yield params_cost("embeddings", self.embedding)
        for conv in self.convs:
            size = conv.kernel_size[0]
            yield conv_cost(f"windows of {size}", conv, n + size - 1, 1)
        yield linear_cost("head", self.head, 1)


def parse_sizes(text: str) -> list[int]:
    """`"3,4,5"` to [3, 4, 5]."""
    try:
        sizes = [int(size) for size in text.split(",")]
    except ValueError:
        sizes = []
    if not sizes or min(sizes) < 1:
        raise UserError(f"kernel_sizes must be whole numbers of 1 or more, such as 3,4,5, not {text!r}")
    return sizes
