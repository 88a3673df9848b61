"""Blocks of a Transformer (Vaswani et al. 2017, figure 1): attention and a feed-forward net with residual connections.

The residual connection is a separate module. It decides where the norm is: before the sublayer (pre-norm, GPT-2) or
after the addition (post-norm, as in the paper).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from torch import Tensor, nn

from regard.attention.kv_cache import KVCache
from regard.attention.token_positions import PositionIds
from regard.config.validation import check_positive
from regard.layers.dropout import Dropout
from regard.layers.multi_head_attention import MultiHeadAttention

Sublayer = Callable[[Tensor], Tensor]
Norm = Callable[[int], nn.Module]


class Residual(nn.Module):
    """Residual connection around a sublayer, with a norm and dropout. Subclasses decide where the norm is."""

    def __init__(self, dim: int, dropout: float = 0.0, norm: Norm = nn.LayerNorm):
        super().__init__()
        self.norm, self.dropout = norm(dim), Dropout(dropout)


class PreNorm(Residual):
    """x + dropout(sublayer(norm(x)))"""

    def forward(self, x: Tensor, sublayer: Sublayer) -> Tensor:
        return x + self.dropout(sublayer(self.norm(x)))


class PostNorm(Residual):
    """norm(x + dropout(sublayer(x)))"""

    def forward(self, x: Tensor, sublayer: Sublayer) -> Tensor:
        return self.norm(x + self.dropout(sublayer(x)))


class FeedForward(nn.Module):
    """W_2 act(W_1 x + b_1) + b_2, with dropout before W_2.

    Args:
        dim: Width of the input and of the output.
        hidden: Width of the hidden layer.
        activation: Function of a tensor. The exact (erf) GELU is faster on a CPU than its tanh approximation.
        dropout: Dropout of the hidden layer.
        bias: Whether the two matrices have biases.
    """

    def __init__(
        self,
        dim: int,
        hidden: int,
        *,
        activation: Callable[[Tensor], Tensor] = nn.functional.gelu,
        dropout: float = 0.0,
        bias: bool = True,
    ):
        super().__init__()
        check_positive("feed-forward net", dim=dim, hidden=hidden)
        self.up, self.down = nn.Linear(dim, hidden, bias), nn.Linear(hidden, dim, bias)
        self.activation, self.dropout = activation, Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.dropout(self.activation(self.up(x))))


class EncoderBlock(nn.Module):
    """Self-attention, then a feed-forward net. With causal=True it is the block of a GPT.

    Args:
        attention: Self-attention.
        ffn: Feed-forward net, (b, n, dim) to (b, n, dim).
        residual: PreNorm or PostNorm.
        dropout: Dropout of the output of both sublayers.
        norm: Builds a norm from a width.
    """

    def __init__(
        self,
        attention: MultiHeadAttention,
        ffn: nn.Module,
        *,
        residual: type[Residual] = PreNorm,
        dropout: float = 0.0,
        norm: Norm = nn.LayerNorm,
    ):
        super().__init__()
        dim = attention.mechanism.dim
        self.attention, self.ffn = attention, ffn
        self.attention_residual, self.ffn_residual = residual(dim, dropout, norm), residual(dim, dropout, norm)

    def forward(
        self,
        x: Tensor,
        *,
        key_mask: Tensor | None = None,
        causal: bool = False,
        position_ids: PositionIds | None = None,
    ) -> Tensor:
        """(b, n, dim) to (b, n, dim). key_mask (b, n) is False for padding."""
        x = self.attention_residual(
            x, lambda y: self.attention(y, key_mask=key_mask, causal=causal, position_ids=position_ids)
        )
        return self.ffn_residual(x, self.ffn)

    def step(
        self,
        x: Tensor,
        cache: KVCache | None,
        *,
        key_mask: Tensor | None = None,
        position_ids: PositionIds | None = None,
    ) -> tuple[Tensor, KVCache]:
        """Process the next tokens of a causal sequence, as `MultiHeadAttention.step`."""
        x, cache = _attention_step(self, x, cache, key_mask=key_mask, position_ids=position_ids)
        return self.ffn_residual(x, self.ffn), cache


class DecoderBlock(nn.Module):
    """Causal self-attention, cross-attention to a source, then a feed-forward net.

    Args:
        attention: Causal self-attention.
        cross_attention: Attention to the source.
        ffn: Feed-forward net, (b, n, dim) to (b, n, dim).
        residual: PreNorm or PostNorm.
        dropout: Dropout of the output of each sublayer.
        norm: Builds a norm from a width.
    """

    def __init__(
        self,
        attention: MultiHeadAttention,
        cross_attention: MultiHeadAttention,
        ffn: nn.Module,
        *,
        residual: type[Residual] = PreNorm,
        dropout: float = 0.0,
        norm: Norm = nn.LayerNorm,
    ):
        super().__init__()
        dim = attention.mechanism.dim
        self.attention, self.cross_attention, self.ffn = attention, cross_attention, ffn
        self.attention_residual = residual(dim, dropout, norm)
        self.cross_attention_residual = residual(dim, dropout, norm)
        self.ffn_residual = residual(dim, dropout, norm)

    def forward(
        self,
        x: Tensor,
        source: KVCache | Tensor,
        *,
        key_mask: Tensor | None = None,
        position_ids: PositionIds | None = None,
    ) -> Tensor:
        """(b, n, dim) to (b, n, dim).

        Args:
            x: Target tokens, (b, n, dim).
            source: Encoder states (b, m, context_dim), or the result of `cross_attention.project_kv`.
            key_mask: Target tokens that are not padding, (b, n) bool.
            position_ids: Positions of x. Default: range(n).
        """
        x = self.attention_residual(
            x, lambda y: self.attention(y, key_mask=key_mask, causal=True, position_ids=position_ids)
        )
        return self._attend_to_source(x, source, position_ids)

    def step(
        self, x: Tensor, cache: KVCache | None, source: KVCache, *, position_ids: PositionIds | None = None
    ) -> tuple[Tensor, KVCache]:
        """Process the next target tokens, as `MultiHeadAttention.step`."""
        x, cache = _attention_step(self, x, cache, position_ids=position_ids)
        return self._attend_to_source(x, source, position_ids), cache

    def _attend_to_source(self, x: Tensor, source: KVCache | Tensor, position_ids: PositionIds | None) -> Tensor:
        """Cross-attention and feed-forward net."""
        x = self.cross_attention_residual(
            x, lambda y: self.cross_attention(y, source, position_ids=position_ids, key_axis="source")
        )
        return self.ffn_residual(x, self.ffn)


def _attention_step(
    block: EncoderBlock | DecoderBlock,
    x: Tensor,
    cache: KVCache | None,
    *,
    key_mask: Tensor | None = None,
    position_ids: PositionIds | None = None,
) -> tuple[Tensor, KVCache]:
    """The self-attention sublayer of a block on new tokens."""
    caches: list[KVCache] = []

    def attend(y: Tensor) -> Tensor:
        out, new_cache = block.attention.step(y, cache, key_mask=key_mask, position_ids=position_ids)
        caches.append(new_cache)
        return out

    return block.attention_residual(x, attend), caches[0]


def decoder_step(
    blocks: Iterable[DecoderBlock],
    x: Tensor,
    caches: list[KVCache] | None,
    sources: list[KVCache],
    position_ids: PositionIds,
) -> tuple[Tensor, list[KVCache]]:
    """Process the next target tokens in all blocks of a decoder.

    Args:
        blocks: The blocks of the decoder.
        x: New target tokens, (b, new, dim).
        caches: Self-attention cache of each block. None at the start.
        sources: Keys and values of the source for each block.
        position_ids: Positions of x.

    Returns:
        The output (b, new, dim), and the caches for the next step.
    """
    new_caches: list[KVCache] = []
    for i, block in enumerate(blocks):
        x, cache = block.step(x, caches[i] if caches else None, sources[i], position_ids=position_ids)
        new_caches.append(cache)
    return x, new_caches
