"""The cloze language model on two recurrent networks: each token from the tokens before it and after it.

    h→[t] = RNN→(h→[t-1], e[w_t])      h←[t] = RNN←(h←[t+1], e[w_t])
    P(w_t) = softmax over w of  e[w] · (W→ h→[t-1] + W← h←[t+1]) + b[w]

    e: `embed`, tied with the head    RNN→, RNN←: `rnn`    W→, W←: `before`, `after`    b: `bias`

The prediction of w_t never depends on w_t: the forward network has not read it yet, and neither has the backward
network. The two are separate stacks, because stacked bidirectional layers would leak it: their second layer has read
both sides. Before the first token and after the last one there is a learned state (`start`).

With `subword_buckets` e also knows the characters of a word (`regard.layers.subword_embedding`): rare words learn from
others with a similar spelling.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.config.validation import check_positive
from regard.layers import BidirectionalRNN
from regard.layers.cost_formulas import PartCost, PartCosts, birnn_costs, linear_cost, matmul_cost, params_cost
from regard.layers.dropout import Dropout
from regard.layers.subword_embedding import SubwordEmbedding, sum_ngrams
from regard.models.classifier_output import select_positions
from regard.models.configured_model import ConfiguredModel, ModelConfig


@dataclass(frozen=True)
class BiRNNConfig(ModelConfig):
    """Options of the bidirectional recurrent language model.

    Attributes:
        cell: "lstm" or "gru".
        subword_buckets: Rows of the table of character n-grams; 0 for none.
    """

    dim: int = 256
    hidden: int = 256
    layers: int = 1
    cell: str = "lstm"
    dropout: float = 0.1
    subword_buckets: int = 0


class BiRNN(ConfiguredModel[BiRNNConfig]):
    """Bidirectional recurrent language model that predicts each token from both sides.

    Args:
        vocab_size: Size of the vocabulary.
        config: The options; or pass fields of `BiRNNConfig` as keywords.
    """

    config_class = BiRNNConfig

    def __init__(self, vocab_size: int, config: BiRNNConfig | None = None, **options: Any):
        super().__init__(config, options)
        c = self.config
        check_positive("birnn", dim=c.dim, hidden=c.hidden, layers=c.layers)
        self.embed = nn.Embedding(vocab_size, c.dim)
        self.subwords = SubwordEmbedding(vocab_size, c.subword_buckets, c.dim) if c.subword_buckets else None
        self.rnn = BidirectionalRNN(c.dim, c.hidden, c.cell, c.layers, c.dropout)
        self.start = nn.Parameter(torch.zeros(2, c.hidden))
        self.before, self.after = nn.Linear(c.hidden, c.dim), nn.Linear(c.hidden, c.dim, bias=False)
        self.bias = nn.Parameter(torch.zeros(vocab_size))
        self.dropout = Dropout(c.dropout)
        nn.init.normal_(self.embed.weight, std=0.02 if c.dim > 64 else 0.1)

    def set_vocabulary(self, words: Sequence[str]) -> None:
        """Tell the subword embedding how each token is written; "" for special tokens."""
        if self.subwords is not None:
            self.subwords.set_words(words)

    def embed_tokens(self, ids: Tensor) -> Tensor:
        """Token ids (...) to embeddings (..., dim)."""
        return self.embed(ids) if self.subwords is None else self.embed(ids) + self.subwords(ids)

    def forward(
        self,
        ids: Tensor,
        *,
        mask: Tensor | None = None,
        logits_at: Tensor | None = None,
        targets: Tensor | None = None,
        negatives: Tensor | None = None,
        log_weights: Tensor | None = None,
    ) -> Tensor:
        """Logits of the token at each position.

        Args:
            ids: Token ids, (b, n).
            mask: True for real tokens, (b, n), padding at the end; None if there is no padding.
            logits_at: Flat indices (k,) of the positions whose logits are wanted.
            targets: The tokens at these positions, (k,), for a sampled softmax.
            negatives: Distinct sampled tokens, (s,).
            log_weights: Log of the number of tokens that each negative stands for, (s,).

        Returns:
            Logits (b, n, vocab), or (k, vocab) with `logits_at`. With `targets`, `negatives` and `log_weights`:
            -log P of each target among the negatives, (k,).
        """
        if targets is None or negatives is None or log_weights is None:
            return self.token_logits(select_positions(self.hidden_states(ids, mask=mask), logits_at))
        unique_ids, rows = torch.cat((ids.flatten(), targets, negatives)).unique(return_inverse=True)
        rows, target_rows, negative_rows = rows.split((ids.numel(), len(targets), len(negatives)))
        vectors = self.embed_tokens(unique_ids)  # once for all three
        states = select_positions(self._encode(F.embedding(rows.view_as(ids), vectors), mask), logits_at)
        target_logits = (states * F.embedding(target_rows, vectors)).sum(-1) + self.bias[targets]
        negative_logits = F.linear(states, F.embedding(negative_rows, vectors), self.bias[negatives] + log_weights)
        negative_logits = negative_logits.masked_fill(targets[:, None] == negatives, -torch.inf)
        return torch.logaddexp(target_logits, negative_logits.logsumexp(-1)) - target_logits

    def hidden_states(self, ids: Tensor, *, mask: Tensor | None = None) -> Tensor:
        """A vector for each position from all other positions, (b, n, dim)."""
        return self._encode(self.embed_tokens(ids), mask)

    def _encode(self, x: Tensor, mask: Tensor | None) -> Tensor:
        b, n, _ = x.shape
        lengths = torch.full((b,), n, device=x.device) if mask is None else mask.sum(1)
        forward_states, backward_states = self.rnn(self.dropout(x), lengths).chunk(2, -1)
        first, last = (state.expand(b, 1, -1) for state in self.start)
        before = torch.cat((first, forward_states[:, :-1]), 1)
        after = torch.cat((backward_states[:, 1:], last), 1)
        is_last = torch.arange(n, device=x.device) == lengths[:, None] - 1
        after = torch.where(is_last[..., None], last, after)  # not the backward state of the padding
        return self.before(self.dropout(before)) + self.after(self.dropout(after))

    def token_logits(self, states: Tensor) -> Tensor:
        """Hidden states (..., dim) to logits (..., vocab)."""
        embeddings = self.embed.weight
        if self.subwords is not None:
            embeddings = embeddings + sum_ngrams(self.subwords.buckets.weight, self.subwords.ngrams)
        return F.linear(states, embeddings, self.bias)

    def cost_parts(self, n: int, m: int) -> PartCosts:
        vocab_size, dim = self.embed.weight.shape
        yield params_cost("embeddings (tied with the head)", self.embed)
        yield params_cost("subwords", self.subwords)
        yield from birnn_costs("rnn", self.rnn, n)
        yield PartCost("start", self.start.numel())
        yield linear_cost("before", self.before, n)
        yield linear_cost("after", self.after, n)
        yield matmul_cost("head", n, dim, vocab_size, self.bias.numel())
