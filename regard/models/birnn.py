"""The blank language model on two recurrent nets: each word from the words before it and the words after it.

    h→[t] = RNN→(h→[t-1], e[w_t])      h←[t] = RNN←(h←[t+1], e[w_t])
    P(w_t) = softmax over w of  e[w] · (W→ h→[t-1] + W← h←[t+1]) + b[w]

    e: `embed`, tied with the head    RNN→, RNN←: `read.onward`, `read.back`    W→, W←: `before`, `after`    b: `bias`

What is said of w_t never looks at w_t: the forward net has not read it yet and the backward net neither. The two are
separate stacks, since stacked bidirectional layers would leak it: their second layer has read both sides. Before the
first word and after the last a net stands at `start` (one learned state a side).

With `subword_buckets` rows e knows the letters of a word as well (`regard.layers.subword_embedding`): rare words learn from others that
are written alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.config.validation import check_positive
from regard.layers import BidirectionalRNN
from regard.layers.dropout import Dropout
from regard.layers.subword_embedding import SubwordEmbedding, spelt
from regard.models.classifier_output import pick


@dataclass(frozen=True)
class BiRNNConfig:
    dim: int = 256
    hidden: int = 256
    layers: int = 1
    cell: str = "lstm"
    dropout: float = 0.1
    subword_buckets: int = 0

    def build(self, vocab: int) -> BiRNN:
        check_positive("birnn", dim=self.dim, hidden=self.hidden, layers=self.layers)
        return BiRNN(vocab, self)


class BiRNN(nn.Module):
    config_class = BiRNNConfig

    def __init__(self, vocab: int, config: BiRNNConfig):
        super().__init__()
        self.config = c = config
        self.embed = nn.Embedding(vocab, c.dim)
        self.subwords = SubwordEmbedding(vocab, c.subword_buckets, c.dim) if c.subword_buckets else None
        self.read = BidirectionalRNN(c.dim, c.hidden, c.cell, c.layers, c.dropout)
        self.start = nn.Parameter(torch.zeros(2, c.hidden))
        self.before, self.after = nn.Linear(c.hidden, c.dim), nn.Linear(c.hidden, c.dim, bias=False)
        self.bias = nn.Parameter(torch.zeros(vocab))
        self.dropout = Dropout(c.dropout)
        nn.init.normal_(self.embed.weight, std=0.02 if c.dim > 64 else 0.1)

    def set_vocabulary(self, words: Sequence[str]) -> None:
        if self.subwords is not None:
            self.subwords.spell(words)

    def look_up(self, ids: Tensor) -> Tensor:
        """e of each word, ids (...) to (..., dim)."""
        return self.embed(ids) if self.subwords is None else self.embed(ids) + self.subwords(ids)

    def forward(
        self,
        ids: Tensor,
        *,
        mask: Tensor | None = None,
        places: Tensor | None = None,
        targets: Tensor | None = None,
        others: Tensor | None = None,
        weight: Tensor | None = None,
    ) -> Tensor:
        """ids (b, n) to logits of the word at each place (b, n, vocab), or (k, vocab) at some places only, counted
        through all rows. mask (b, n): True for what is real; padding stands at the end.

        With others (S,), words that do not come twice, and the log of how many words each stands for: -log P of the
        targets (k,) among these alone."""
        if targets is None or others is None or weight is None:
            return self.words(pick(self.states(ids, mask=mask), places))
        words, at = torch.cat((ids.flatten(), targets, others)).unique(return_inverse=True)
        at, these, those = at.split((ids.numel(), len(targets), len(others)))
        few = self.look_up(words)  # once for all three
        states = pick(self._states(F.embedding(at.view_as(ids), few), mask), places)
        right = (states * F.embedding(these, few)).sum(-1) + self.bias[targets]
        wrong = F.linear(states, F.embedding(those, few), self.bias[others] + weight)
        wrong = wrong.masked_fill(targets[:, None] == others, -torch.inf)
        return torch.logaddexp(right, wrong.logsumexp(-1)) - right

    def states(self, ids: Tensor, *, mask: Tensor | None = None) -> Tensor:
        """What is known of each place from the others, (b, n, dim)."""
        return self._states(self.look_up(ids), mask)

    def _states(self, x: Tensor, mask: Tensor | None) -> Tensor:
        b, n, _ = x.shape
        lengths = torch.full((b,), n, device=x.device) if mask is None else mask.sum(1)
        h = self.read(self.dropout(x), lengths)
        onward, back = h.chunk(2, -1)
        first, last = (side.expand(b, 1, -1) for side in self.start)
        before = torch.cat((first, onward[:, :-1]), 1)
        after = torch.cat((back[:, 1:], last), 1)
        at_end = torch.arange(n, device=x.device) == lengths[:, None] - 1
        after = torch.where(at_end[..., None], last, after)  # what the backward net says in the padding is not asked
        return self.before(self.dropout(before)) + self.after(self.dropout(after))

    def words(self, states: Tensor) -> Tensor:
        every = self.embed.weight
        if self.subwords is not None:
            every = every + spelt(self.subwords.pieces.weight, self.subwords.runs)
        return F.linear(states, every, self.bias)
