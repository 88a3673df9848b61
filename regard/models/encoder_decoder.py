"""What the encoder-decoder Transformers share: Transformer, Marian, T5, and the decoder of TransformerCaptioner.

encoder:  x = embed(source)        x = block_l(x)
decoder:  y = embed(target)        y = block_l(y, x), causal        P(w_{t+1}) = softmax(head(y[t]))
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.kv_cache import KVCache, next_position_ids
from regard.attention.positions import PositionEncoding
from regard.attention.token_positions import PositionIds
from regard.layers import DecoderBlock, EncoderBlock
from regard.layers.cost_formulas import (
    PartCost,
    PartCosts,
    decoder_block_costs,
    encoder_block_costs,
    matmul_cost,
    params_cost,
)
from regard.layers.transformer_blocks import decoder_step
from regard.layers.typed_module_list import TypedModuleList
from regard.models.classifier_output import select_positions
from regard.models.configured_model import ConfigT, ConfiguredModel


class TransformerDecoder(ConfiguredModel[ConfigT]):
    """A stack of decoder blocks over a source of any kind. The output head shares the matrix of the embeddings."""

    scale: float
    embed: nn.Embedding
    bias: nn.Parameter
    positions: PositionEncoding
    dropout: nn.Module
    decoder: TypedModuleList[DecoderBlock]
    decoder_norm: nn.Module

    def embed_tokens(self, ids: Tensor, position_ids: PositionIds) -> Tensor:
        """Token ids (b, n) at these positions to embeddings (b, n, dim)."""
        return self.dropout(self.positions.embed(self.scale * self.embed(ids), position_ids))

    def head(self, states: Tensor) -> Tensor:
        """Hidden states (..., dim) to logits (..., vocab)."""
        return F.linear(states, self.embed.weight, self.bias)

    def output_dropout(self, states: Tensor) -> Tensor:
        """Dropout after the last norm, in training. Only T5 has it."""
        return states

    def decode(
        self,
        ids: Tensor,
        source: list[KVCache],
        *,
        mask: Tensor | None = None,
        logits_at: Tensor | None = None,
    ) -> Tensor:
        """Logits of all target positions at once.

        Args:
            ids: Target tokens, (b, n).
            source: Keys and values of the source for each layer, from `project_source`.
            mask: True for real target tokens, (b, n); None if there is no padding.
            logits_at: Flat indices (k,) of the positions whose logits are wanted.

        Returns:
            Logits (b, n, vocab), or (k, vocab) with `logits_at`.
        """
        x = self.embed_tokens(ids, range(ids.shape[1]))
        for layer, context in zip(self.decoder, source, strict=True):
            x = layer(x, context, key_mask=mask)
        return self.head(self.output_dropout(self.decoder_norm(select_positions(x, logits_at))))

    def step(self, ids: Tensor, cache: list[KVCache] | None, source: list[KVCache]) -> tuple[Tensor, list[KVCache]]:
        """Logits after the next target tokens.

        Args:
            ids: New target tokens, (b, new).
            cache: Keys and values of the previous target tokens for each layer; None at the start.
            source: Keys and values of the source for each layer.

        Returns:
            Logits (b, new, vocab) and the extended cache.
        """
        position_ids = next_position_ids(cache[0] if cache else None, ids.shape[1])
        x, cache = decoder_step(self.decoder, self.embed_tokens(ids, position_ids), cache, source, position_ids)
        return self.head(self.decoder_norm(x)), cache

    def embedding_costs(self) -> PartCosts:
        yield params_cost("embeddings (tied with the head)", self.embed)
        yield params_cost("positions", self.positions)

    def decoder_costs(self, n: int, m: int) -> PartCosts:
        for i, block in enumerate(self.decoder):
            yield from decoder_block_costs(f"decoder.{i}", block, n, m)
        yield params_cost("decoder norm", self.decoder_norm)
        yield self.head_cost(n)

    def head_cost(self, n: int) -> PartCost:
        vocab_size, dim = self.embed.weight.shape
        return matmul_cost("head", n, dim, vocab_size, self.bias.numel())


class EncoderDecoder(TransformerDecoder[ConfigT]):
    """A Transformer that reads a source sequence and predicts a target sequence."""

    encoder: TypedModuleList[EncoderBlock]
    encoder_norm: nn.Module

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        *,
        source_mask: Tensor | None = None,
        target_mask: Tensor | None = None,
        logits_at: Tensor | None = None,
    ) -> Tensor:
        """Logits of the token after each target token.

        Args:
            source: Source tokens, (b, m).
            target: Target tokens, (b, n).
            source_mask: True for real source tokens, (b, m); None if there is no padding.
            target_mask: The same for the target, (b, n).
            logits_at: Flat indices (k,) of the target positions whose logits are wanted.

        Returns:
            Logits (b, n, vocab), or (k, vocab) with `logits_at`.
        """
        context = self.project_source(self.encode(source, mask=source_mask), mask=source_mask)
        return self.decode(target, context, mask=target_mask, logits_at=logits_at)

    def encode(self, ids: Tensor, *, mask: Tensor | None = None) -> Tensor:
        """Source tokens (b, m) to hidden states (b, m, dim)."""
        x = self.embed_tokens(ids, range(ids.shape[1]))
        for layer in self.encoder:
            x = layer(x, key_mask=mask)
        return self.output_dropout(self.encoder_norm(x))

    def project_source(self, states: Tensor, *, mask: Tensor | None = None) -> list[KVCache]:
        """Keys and values of the source for each decoder layer, computed once for all steps."""
        return [layer.cross_attention.project_kv(states, key_mask=mask) for layer in self.decoder]

    def cost_parts(self, n: int, m: int) -> PartCosts:
        yield from self.embedding_costs()
        for i, block in enumerate(self.encoder):
            yield from encoder_block_costs(f"encoder.{i}", block, m)
        yield params_cost("encoder norm", self.encoder_norm)
        yield from self.decoder_costs(n, m)
