"""A reader that points: attention over the words of a sentence is the answer (Vinyals et al. 2015, Pointer Networks;
start and end of a span as in Wang & Jiang 2017, Machine Comprehension Using Match-LSTM and Answer Pointer, 3.3, the
boundary model).

    x = e[w] + shape[w] + own[w]        x = blocks([BOS] question [SEP] sentence), both ways
    start, end = softmax(W_2 tanh(W_1 xᵀ)) over the sentence and [BOS]          P(span) = start[s] · end[e]

Two hops of pooling by attention (`regard.layers.Pool`), so that what is pointed at is recorded as any attention is.
[BOS] says that the sentence does not hold the answer. Words are few and known by how they are written: `shape` is the
kind of letters, `own` whether the word is part of the person's name, so that a place never seen is still a place.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from regard.attention import positions
from regard.attention.masks import Mask
from regard.attention.token_positions import QueryKeyPositions
from regard.layers import EncoderBlock, FeedForward, MultiHeadAttention, AttentionPooling, PreNorm
from regard.layers.typed_module_list import TypedModuleList

SHAPES = 8


@dataclass(frozen=True)
class SpanReaderConfig:
    dim: int = 128
    layers: int = 2
    heads: int = 4
    hidden: int = 256
    mechanism: str = "dot"
    positions: str = "rotary"
    dropout: float = 0.2

    def build(self, vocab: int) -> SpanReader:
        return SpanReader(self, vocab)


class SpanReader(nn.Module):
    config_class = SpanReaderConfig

    def __init__(self, config: SpanReaderConfig, vocab: int):
        super().__init__()
        c = config
        self.embed = nn.Embedding(vocab, c.dim, padding_idx=0)
        self.shape, self.own = nn.Embedding(SHAPES, c.dim), nn.Embedding(2, c.dim)
        self.positions = positions.build(c.positions, c.dim, c.heads)
        inside = self.positions if self.positions.inside else None
        self.layers = TypedModuleList[EncoderBlock](
            EncoderBlock(
                MultiHeadAttention(c.dim, c.heads, c.mechanism, positions=inside),
                FeedForward(c.dim, c.hidden),
                residual=PreNorm,
                dropout=c.dropout,
            )
            for _ in range(c.layers)
        )
        self.norm, self.dropout = nn.LayerNorm(c.dim), nn.Dropout(c.dropout)
        self.point = AttentionPooling(c.dim, hops=2)
        for table in (self.embed, self.shape, self.own):
            nn.init.normal_(table.weight, std=0.1)

    def forward(self, ids: Tensor, shapes: Tensor, own: Tensor, mask: Tensor, allowed: Tensor) -> Tensor:
        """ids, shapes, own, mask (real) and allowed (may be pointed at), all (b, n), to the chances of the first and
        of the last word of the answer, (b, 2, n)."""
        n = ids.shape[1]
        x = self.embed(ids) + self.shape(shapes) + self.own(own)
        x = self.dropout(self.positions.embed(x, range(n)))
        keys = None if mask.all() else mask
        for layer in self.layers:
            x = layer(x, mask=keys)
        x = self.norm(x)
        _, scores = self.point(x, allowed, QueryKeyPositions(range(2), range(n), "start and end", "words"))
        return scores.weights(Mask(key_mask=allowed))[:, 0]
