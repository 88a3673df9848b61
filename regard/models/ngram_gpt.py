"""A GPT that is told its last words as pairs, triples, ...: `regard.models.gpt` with `regard.layers.NGramEmbedding`.

    h_0 = E[w_t] + Σ_k E_k[w_{t-k+1} .. w_t] + P        the rest as in GPT; the head is tied with E alone

Tables cost no products, so a step is hardly slower, and what neighbours say is known from the first layer on.

With `cuts` the head is an adaptive softmax (Grave et al. 2017, Efficient softmax approximation for GPUs), which is for
large vocabularies of whole words, numbered by how frequent they are: (2000, 8000) makes three groups, the frequent
words and one entry for each of the others, which have half and a quarter of the width. It is exact: chances sum to one.

    P(w) = P(w | frequent or groups)                      for frequent w
    P(w) = P(group of w | ...) P(w | group)               else
"""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.masks import Mask
from regard.attention.token_positions import PositionIds
from regard.errors import UserError
from regard.layers.ngram_embedding import NGramEmbedding
from regard.models import gpt


@dataclass(frozen=True)
class NGramGPTConfig:
    """`ngrams` is the longest that has a vector; each length has a `table` of so many, at most; `cuts` parts the
    vocabulary for the head."""

    dim: int = 256
    layers: int = 4
    heads: int = 4
    hidden: int | None = None
    mechanism: str = "dot"
    positions: str = "rotary"
    dropout: float = 0.0
    ngrams: int = 3
    table: int = 16_384
    cuts: tuple[int, ...] = ()

    def build(self, vocab: int) -> NGramGPT:
        shape = {name: getattr(self, name) for name in ("dim", "layers", "heads", "hidden", "mechanism", "positions")}
        config = gpt.GPTConfig(vocab, **shape, bias=False, dropout=self.dropout)
        return NGramGPT(config, self.ngrams, self.table, self.cuts)


class NGramGPT(gpt.GPT):
    config_class = NGramGPTConfig

    def __init__(self, config: gpt.GPTConfig, ngrams: int, table: int, cuts: tuple[int, ...] = ()):
        super().__init__(config)
        if list(cuts) != sorted({c for c in cuts if 0 < c < config.vocab}):
            raise UserError(f"cuts must rise and lie in the vocabulary of {config.vocab:,}, and {cuts} was given")
        self.ngrams = NGramEmbedding(config.vocab, config.dim, most=ngrams, table=table)
        self.reach = ngrams - 1
        self.adaptive = nn.AdaptiveLogSoftmaxWithLoss(config.dim, config.vocab, cuts, div_value=2.0) if cuts else None

    def words(self, ids: Tensor, before: Tensor | None = None) -> Tensor:
        return self.embed(ids) + self.ngrams(ids, before)

    def head(self, states: Tensor) -> Tensor:
        """Logits; of an adaptive softmax log P(w), which are such logits too."""
        if self.adaptive is None:
            return super().head(states)
        return self.adaptive.log_prob(states.flatten(0, -2)).view(*states.shape[:-1], -1)

    def forward(
        self,
        ids: Tensor,
        *,
        mask: Mask | Tensor | None = None,
        position_ids: PositionIds | None = None,
        places: Tensor | None = None,
        targets: Tensor | None = None,
    ) -> Tensor:
        """As in GPT. With targets (b, n), the words that follow, -log P of each: an adaptive softmax then looks into
        their groups alone."""
        if targets is None:
            return super().forward(ids, mask=mask, position_ids=position_ids, places=places)
        states, wanted = self.states(ids, mask=mask, position_ids=position_ids).flatten(0, 1), targets.flatten()
        if self.adaptive is None:
            return F.cross_entropy(self.head(states), wanted, reduction="none").view_as(targets)
        return -self.adaptive(states, wanted).output.view_as(targets)
