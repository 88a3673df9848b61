"""BERT (Devlin et al. 2019, Pre-training of Deep Bidirectional Transformers for Language Understanding).

    h_0 = norm(E[w] + P + S[segment])        h_l = block_l(h_{l-1}), both ways        (section 3, figure 2)
    masked word at t:  softmax(E norm(act(W h_L[t])) + b)                             (section 3.1, task 1)
    next sentence:     softmax(W' tanh(W_p h_L[0]))                                   (section 3.1, task 2)

    E: `embed`, tied with the masked-word head    P: `positions`    S: `segments`
    W: `word`    W_p: `pooler`    W': `next`

The blocks are those of Vaswani et al. 2017, the norm after each part. Differs: the attention's weights are not dropped
out, which would leave the fused kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import positions
from regard.attention.masks import Mask
from regard.layers import EncoderBlock, FeedForward, MultiHeadAttention, PostNorm
from regard.layers.activations import activation
from regard.layers.dropout import Dropout
from regard.layers.typed_module_list import TypedModuleList
from regard.models.classifier_output import pick

EPS = 1e-12


@dataclass(frozen=True)
class BERTConfig:
    """Sizes that a CPU trains; `BASE` is the paper's."""

    vocab: int = 30_522
    dim: int = 256
    hidden: int = 1024
    layers: int = 4
    heads: int = 4
    mechanism: str = "dot"
    positions: str = "learned:length=512"
    segments: int = 2
    activation: str = "gelu"
    dropout: float = 0.1

    def build(self, vocab: int) -> BERT:
        return BERT(replace(self, vocab=vocab))


BASE = BERTConfig(dim=768, hidden=3072, layers=12, heads=12)


class BERT(nn.Module):
    config_class = BERTConfig

    def __init__(self, config: BERTConfig):
        super().__init__()
        self.config = c = config
        self.embed = nn.Embedding(c.vocab, c.dim)
        self.positions = positions.build(c.positions, c.dim, c.heads)
        self.segments = nn.Embedding(c.segments, c.dim)
        self.norm, self.dropout = nn.LayerNorm(c.dim, EPS), Dropout(c.dropout)
        self.layers = TypedModuleList[EncoderBlock](self._block() for _ in range(c.layers))
        self.pooler = nn.Linear(c.dim, c.dim)
        self.word, self.word_norm = nn.Linear(c.dim, c.dim), nn.LayerNorm(c.dim, EPS)
        self.word_bias = nn.Parameter(torch.zeros(c.vocab))
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
        return self.words(pick(states, places)), self.next(self.pool(states))

    def states(self, ids: Tensor, *, mask: Mask | Tensor | None = None, segments: Tensor | None = None) -> Tensor:
        """ids (b, n) to what is known at each place of all places (b, n, dim). mask (b, n): True for what is real;
        segments (b, n): 0 for the first sentence, 1 for the second."""
        kind = self.segments.weight[0] if segments is None else self.segments(segments)
        x = self.positions.embed(self.embed(ids) + kind, range(ids.shape[1]))
        x = self.dropout(self.norm(x))
        for layer in self.layers:
            x = layer(x, mask=mask)
        return x

    def pool(self, states: Tensor) -> Tensor:
        """The whole text as one vector, from its first place: (b, dim)."""
        return torch.tanh(self.pooler(states[:, 0]))

    def words(self, states: Tensor) -> Tensor:
        """States (..., dim), of all places or of the masked ones only, to logits (..., vocab)."""
        x = self.word_norm(activation(self.config.activation)(self.word(states)))
        return F.linear(x, self.embed.weight, self.word_bias)

    def _block(self) -> EncoderBlock:
        c = self.config
        inside = self.positions if self.positions.inside else None
        attention = MultiHeadAttention(c.dim, c.heads, c.mechanism, positions=inside)
        feed = FeedForward(c.dim, c.hidden, activation=activation(c.activation))
        norm = partial(nn.LayerNorm, eps=EPS)
        return EncoderBlock(attention, feed, residual=PostNorm, dropout=c.dropout, norm=norm)

    def _start(self) -> None:
        """N(0, 0.02), as the paper's code does; a mechanism starts its own projections."""
        for name, module in self.named_modules():
            if isinstance(module, (nn.Linear, nn.Embedding)) and ".mechanism." not in name:
                nn.init.normal_(module.weight, std=0.02)
                if isinstance(module, nn.Linear) and module.bias is not None:
                    nn.init.zeros_(module.bias)
