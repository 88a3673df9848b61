"""Transformer encoder that names a class (the encoder of Vaswani et al. 2017, pooled by attention as in Lin et al.
2017).

    x = e[w] + PE        x = x + MHA(LN(x))        x = x + FFN(LN(x))        class = softmax(W_c pool(LN(x)) + b_c)

How we differ from the paper: the norm stands before each part (pre-norm), which trains without a long warm-up. With
norm="post" it stands after each part and once after the embeddings, as in BERT, whose weights it can start from.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from torch import Tensor, nn

from regard.attention import positions
from regard.attention.positions.position_encoding import PositionEncoding
from regard.attention.token_positions import QueryKeyPositions
from regard.config import specs
from regard.config.validation import check_positive
from regard.layers import EncoderBlock, FeedForward, MultiHeadAttention, AttentionPooling
from regard.layers.activations import activation
from regard.layers.dropout import Dropout
from regard.layers.norm_placement import EPS, FIRST_NORMS, LAST_NORMS, RESIDUALS
from regard.models.classifier_output import ClassifierOutput


@dataclass(frozen=True)
class TransformerClassifierConfig:
    dim: int = 128
    layers: int = 2
    heads: int = 4
    hidden: int = 256
    mechanism: str = "dot"
    positions: str = "sinusoidal"
    dropout: float = 0.1
    norm: str = "pre"
    activation: str = "gelu"

    def build(self, vocab: int, classes: int) -> TransformerClassifier:
        check_positive("transformer", layers=self.layers)
        residual, eps = specs.find("norm", self.norm, RESIDUALS), EPS[self.norm]
        place = positions.build(self.positions, self.dim, self.heads)
        blocks = [
            EncoderBlock(
                MultiHeadAttention(self.dim, self.heads, self.mechanism, positions=place),
                FeedForward(self.dim, self.hidden, activation=activation(self.activation)),
                residual=residual,
                dropout=self.dropout,
                norm=partial(nn.LayerNorm, eps=eps),
            )
            for _ in range(self.layers)
        ]
        norms = FIRST_NORMS[self.norm](self.dim, eps), LAST_NORMS[self.norm](self.dim, eps)
        return TransformerClassifier(vocab, classes, self.dim, place, blocks, self.dropout, norms)


class TransformerClassifier(nn.Module):
    config_class = TransformerClassifierConfig

    def __init__(
        self,
        vocab: int,
        classes: int,
        dim: int,
        place: PositionEncoding,
        blocks: list[EncoderBlock],
        dropout: float,
        norms: tuple[nn.Module, nn.Module],
    ):
        super().__init__()
        self.embedding = nn.Embedding(vocab, dim, padding_idx=0)
        self.positions, self.layers = place, nn.ModuleList(blocks)
        self.first_norm, self.norm = norms
        self.pool, self.dropout = AttentionPooling(dim), Dropout(dropout)
        self.head = nn.Linear(dim, classes)

    def forward(self, ids: Tensor, mask: Tensor, sentences: Tensor | None = None) -> ClassifierOutput:
        """ids and mask (b, n); sentences are not used: every word may regard every other."""
        keys = None if mask.all() else mask
        x = self.dropout(self.first_norm(self.positions.embed(self.embedding(ids), range(ids.shape[1]))))
        for layer in self.layers:
            x = layer(x, mask=keys)
        document, _ = self.pool(self.norm(x), keys, QueryKeyPositions(range(1), range(ids.shape[1]), "document", "tokens"))
        return ClassifierOutput(self.head(self.dropout(document[:, 0])))
