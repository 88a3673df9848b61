"""One layer of convolution and the greatest value over time (Kim 2014, Convolutional Neural Networks for Sentence
Classification).

    c_i = ReLU(W x_{i : i + h - 1} + b)      for each window of h words, h = 3, 4, 5 with `maps` filters each    eq. 2
    ĉ = max_i c_i                            class = softmax(W_c (ĉ ∘ r) + b_c), r drops half of them         eqs. 3-5

How we differ: windows may hang over either end (a wide convolution, zeros beyond), so that a document of one word has
windows too; embeddings are trained from scratch (the paper's CNN-rand), and the norm of W_c is not held at 3.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.errors import UserError
from regard.layers.dropout import Dropout
from regard.models.classifier_output import ClassifierOutput


@dataclass(frozen=True)
class KimCNNConfig:
    embed: int = 128
    maps: int = 100
    widths: str = "3,4,5"
    dropout: float = 0.5

    def build(self, vocab: int, classes: int) -> KimCNN:
        try:
            widths = [int(width) for width in self.widths.split(",")]
        except ValueError:
            widths = []
        if not widths or min(widths) < 1:
            raise UserError(f"widths wants whole numbers such as 3,4,5, and was given {self.widths!r}")
        return KimCNN(vocab, classes, self.embed, self.maps, widths, self.dropout)


class KimCNN(nn.Module):
    config_class = KimCNNConfig

    def __init__(self, vocab: int, classes: int, embed: int, maps: int, widths: list[int], dropout: float):
        super().__init__()
        self.embedding = nn.Embedding(vocab, embed, padding_idx=0)
        nn.init.uniform_(self.embedding.weight, -0.25, 0.25)  # as the paper's words without a vector
        self.windows = nn.ModuleList(nn.Conv1d(embed, maps, width, padding=width - 1) for width in widths)
        self.dropout = Dropout(dropout)
        self.head = nn.Linear(len(widths) * maps, classes)

    def forward(self, ids: Tensor, mask: Tensor, sentences: Tensor | None = None) -> ClassifierOutput:
        """ids and mask (b, n); sentences are not used."""
        x = (self.embedding(ids) * mask[..., None]).transpose(1, 2)  # (b, embed, n)
        lengths = mask.sum(1, keepdim=True)
        greatest = []
        for window in self.windows:
            c = torch.relu(window(x))  # (b, maps, n + h - 1)
            # the windows that hold a word of the document; c >= 0, so the others never win
            over = c.shape[2] - x.shape[2]
            real = torch.arange(c.shape[2], device=ids.device) < lengths + over
            greatest.append((c * real[:, None]).amax(2))
        return ClassifierOutput(self.head(self.dropout(torch.cat(greatest, 1))))
