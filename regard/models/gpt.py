"""GPT (Radford et al. 2018, Improving Language Understanding by Generative Pre-Training, 3.1; Radford et al. 2019,
Language Models are Unsupervised Multitask Learners, 2.3: a norm before each sublayer and one at the end).

    h_0 = E[w] + P            h_l = block_l(h_{l-1}), causal            P(w_{t+1}) = softmax(E norm(h_L)[t])

    E: `embed`, tied with the head    P: `positions`    block_l: `layers[l]`    norm: `norm`

Differences from GPT-2: the GELU is exact unless `activation="gelu-tanh"`; any mechanism and positions; no dropout on
attention weights, which would rule out the fused kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import positions
from regard.attention.kv_cache import KVCache, next_position_ids
from regard.attention.token_positions import PositionIds
from regard.layers import EncoderBlock, FeedForward, MultiHeadAttention, PreNorm
from regard.layers.activations import activation
from regard.layers.cost_formulas import PartCosts, encoder_block_costs, matmul_cost, params_cost
from regard.layers.dropout import Dropout
from regard.layers.typed_module_list import TypedModuleList
from regard.models.causal_model import CausalModel
from regard.models.classifier_output import select_positions
from regard.models.configured_model import ModelConfig


@dataclass(frozen=True)
class GPTConfig(ModelConfig):
    """Sizes that train on a CPU; `GPT2` is the small model of the paper.

    Attributes:
        hidden: Width of the feed-forward network; None for 4 · dim.
        bias: Whether linear layers and norms have a bias.
    """

    dim: int = 256
    layers: int = 4
    heads: int = 4
    hidden: int | None = None
    mechanism: str = "dot"
    positions: str = "learned:length=1024"
    activation: str = "gelu"
    bias: bool = True
    dropout: float = 0.0


GPT2 = GPTConfig(dim=768, layers=12, heads=12, activation="gelu-tanh", dropout=0.1)
GPT2_VOCAB_SIZE = 50_257


class GPT(CausalModel[GPTConfig]):
    """Causal Transformer language model.

    Args:
        vocab_size: Size of the vocabulary.
        config: The options; or pass fields of `GPTConfig` as keywords.

    Example:
        >>> model = GPT(vocab_size=100, dim=32, layers=2, heads=4, positions="rotary")
        >>> model(torch.zeros(1, 5, dtype=torch.long)).shape
        torch.Size([1, 5, 100])
    """

    config_class = GPTConfig
    embedding_lookback = 0
    """How many previous tokens the embedding of a token depends on."""

    def __init__(self, vocab_size: int, config: GPTConfig | None = None, **options: Any):
        super().__init__(config, options)
        c = self.config
        self.embed = nn.Embedding(vocab_size, c.dim)
        self.positions = positions.build(c.positions, c.dim, c.heads)
        self.dropout = Dropout(c.dropout)
        self.layers = TypedModuleList[EncoderBlock](self._build_block() for _ in range(c.layers))
        self.norm = self._build_norm(c.dim)
        self._init_weights()

    def forward(
        self,
        ids: Tensor,
        *,
        mask: Tensor | None = None,
        position_ids: PositionIds | None = None,
        logits_at: Tensor | None = None,
    ) -> Tensor:
        """Logits of the token after each token.

        Args:
            ids: Token ids, (b, n).
            mask: True for real tokens, (b, n); None if there is no padding.
            position_ids: Positions of the tokens; None for 0 to n - 1.
            logits_at: Flat indices (k,) of the positions whose logits are wanted.

        Returns:
            Logits (b, n, vocab), or (k, vocab) with `logits_at`.
        """
        return self.head(select_positions(self.hidden_states(ids, mask=mask, position_ids=position_ids), logits_at))

    def hidden_states(
        self, ids: Tensor, *, mask: Tensor | None = None, position_ids: PositionIds | None = None
    ) -> Tensor:
        """The last layer's states, after the final norm, (b, n, dim)."""
        position_ids = range(ids.shape[1]) if position_ids is None else position_ids
        x = self.dropout(self.positions.embed(self.embed_tokens(ids), position_ids))
        for layer in self.layers:
            x = layer(x, key_mask=mask, causal=True, position_ids=position_ids)
        return self.norm(x)

    def embed_tokens(self, ids: Tensor, previous_ids: Tensor | None = None) -> Tensor:
        """Token ids (b, n), with the `embedding_lookback` tokens before them, to embeddings (b, n, dim)."""
        return self.embed(ids)

    def head(self, states: Tensor) -> Tensor:
        """Hidden states (..., dim) to logits (..., vocab)."""
        return F.linear(states, self.embed.weight)

    def step(
        self,
        ids: Tensor,
        cache: list[KVCache] | None = None,
        *,
        mask: Tensor | None = None,
        position_ids: PositionIds | None = None,
    ) -> tuple[Tensor, list[KVCache]]:
        """Logits after new tokens.

        Args:
            ids: New tokens, (b, new).
            cache: The cache that the last step returned; None at the start.
            mask: True for real new tokens, (b, new).
            position_ids: Positions of the new tokens; None for those that follow the cache.

        Returns:
            Logits (b, new, vocab) and the cache: one entry for each layer, then the last tokens themselves if
            `embedding_lookback` is not 0.
        """
        states, cache = self.step_states(ids, cache, mask=mask, position_ids=position_ids)
        return self.head(states), cache

    def step_states(
        self,
        ids: Tensor,
        cache: list[KVCache] | None = None,
        *,
        mask: Tensor | None = None,
        position_ids: PositionIds | None = None,
    ) -> tuple[Tensor, list[KVCache]]:
        """`step` without the head: hidden states (b, new, dim) and the cache."""
        position_ids = (
            next_position_ids(cache[0] if cache else None, ids.shape[1]) if position_ids is None else position_ids
        )
        previous_ids = cache[-1].keys[:, 0, :, 0] if self.embedding_lookback and cache else None
        x = self.positions.embed(self.embed_tokens(ids, previous_ids), position_ids)
        new_cache: list[KVCache] = []
        for i, layer in enumerate(self.layers):
            x, layer_cache = layer.step(x, cache[i] if cache else None, key_mask=mask, position_ids=position_ids)
            new_cache.append(layer_cache)
        if self.embedding_lookback:
            all_ids = ids if previous_ids is None else torch.cat((previous_ids, ids), 1)
            last_ids = all_ids[:, None, -self.embedding_lookback :, None]
            new_cache.append(KVCache(last_ids, last_ids, range(last_ids.shape[2])))
        return self.norm(x), new_cache

    def _build_block(self) -> EncoderBlock:
        c = self.config
        attention = MultiHeadAttention(c.dim, c.heads, c.mechanism, positions=self.positions.in_attention, bias=c.bias)
        ffn = FeedForward(c.dim, c.hidden or 4 * c.dim, activation=activation(c.activation), bias=c.bias)
        return EncoderBlock(attention, ffn, residual=PreNorm, dropout=c.dropout, norm=self._build_norm)

    def _build_norm(self, dim: int) -> nn.Module:
        return nn.LayerNorm(dim, bias=self.config.bias)

    def _init_weights(self) -> None:
        """N(0, 0.02); divided by sqrt(2 · layers) where the output is added to the residual stream (Radford 2019, 2.3).

        A mechanism initializes its own projections.
        """
        nn.init.normal_(self.embed.weight, std=0.02)
        for block in self.layers:
            for name, linear in block.named_modules():
                if isinstance(linear, nn.Linear) and ".mechanism." not in f".{name}":
                    into_residual = name in ("attention.out", "ffn.down")
                    std = 0.02 / (2 * len(self.layers)) ** 0.5 if into_residual else 0.02
                    nn.init.normal_(linear.weight, std=std)
                    if linear.bias is not None:
                        nn.init.zeros_(linear.bias)

    def cost_parts(self, n: int, m: int) -> PartCosts:
        yield from self.body_costs(n)
        vocab_size, dim = self.embed.weight.shape
        yield matmul_cost("head", n, dim, vocab_size, 0)

    def body_costs(self, n: int) -> PartCosts:
        """All parts but the head."""
        yield params_cost("embeddings (tied with the head)", self.embed)
        yield params_cost("positions", self.positions)
        for i, block in enumerate(self.layers):
            yield from encoder_block_costs(f"layers.{i}", block, n)
        yield params_cost("norm", self.norm)
