"""A span reader for extractive question answering: attention over the words of a sentence is the answer (Vinyals et
al. 2015, Pointer Networks; start and end of a span as in Wang & Jiang 2017, Machine Comprehension Using Match-LSTM and
Answer Pointer, 3.3, the boundary model).

    x = e[w] + shape[w] + in_name[w]        x = blocks([BOS] question [SEP] sentence), bidirectional
    start, end = softmax(W_2 tanh(W_1 xᵀ)) over the sentence and [BOS]          P(span) = start[s] · end[e]

The two distributions are the hops of an `AttentionPooling`, so that they are recorded like any attention. [BOS] means
that the sentence does not contain the answer. The vocabulary is small; unknown words are known by `shape`, the kind of
their characters, and by `in_name`, whether the word is part of the person's name. So an unseen place is still a place.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

from regard.attention import positions
from regard.attention.masks import Mask
from regard.attention.token_positions import QueryKeyPositions
from regard.layers import AttentionPooling, EncoderBlock, FeedForward, MultiHeadAttention, PreNorm
from regard.layers.cost_formulas import PartCosts, encoder_block_costs, params_cost, pooling_cost
from regard.layers.typed_module_list import TypedModuleList
from regard.models.configured_model import ConfiguredModel, ModelConfig

NUM_SHAPES = 8


@dataclass(frozen=True)
class SpanReaderConfig(ModelConfig):
    """Options of the span reader. `hidden` is the width of the feed-forward network."""

    dim: int = 128
    layers: int = 2
    heads: int = 4
    hidden: int = 256
    mechanism: str = "dot"
    positions: str = "rotary"
    dropout: float = 0.2


class SpanReader(ConfiguredModel[SpanReaderConfig]):
    """Transformer encoder that points at the start and the end of the answer.

    Args:
        vocab_size: Size of the vocabulary.
        config: The options; or pass fields of `SpanReaderConfig` as keywords.
    """

    config_class = SpanReaderConfig

    def __init__(self, vocab_size: int, config: SpanReaderConfig | None = None, **options: Any):
        super().__init__(config, options)
        c = self.config
        self.embed = nn.Embedding(vocab_size, c.dim, padding_idx=0)
        self.shape, self.in_name = nn.Embedding(NUM_SHAPES, c.dim), nn.Embedding(2, c.dim)
        self.positions = positions.build(c.positions, c.dim, c.heads)
        self.layers = TypedModuleList[EncoderBlock](
            EncoderBlock(
                MultiHeadAttention(c.dim, c.heads, c.mechanism, positions=self.positions.in_attention),
                FeedForward(c.dim, c.hidden),
                residual=PreNorm,
                dropout=c.dropout,
            )
            for _ in range(c.layers)
        )
        self.norm, self.dropout = nn.LayerNorm(c.dim), nn.Dropout(c.dropout)
        self.span_pool = AttentionPooling(c.dim, hops=2)
        for table in (self.embed, self.shape, self.in_name):
            nn.init.normal_(table.weight, std=0.1)

    def forward(
        self,
        ids: Tensor,
        shapes: Tensor,
        in_name: Tensor,
        mask: Tensor | None = None,
        answer_mask: Tensor | None = None,
    ) -> Tensor:
        """Probabilities of the first and of the last word of the answer.

        Args:
            ids: Token ids, (b, n).
            shapes: Character kind of each token, below `NUM_SHAPES`, (b, n).
            in_name: 1 for tokens of the person's name, else 0, (b, n).
            mask: True for real tokens, (b, n); None if there is no padding.
            answer_mask: True for tokens that may be the answer, (b, n); None for all.

        Returns:
            Probabilities (b, 2, n).
        """
        n = ids.shape[1]
        x = self.embed(ids) + self.shape(shapes) + self.in_name(in_name)
        x = self.dropout(self.positions.embed(x, range(n)))
        key_mask = None if mask is None or mask.all() else mask
        for layer in self.layers:
            x = layer(x, key_mask=key_mask)
        qk_positions = QueryKeyPositions(range(2), range(n), "start and end", "words")
        answer_mask = mask if answer_mask is None else answer_mask
        _, scores = self.span_pool(self.norm(x), answer_mask, qk_positions)
        return scores.weights(Mask(key_mask=answer_mask))[:, 0]

    def cost_parts(self, n: int, m: int) -> PartCosts:
        yield params_cost("embeddings", self.embed, self.shape, self.in_name)
        yield params_cost("positions", self.positions)
        for i, block in enumerate(self.layers):
            yield from encoder_block_costs(f"layers.{i}", block, n)
        yield params_cost("norm", self.norm)
        pooling = pooling_cost("span_pool", self.span_pool, n)
        weighted_sum = 2 * n * self.span_pool.context.out_features * self.span_pool.project.in_features
        yield replace(pooling, backward=pooling.backward - 2 * weighted_sum)  # only the weights are used
