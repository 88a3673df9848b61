"""BERT's objectives on blocks whose norm stands before each part (Xiong et al. 2020, On Layer Normalization in the
Transformer Architecture, section 3.1), which trains without a long warm-up.

    h_0 = E[w] + P + S[segment]        h_l = block_l(h_{l-1}), both ways        h = norm(h_L)
    masked word at t:  softmax(E word_norm(act(W h[t])) + b)        next sentence:  softmax(W' tanh(W_p h[0]))

    E: `embed`, tied with the masked-word head    P: `positions`    S: `segments`
    W: `word`    W_p: `pooler`    W': `next`

The heads are those of models/bert.py (Devlin et al. 2019). The layers are those of models/gpt.py, read both ways, and
of the classifier models/encoder.py, which can start from them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import positions
from regard.attention.masks import Mask
from regard.layers import EncoderBlock, FeedForward, MultiHeadAttention
from regard.layers.activations import activation
from regard.layers.dropout import Dropout
from regard.layers.typed_module_list import TypedModuleList
from regard.models.classifier_output import pick


@dataclass(frozen=True)
class PreLNBERTConfig:
    dim: int = 256
    hidden: int = 1024
    layers: int = 4
    heads: int = 4
    mechanism: str = "dot"
    positions: str = "learned:length=512"
    activation: str = "gelu"
    dropout: float = 0.1

    def build(self, vocab: int) -> PreLNBERT:
        return PreLNBERT(vocab, self)


class PreLNBERT(nn.Module):
    config_class = PreLNBERTConfig

    def __init__(self, vocab: int, config: PreLNBERTConfig):
        super().__init__()
        self.config = c = config
        self.embed, self.segments = nn.Embedding(vocab, c.dim), nn.Embedding(2, c.dim)
        self.positions = positions.build(c.positions, c.dim, c.heads)
        self.dropout = Dropout(c.dropout)
        self.layers = TypedModuleList[EncoderBlock](self._block() for _ in range(c.layers))
        self.norm, self.pooler = nn.LayerNorm(c.dim), nn.Linear(c.dim, c.dim)
        self.word, self.word_norm = nn.Linear(c.dim, c.dim), nn.LayerNorm(c.dim)
        self.word_bias = nn.Parameter(torch.zeros(vocab))
        self.next = nn.Linear(c.dim, 2)
        self._start()

    def forward(
        self,
        ids: Tensor,
        *,
        mask: Mask | Tensor | None = None,
        segments: Tensor | None = None,
        places: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Logits of the word at each place (b, n, vocab), or (k, vocab) at some places only, counted through all rows;
        and of whether the second sentence follows the first (b, 2)."""
        states = self.states(ids, mask=mask, segments=segments)
        follows = self.next(torch.tanh(self.pooler(states[:, 0])))
        return self.words(pick(states, places)), follows

    def states(self, ids: Tensor, *, mask: Mask | Tensor | None = None, segments: Tensor | None = None) -> Tensor:
        """ids (b, n) to what is known at each place of all places (b, n, dim). mask (b, n): True for what is real;
        segments (b, n): 0 for the first sentence, 1 for the second."""
        kind = self.segments.weight[0] if segments is None else self.segments(segments)
        x = self.dropout(self.positions.embed(self.embed(ids) + kind, range(ids.shape[1])))
        for layer in self.layers:
            x = layer(x, mask=mask)
        return self.norm(x)

    def words(self, states: Tensor) -> Tensor:
        x = self.word_norm(activation(self.config.activation)(self.word(states)))
        return F.linear(x, self.embed.weight, self.word_bias)

    def _block(self) -> EncoderBlock:
        c, inside = self.config, self.positions if self.positions.inside else None
        attention = MultiHeadAttention(c.dim, c.heads, c.mechanism, positions=inside)
        return EncoderBlock(
            attention, FeedForward(c.dim, c.hidden, activation=activation(c.activation)), dropout=c.dropout
        )

    def _start(self) -> None:
        """N(0, 0.02), as BERT; a mechanism starts its own projections."""
        for name, module in self.named_modules():
            if isinstance(module, (nn.Linear, nn.Embedding)) and ".mechanism." not in name:
                nn.init.normal_(module.weight, std=0.02)
                if isinstance(module, nn.Linear) and module.bias is not None:
                    nn.init.zeros_(module.bias)
