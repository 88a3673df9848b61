"""Documents read by the layers of the causal convolutional language model, so that a pretrained one goes on here.

h = norm(x_L)                                       regard/models/causal_cnn.py: each place from what lies before it
v = Σ_t α[t] h[t]                                   α: regard/layers/pool.py (Yang et al. 2016, eqs. 5-7)
class = softmax(W_c v + b_c)
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from regard.attention.token_positions import QueryKeyPositions
from regard.config.validation import check_positive
from regard.layers import AttentionPooling
from regard.layers.dropout import Dropout
from regard.models.causal_cnn import Gated
from regard.models.classifier_output import ClassifierOutput


@dataclass(frozen=True)
class GatedCNNConfig:
    """As the language model's, smaller by default."""

    dim: int = 128
    layers: int = 4
    width: int = 3
    cycle: int = 6
    dropout: float = 0.3

    def build(self, vocab: int, classes: int) -> GatedCNN:
        check_positive("gated-cnn", dim=self.dim, layers=self.layers, width=self.width, cycle=self.cycle)
        return GatedCNN(vocab, classes, self)


class GatedCNN(nn.Module):
    config_class = GatedCNNConfig

    def __init__(self, vocab: int, classes: int, config: GatedCNNConfig):
        super().__init__()
        c = config
        self.embedding = nn.Embedding(vocab, c.dim)
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.layers = nn.ModuleList(Gated(c.dim, c.width, 2 ** (i % c.cycle), c.dropout) for i in range(c.layers))
        self.norm, self.dropout = nn.LayerNorm(c.dim), Dropout(c.dropout)
        self.pool = AttentionPooling(c.dim)
        self.head = nn.Linear(c.dim, classes)

    def forward(self, ids: Tensor, mask: Tensor, sentences: Tensor | None = None) -> ClassifierOutput:
        """ids and mask (b, n); sentences are not used. Padding stands at the end, where no real place looks."""
        x = self.dropout(self.embedding(ids))
        for layer in self.layers:
            x = layer(x)
        at = QueryKeyPositions(range(1), range(ids.shape[1]), "document", "tokens")
        return ClassifierOutput(self.head(self.dropout(self.pool(self.norm(x), mask, at)[0][:, 0])))
