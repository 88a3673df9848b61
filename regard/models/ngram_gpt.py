"""A GPT that is told its last words as pairs, triples, ...: `regard.models.gpt` with `regard.layers.NGramEmbedding`.

    h_0 = E[w_t] + Σ_k E_k[w_{t-k+1} .. w_t] + P        the rest as in GPT; the head is tied with E alone

Tables cost no products, so a step is hardly slower, and what neighbours say is known from the first layer on.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from regard.layers.ngram_embedding import NGramEmbedding
from regard.models import gpt


@dataclass(frozen=True)
class Config:
    """`ngrams` is the longest that has a vector; each length has a `table` of so many, at most."""

    dim: int = 256
    layers: int = 4
    heads: int = 4
    hidden: int | None = None
    mechanism: str = "dot"
    positions: str = "rotary"
    dropout: float = 0.0
    ngrams: int = 3
    table: int = 16_384

    def build(self, vocab: int) -> NGramGPT:
        shape = {name: getattr(self, name) for name in ("dim", "layers", "heads", "hidden", "mechanism", "positions")}
        return NGramGPT(gpt.Config(vocab, **shape, bias=False, dropout=self.dropout), self.ngrams, self.table)


class NGramGPT(gpt.GPT):
    def __init__(self, config: gpt.Config, ngrams: int, table: int):
        super().__init__(config)
        self.ngrams = NGramEmbedding(config.vocab, config.dim, most=ngrams, table=table)
        self.reach = ngrams - 1

    def words(self, ids: Tensor, before: Tensor | None = None) -> Tensor:
        return self.embed(ids) + self.ngrams(ids, before)
