"""A GPT that embeds n-grams of tokens too: `regard.models.gpt` with `regard.layers.ngram_embedding`.

    h_0 = E[w_t] + Σ_k E_k[w_{t-k+1} .. w_t] + P        the rest as in GPT; the head is tied with E alone

Table lookups need no matrix products, so a step is hardly slower, and the first layer already knows the neighbours.

With `cutoffs` the head is an adaptive softmax (Grave et al. 2017, Efficient softmax approximation for GPUs), for large
vocabularies of whole words that are sorted by frequency. Cutoffs (2000, 8000) make three groups: the frequent words,
and two groups with half and a quarter of the width, which have one entry each among the frequent words. It is exact:
probabilities sum to one.

    P(w) = P(w | frequent words and groups)               for a frequent w
    P(w) = P(group of w | ...) P(w | group)               otherwise
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.token_positions import PositionIds
from regard.errors import UserError
from regard.layers.cost_formulas import PartCosts, linear_cost, params_cost
from regard.layers.ngram_embedding import NGramEmbedding
from regard.models.gpt import GPT, GPTConfig


@dataclass(frozen=True)
class NGramGPTConfig(GPTConfig):
    """Options of GPT and of the n-gram tables.

    Attributes:
        ngrams: Length of the longest n-gram that has an embedding.
        table_size: Rows of the table of each n-gram length, at most.
        cutoffs: Where the vocabulary is cut for the adaptive softmax; empty for a plain softmax.
    """

    positions: str = "rotary"
    bias: bool = False
    ngrams: int = 3
    table_size: int = 16_384
    cutoffs: tuple[int, ...] = ()


class NGramGPT(GPT):
    """Causal Transformer language model with n-gram embeddings.

    Args:
        vocab_size: Size of the vocabulary.
        config: The options; or pass fields of `NGramGPTConfig` as keywords.
    """

    config_class = NGramGPTConfig
    config: NGramGPTConfig

    def __init__(self, vocab_size: int, config: NGramGPTConfig | None = None, **options: Any):
        super().__init__(vocab_size, config, **options)
        c = self.config
        if list(c.cutoffs) != sorted({cutoff for cutoff in c.cutoffs if 0 < cutoff < vocab_size}):
            raise UserError(
                f"cutoffs must be increasing and between 0 and the vocabulary size {vocab_size:,}, not {c.cutoffs}"
            )
        self.ngrams = NGramEmbedding(vocab_size, c.dim, max_n=c.ngrams, table_size=c.table_size)
        self.embedding_lookback = c.ngrams - 1
        self.adaptive = (
            nn.AdaptiveLogSoftmaxWithLoss(c.dim, vocab_size, c.cutoffs, div_value=2.0) if c.cutoffs else None
        )

    def embed_tokens(self, ids: Tensor, previous_ids: Tensor | None = None) -> Tensor:
        return self.embed(ids) + self.ngrams(ids, previous_ids)

    def head(self, states: Tensor) -> Tensor:
        """Hidden states (..., dim) to logits (..., vocab); log-probabilities with an adaptive softmax."""
        if self.adaptive is None:
            return super().head(states)
        return self.adaptive.log_prob(states.flatten(0, -2)).view(*states.shape[:-1], -1)

    def forward(
        self,
        ids: Tensor,
        *,
        mask: Tensor | None = None,
        position_ids: PositionIds | None = None,
        logits_at: Tensor | None = None,
        targets: Tensor | None = None,
    ) -> Tensor:
        """As in GPT.

        With `targets` (b, n), the next tokens, it returns -log P of each (b, n). An adaptive softmax then computes the
        groups of the targets only.
        """
        if targets is None:
            return super().forward(ids, mask=mask, position_ids=position_ids, logits_at=logits_at)
        states = self.hidden_states(ids, mask=mask, position_ids=position_ids).flatten(0, 1)
        if self.adaptive is None:
            return F.cross_entropy(self.head(states), targets.flatten(), reduction="none").view_as(targets)
        return -self.adaptive(states, targets.flatten()).output.view_as(targets)

    def cost_parts(self, n: int, m: int) -> PartCosts:
        yield params_cost("n-grams", self.ngrams)
        if self.adaptive is None:
            yield from super().cost_parts(n, m)
            return
        yield from self.body_costs(n)
        yield linear_cost("frequent words and groups", self.adaptive.head, n)
        for i, (down, up) in enumerate(self.adaptive.tail):  # type: ignore[misc]
            yield linear_cost(f"group {i + 1}: projection", down, n)
            yield linear_cost(f"group {i + 1}: words", up, n)
