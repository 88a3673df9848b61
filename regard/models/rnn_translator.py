"""The recurrent encoder-decoder with attention (Bahdanau et al. 2015, Neural Machine Translation by Jointly Learning to
Align and Translate; scores and the plain decoder: Luong et al. 2015).

    s = [RNN→(e[x]); RNN←(e[x])]        h[0] = tanh(W mean(s))        o[t] from h, V and w: rnn_decoders.py
    P(w_{t+1}) = softmax over w of  e[w] · o[t] + b[w]

    e: `embed`, one table for both sides and the head    RNN→, RNN←: `read`    W: `first`    o: `decoder`    b: `bias`

The query is the decoder's state; keys and values are made of the encoder's states, which are read once. Differs from
the paper: a tanh layer where it has maxout; any score by name (additive is the paper's); `input_feeding=False` attends after
the state and not before it, and then all steps at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.kv_cache import KVCache
from regard.config.validation import check_positive
from regard.errors import UserError
from regard.layers import MultiHeadAttention, BidirectionalRNN
from regard.layers.dropout import Dropout
from regard.models.classifier_output import pick
from regard.models.rnn_decoders import DECODERS, State


@dataclass(frozen=True)
class RNNTranslatorConfig:
    """`hidden` is the width of the decoder, and of the encoder on each side."""

    dim: int = 256
    hidden: int = 256
    layers: int = 1
    heads: int = 1
    cell: str = "gru"
    mechanism: str = "additive"
    input_feeding: bool = False
    dropout: float = 0.3

    def build(self, vocab: int) -> RNNTranslator:
        check_positive("rnn", dim=self.dim, hidden=self.hidden, layers=self.layers, heads=self.heads)
        return RNNTranslator(vocab, self)


class RNNTranslator(nn.Module):
    config_class = RNNTranslatorConfig

    def __init__(self, vocab: int, config: RNNTranslatorConfig):
        super().__init__()
        self.config = c = config
        self.embed = nn.Embedding(vocab, c.dim)
        self.bias = nn.Parameter(torch.zeros(vocab))
        self.dropout = Dropout(c.dropout)
        self.read_both = BidirectionalRNN(c.dim, c.hidden, c.cell, c.layers, c.dropout)
        attention = MultiHeadAttention(c.hidden, c.heads, c.mechanism, context_dim=2 * c.hidden, output=False)
        if not attention.mechanism.supports_cross_attention:
            raise UserError(f"mechanism {c.mechanism!r} cannot regard another sequence; additive, bilinear and dot can")
        self.first = nn.Linear(2 * c.hidden, c.layers * c.hidden)
        self.decoder = DECODERS[c.input_feeding](c.dim, attention, c.cell, c.layers, c.dropout)
        nn.init.normal_(self.embed.weight, std=c.dim**-0.5)

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        *,
        source_mask: Tensor | None = None,
        target_mask: Tensor | None = None,
        places: Tensor | None = None,
    ) -> Tensor:
        """source (b, m), target (b, n) to logits of the next target word (b, n, vocab), or (k, vocab) of some places
        only, counted through all rows. Masks: True for what is real, padding at the end; that of the target hides
        nothing, since no word looks ahead."""
        memory, start = self.read(self.encode(source, mask=source_mask), mask=source_mask)
        return self.decode(target, memory, start, places=places)

    def encode(self, ids: Tensor, *, mask: Tensor | None = None) -> Tensor:
        """What is known at each place of the source, (b, m, 2 · hidden)."""
        lengths = ids.new_full(ids.shape[:1], ids.shape[1]) if mask is None else mask.sum(1)
        return self.dropout(self.read_both(self.dropout(self.embed(ids)), lengths))

    def read(self, states: Tensor, *, mask: Tensor | None = None) -> tuple[KVCache, State]:
        """The source as the decoder regards it, and the state it starts in."""
        real = torch.ones(states.shape[:2], dtype=torch.bool, device=states.device) if mask is None else mask
        mean = states.masked_fill(~real[..., None], 0.0).sum(1) / real.sum(1, keepdim=True).clamp(min=1)
        h = torch.tanh(self.first(mean)).unflatten(1, (self.config.layers, -1)).transpose(0, 1).contiguous()
        start = (h, torch.zeros_like(h)) if self.config.cell == "lstm" else (h,)
        return self.decoder.attention.project_kv(states, mask=mask), start

    def decode(self, ids: Tensor, source: KVCache, start: State, *, places: Tensor | None = None) -> Tensor:
        """All target places at once, (b, n) to (b, n, vocab)."""
        return self.head(pick(self.decoder(self.dropout(self.embed(ids)), source, start)[0], places))

    def step(self, ids: Tensor, source: KVCache, state: State, at: int) -> tuple[Tensor, State]:
        """The next word of each target (b,), the one numbered `at`, to logits (b, vocab) and the state after it."""
        said, state = self.decoder.step(self.embed(ids), source, state, at)
        return self.head(said), state

    def head(self, said: Tensor) -> Tensor:
        return F.linear(said, self.embed.weight, self.bias)
