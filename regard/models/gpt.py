"""GPT (Radford et al. 2018, Improving Language Understanding by Generative Pre-Training, 3.1; Radford et al. 2019,
Language Models are Unsupervised Multitask Learners, 2.3: the norm stands before each part, and once more at the end).

    h_0 = E[w] + P            h_l = block_l(h_{l-1}), causal            P(w_{t+1}) = softmax(E norm(h_L)[t])

    E: `embed`, tied with the head    P: `positions`    block_l: `layers[l]`    norm: `norm`

Differs from GPT-2: the GELU is the exact one unless `activation="gelu-tanh"`; any mechanism and positions; the
attention's weights are not dropped out, which would leave the fused kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import positions
from regard.attention.kv_cache import KVCache, next_position_ids
from regard.attention.masks import Mask
from regard.attention.token_positions import PositionIds
from regard.layers import EncoderBlock, FeedForward, MultiHeadAttention, PreNorm
from regard.layers.activations import activation
from regard.layers.dropout import Dropout
from regard.layers.typed_module_list import TypedModuleList
from regard.models.classifier_output import pick


@dataclass(frozen=True)
class GPTConfig:
    """Sizes that a CPU trains; `GPT2` is the paper's small one. `hidden` is 4 · dim where it is not given."""

    vocab: int = 50_257
    dim: int = 256
    layers: int = 4
    heads: int = 4
    hidden: int | None = None
    mechanism: str = "dot"
    positions: str = "learned:length=1024"
    activation: str = "gelu"
    bias: bool = True
    dropout: float = 0.0

    def build(self, vocab: int) -> GPT:
        return GPT(replace(self, vocab=vocab))


GPT2 = GPTConfig(dim=768, layers=12, heads=12, activation="gelu-tanh", dropout=0.1)


class GPT(nn.Module):
    config_class = GPTConfig

    reach = 0
    """How many words back the embedding of a word looks."""

    def __init__(self, config: GPTConfig):
        super().__init__()
        self.config = c = config
        self.embed = nn.Embedding(c.vocab, c.dim)
        self.positions = positions.build(c.positions, c.dim, c.heads)
        self.dropout = Dropout(c.dropout)
        self.layers = TypedModuleList[EncoderBlock](self._block() for _ in range(c.layers))
        self.norm = nn.LayerNorm(c.dim, bias=c.bias)
        self._start()

    def forward(
        self,
        ids: Tensor,
        *,
        mask: Mask | Tensor | None = None,
        position_ids: PositionIds | None = None,
        places: Tensor | None = None,
    ) -> Tensor:
        """ids (b, n) to logits of the next word (b, n, vocab), or (k, vocab) of some places only, counted through all
        rows. mask (b, n): True for what is real."""
        return self.head(pick(self.states(ids, mask=mask, position_ids=position_ids), places))

    def states(self, ids: Tensor, *, mask: Mask | Tensor | None = None, position_ids: PositionIds | None = None) -> Tensor:
        """What is known at each place of all up to it, (b, n, dim)."""
        position_ids = range(ids.shape[1]) if position_ids is None else position_ids
        x = self.dropout(self.positions.embed(self.words(ids), position_ids))
        for layer in self.layers:
            x = layer(x, mask=mask, causal=True, position_ids=position_ids)
        return self.norm(x)

    def words(self, ids: Tensor, before: Tensor | None = None) -> Tensor:
        """ids (b, n), after the last `reach` words before them, to (b, n, dim)."""
        return self.embed(ids)

    def head(self, states: Tensor) -> Tensor:
        return F.linear(states, self.embed.weight)

    def step(
        self,
        ids: Tensor,
        past: list[KVCache] | None = None,
        *,
        mask: Mask | Tensor | None = None,
        position_ids: PositionIds | None = None,
    ) -> tuple[Tensor, list[KVCache]]:
        """Logits after the new words (b, new), and the memories to go on from: one for each layer, and last the words
        themselves where `reach` asks for them. mask (b, new): True for what is real of the new words."""
        states, kept = self.read_on(ids, past, mask=mask, position_ids=position_ids)
        return self.head(states), kept

    def read_on(
        self,
        ids: Tensor,
        past: list[KVCache] | None = None,
        *,
        mask: Mask | Tensor | None = None,
        position_ids: PositionIds | None = None,
    ) -> tuple[Tensor, list[KVCache]]:
        """`step` without the head, for whoever wants few of the logits: what is known at each new place."""
        position_ids = next_position_ids(past[0] if past else None, ids.shape[1]) if position_ids is None else position_ids
        before = past[-1].keys[:, 0, :, 0] if self.reach and past else None
        x = self.positions.embed(self.words(ids, before), position_ids)
        kept: list[KVCache] = []
        for i, layer in enumerate(self.layers):
            x, memory = layer.step(x, past[i] if past else None, mask=mask, position_ids=position_ids)
            kept.append(memory)
        if self.reach:
            read = ids if before is None else torch.cat((before, ids), 1)
            last = read[:, None, -self.reach :, None]
            kept.append(KVCache(last, last, range(last.shape[2])))
        return self.norm(x), kept

    def _block(self) -> EncoderBlock:
        c = self.config
        inside = self.positions if self.positions.inside else None
        attention = MultiHeadAttention(c.dim, c.heads, c.mechanism, positions=inside, bias=c.bias)
        feed = FeedForward(c.dim, c.hidden or 4 * c.dim, activation=activation(c.activation), bias=c.bias)
        return EncoderBlock(attention, feed, residual=PreNorm, dropout=c.dropout, norm=self._norm)

    def _norm(self, dim: int) -> nn.Module:
        return nn.LayerNorm(dim, bias=self.config.bias)

    def _start(self) -> None:
        """N(0, 0.02), and less by 1/sqrt(2 · layers) where a part is added to the residual way (Radford 2019, 2.3).
        A mechanism starts its own projections."""
        nn.init.normal_(self.embed.weight, std=0.02)
        for block in self.layers:
            for name, linear in block.named_modules():
                if isinstance(linear, nn.Linear) and ".mechanism." not in f".{name}":
                    added = name in ("attention.out", "ffn.down")
                    nn.init.normal_(linear.weight, std=0.02 / (2 * len(self.layers)) ** 0.5 if added else 0.02)
                    if linear.bias is not None:
                        nn.init.zeros_(linear.bias)
