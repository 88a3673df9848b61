"""The blocks of a Transformer (Vaswani et al. 2017, figure 1): attention and a feed-forward net, each with a residual
way round.

A residual is a small module of its own, so that where the norm stands (before, as in GPT-2, or after, as in the
paper) is a choice of part and not a branch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from torch import Tensor, nn

from regard.attention.kv_cache import KVCache
from regard.attention.masks import Mask
from regard.attention.token_positions import PositionIds
from regard.config.validation import check_positive
from regard.layers.dropout import Dropout
from regard.layers.multi_head_attention import MultiHeadAttention

Part = Callable[[Tensor], Tensor]
Norm = Callable[[int], nn.Module]


class PreNorm(nn.Module):
    """x + dropout(part(norm(x)))"""

    def __init__(self, dim: int, dropout: float = 0.0, norm: Norm = nn.LayerNorm):
        super().__init__()
        self.norm, self.dropout = norm(dim), Dropout(dropout)

    def forward(self, x: Tensor, part: Part) -> Tensor:
        return x + self.dropout(part(self.norm(x)))


class PostNorm(nn.Module):
    """norm(x + dropout(part(x)))"""

    def __init__(self, dim: int, dropout: float = 0.0, norm: Norm = nn.LayerNorm):
        super().__init__()
        self.norm, self.dropout = norm(dim), Dropout(dropout)

    def forward(self, x: Tensor, part: Part) -> Tensor:
        return self.norm(x + self.dropout(part(x)))


Residual = type[PreNorm] | type[PostNorm]


class FeedForward(nn.Module):
    """W_2 act(W_1 x + b_1) + b_2. The exact (erf) GELU is the cheaper one on a CPU."""

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
        check_positive("the feed-forward net", dim=dim, hidden=hidden)
        self.up, self.down = nn.Linear(dim, hidden, bias), nn.Linear(hidden, dim, bias)
        self.activation, self.dropout = activation, Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.dropout(self.activation(self.up(x))))


class EncoderBlock(nn.Module):
    """Self-attention, then feed-forward; causal=True makes it the block of a GPT."""

    def __init__(
        self,
        attention: MultiHeadAttention,
        feed: nn.Module,
        *,
        residual: Residual = PreNorm,
        dropout: float = 0.0,
        norm: Norm = nn.LayerNorm,
    ):
        super().__init__()
        dim = attention.mechanism.dim
        self.attention, self.ffn = attention, feed
        self.attention_residual, self.ffn_residual = residual(dim, dropout, norm), residual(dim, dropout, norm)

    def forward(
        self,
        x: Tensor,
        *,
        mask: Mask | Tensor | None = None,
        causal: bool = False,
        position_ids: PositionIds | None = None,
    ) -> Tensor:
        x = self.attention_residual(x, lambda y: self.attention(y, mask=mask, causal=causal, position_ids=position_ids))
        return self.ffn_residual(x, self.ffn)

    def step(
        self,
        x: Tensor,
        past: KVCache | None,
        *,
        mask: Mask | Tensor | None = None,
        position_ids: PositionIds | None = None,
    ) -> tuple[Tensor, KVCache]:
        """The next places of a causal sequence, with what came before in memory; mask (b, new) for the new ones."""
        kept: list[KVCache] = []

        def attend(y: Tensor) -> Tensor:
            out, memory = self.attention.step(y, past, mask=mask, position_ids=position_ids)
            kept.append(memory)
            return out

        x = self.attention_residual(x, attend)
        return self.ffn_residual(x, self.ffn), kept[0]


class DecoderBlock(nn.Module):
    """Causal self-attention, attention to the source, feed-forward."""

    def __init__(
        self,
        attention: MultiHeadAttention,
        source: MultiHeadAttention,
        feed: nn.Module,
        *,
        residual: Residual = PreNorm,
        dropout: float = 0.0,
        norm: Norm = nn.LayerNorm,
    ):
        super().__init__()
        dim = attention.mechanism.dim
        self.attention, self.cross_attention, self.ffn = attention, source, feed
        self.attention_residual = residual(dim, dropout, norm)
        self.cross_attention_residual = residual(dim, dropout, norm)
        self.ffn_residual = residual(dim, dropout, norm)

    def forward(
        self,
        x: Tensor,
        source: KVCache | Tensor,
        *,
        mask: Mask | Tensor | None = None,
        position_ids: PositionIds | None = None,
    ) -> Tensor:
        """`source` is the encoder's output, or what `self.source.remember` made of it; `mask` hides the target's
        padding."""
        x = self.attention_residual(x, lambda y: self.attention(y, mask=mask, causal=True, position_ids=position_ids))
        x = self.cross_attention_residual(
            x, lambda y: self.cross_attention(y, source, position_ids=position_ids, key_axis="source")
        )
        return self.ffn_residual(x, self.ffn)

    def step(
        self, x: Tensor, past: KVCache | None, source: KVCache, *, position_ids: PositionIds | None = None
    ) -> tuple[Tensor, KVCache]:
        kept: list[KVCache] = []

        def attend(y: Tensor) -> Tensor:
            out, memory = self.attention.step(y, past, position_ids=position_ids)
            kept.append(memory)
            return out

        x = self.attention_residual(x, attend)
        x = self.cross_attention_residual(
            x, lambda y: self.cross_attention(y, source, position_ids=position_ids, key_axis="source")
        )
        return self.ffn_residual(x, self.ffn), kept[0]


def decoder_step(
    blocks: Iterable[DecoderBlock],
    x: Tensor,
    past: list[KVCache] | None,
    source: list[KVCache],
    position_ids: PositionIds,
) -> tuple[Tensor, list[KVCache]]:
    """The next places through all blocks of a decoder; the memories to go on from, one per block."""
    kept: list[KVCache] = []
    for i, block in enumerate(blocks):
        x, memory = block.step(x, past[i] if past else None, source[i], position_ids=position_ids)
        kept.append(memory)
    return x, kept
