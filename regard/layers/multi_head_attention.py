"""Multi-head attention with any mechanism (Vaswani et al. 2017, section 3.2.2).

head_i = Attend(score_i(x, context), W_V^i context)        out = W_O [head_1; ...; head_h]
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from regard.attention import mechanisms
from regard.attention.cost import Cost
from regard.attention.kv_cache import KVCache, next_position_ids
from regard.attention.masks import Mask, build_mask, check_key_mask, check_not_inverted
from regard.attention.mechanisms.mechanism import Mechanism, merge_heads
from regard.attention.positions import build as build_positions
from regard.attention.positions.position_encoding import PositionEncoding
from regard.attention.scores import Attend
from regard.attention.token_positions import PositionIds, QueryKeyPositions
from regard.errors import UserError


class MultiHeadAttention(nn.Module):
    """Self-attention `layer(x)` or cross-attention `layer(x, context)`.

    >>> import torch
    >>> layer = MultiHeadAttention(64, 4, "local:window=8", positions="rotary")
    >>> layer(torch.randn(2, 10, 64), causal=True).shape
    torch.Size([2, 10, 64])

    Args:
        dim: Width of the input and of the output.
        heads: Number of heads.
        mechanism: Name with options, such as "dot" or "local:window=64" (`regard list`), or a Mechanism.
        positions: Position encoding inside attention, such as "rotary", "t5" or "alibi".
        context_dim: Width of the context. Default: dim.
        value_width: Width of the values of one head. Default: dim / heads.
        bias: Whether the projections have biases.
        dropout: Dropout of the attention weights.
        output_proj: Whether a matrix W_O follows the heads. False concatenates the heads only. Default: as the
            mechanism declares.
        **options: Options of the mechanism.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        mechanism: str | Mechanism = "dot",
        *,
        positions: str | PositionEncoding | None = None,
        context_dim: int | None = None,
        value_width: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        output_proj: bool | None = None,
        **options: Any,
    ):
        super().__init__()
        if isinstance(mechanism, Mechanism):
            if (positions, context_dim, value_width, options) != (None, None, None, {}):
                raise UserError(
                    f"mechanism is a {mechanism.name!r} object, which has positions, widths and options already; pass "
                    "them to the mechanism's constructor"
                )
            if (mechanism.dim, mechanism.heads) != (dim, heads):
                raise UserError(
                    f"the {mechanism.name!r} mechanism has dim={mechanism.dim} and heads={mechanism.heads}; the layer "
                    f"has dim={dim} and heads={heads}"
                )
        encoding = build_positions(positions, dim, heads)
        if isinstance(positions, str) and encoding.kind == "embed":
            raise UserError(
                f"{positions} positions are added to the embeddings at the input of a model; a layer takes positions "
                "that act inside attention: rotary, t5, alibi"
            )
        self.mechanism = mechanisms.build(
            mechanism,
            dim,
            heads,
            context_dim=context_dim,
            value_width=value_width,
            positions=encoding,
            bias=bias,
            **options,
        )
        self.attend = Attend(dropout)
        width = heads * self.mechanism.value_width
        project = self.mechanism.output_proj if output_proj is None else output_proj
        self.out = nn.Linear(width, dim, bias) if project else nn.Identity()

    def forward(
        self,
        x: Tensor,
        context: Tensor | KVCache | None = None,
        *,
        key_mask: Tensor | None = None,
        attn_mask: Tensor | None = None,
        causal: bool = False,
        position_ids: PositionIds | None = None,
        query_axis: str = "tokens",
        key_axis: str = "tokens",
    ) -> Tensor:
        """Attend from x to itself, or to a context.

        Args:
            x: (b, q, dim).
            context: (b, k, context_dim), or the result of `project_kv`. None for self-attention.
            key_mask: Keys that are not padding, (b, k) bool. True means "may attend".
            attn_mask: Allowed pairs, (q, k), (b, q, k) or (b, h, q, k) bool. True means "may attend".
            causal: Hide keys at later positions than the query.
            position_ids: Positions of x. Default: range(q).
            query_axis, key_axis: What queries and keys are, for inspection.

        Returns:
            (b, q, dim).
        """
        b, q, _ = x.shape
        k = q if context is None else len(context) if isinstance(context, KVCache) else context.shape[1]
        position_ids = range(q) if position_ids is None else position_ids
        mask = build_mask(key_mask, attn_mask, causal, b=b, h=self.mechanism.heads, q=q, k=k)
        if context is None:
            query, keys, values = self.mechanism.project_qkv(_zero_padding(x, key_mask), position_ids)
            cache = KVCache(keys, values, position_ids)
        else:
            if isinstance(context, KVCache):
                cache = context
            else:
                cache = self._project_context(context, None if key_mask is None else key_mask.expand(b, k), range(k))
            query = self.mechanism.project_query(x, position_ids)
        return self._attend(
            query, cache, mask, QueryKeyPositions(position_ids, cache.position_ids, query_axis, key_axis)
        )

    def project_kv(
        self, context: Tensor, *, key_mask: Tensor | None = None, position_ids: PositionIds | None = None
    ) -> KVCache:
        """Compute keys and values of a context once, for many calls of `forward`.

        Args:
            context: (b, k, context_dim).
            key_mask: Keys that are not padding, (b, k) bool. It is stored in the cache.
            position_ids: Positions of the keys. Default: range(k).
        """
        position_ids = range(context.shape[1]) if position_ids is None else position_ids
        return self._project_context(context, _expand_key_mask(key_mask, context), position_ids)

    def step(
        self,
        x: Tensor,
        cache: KVCache | None = None,
        *,
        key_mask: Tensor | None = None,
        position_ids: PositionIds | None = None,
    ) -> tuple[Tensor, KVCache]:
        """Continue causal self-attention. Calls of `step` give the same outputs as one call with causal=True.

        Args:
            x: New tokens, (b, new, dim).
            cache: Keys and values of the tokens before. None at the start.
            key_mask: New tokens that are not padding, (b, new) bool. It is stored in the cache.
            position_ids: Positions of x. Default: those that follow the cache.

        Returns:
            The output (b, new, dim), and the cache for the next step.
        """
        position_ids = next_position_ids(cache, x.shape[1]) if position_ids is None else position_ids
        key_mask = _expand_key_mask(key_mask, x)
        query, keys, values = self.mechanism.project_qkv(_zero_padding(x, key_mask), position_ids)
        new = KVCache(keys, values, position_ids, key_mask, max_lookback=self.mechanism.max_lookback)
        cache = new if cache is None else cache.extend(new)
        qk_positions = QueryKeyPositions(position_ids, cache.position_ids)
        return self._attend(query, cache, Mask(causal=True), qk_positions), cache

    def _project_context(self, context: Tensor, key_mask: Tensor | None, position_ids: PositionIds) -> KVCache:
        if not self.mechanism.supports_cross_attention:
            raise UserError(
                f"mechanism {self.mechanism.name!r} supports self-attention only: its scores depend on positions "
                "within one sequence. Choose another mechanism for cross-attention, such as dot"
            )
        keys, values = self.mechanism.project_kv(_zero_padding(context, key_mask), position_ids)
        return KVCache(keys, values, position_ids, key_mask, max_lookback=self.mechanism.max_lookback)

    def _attend(self, query: Tensor, cache: KVCache, mask: Mask | None, qk_positions: QueryKeyPositions) -> Tensor:
        if cache.key_mask is not None:
            mask = mask or Mask()
            mask = replace(mask, key_mask=cache.key_mask if mask.key_mask is None else cache.key_mask & mask.key_mask)
        scores = self.mechanism.score(query, cache.keys, qk_positions)
        return self.out(merge_heads(self.attend(scores, cache.values, mask)))

    def cost(self, n: int, m: int | None = None) -> Cost:
        """Cost for n queries and m keys; m is n by default."""
        cost = self.mechanism.cost(n, m)
        if isinstance(self.out, nn.Linear):
            params = sum(p.numel() for p in self.out.parameters())
            cost = cost + Cost(params, 2 * n * self.out.in_features * self.out.out_features)
        return cost


def _expand_key_mask(key_mask: Tensor | None, x: Tensor) -> Tensor | None:
    """Check the mask of a sequence (b, k, ·). Returns it as (b, k)."""
    if key_mask is None:
        return None
    b, k, _ = x.shape
    check_key_mask(key_mask, b, k)
    check_not_inverted(key_mask)
    return key_mask.expand(b, k)


def _zero_padding(x: Tensor, key_mask: Tensor | None) -> Tensor:
    """Replace padding by zeros, so that a NaN in it does not pass through a weight of zero, forward or backward."""
    return x if key_mask is None else x.masked_fill(~key_mask[..., None], 0.0)
