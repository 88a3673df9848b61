"""Attention masks. True means "may attend", everywhere in regard (the opposite of torch.nn's key_padding_mask).

    key_mask    (b, k)         False for padding
    attn_mask   (b, h, q, k)   any pattern; b and h may be 1
    causal                     a query attends to keys at its own position and before it

The parts stay separate until the scores need them, so that fused kernels get the cheapest form.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.attention.token_positions import PositionIds, position_tensor
from regard.errors import UserError


@dataclass(frozen=True)
class Mask:
    """Which keys each query may attend to. The parts are combined by "and".

    Args:
        key_mask: Keys that are not padding, (b, k) bool.
        attn_mask: Allowed query-key pairs, (b, h, q, k) bool; b and h may be 1.
        causal: Hide keys at later positions than the query.
    """

    key_mask: Tensor | None = None
    attn_mask: Tensor | None = None
    causal: bool = False

    def allowed(self, q_pos: PositionIds, k_pos: PositionIds, device: torch.device) -> Tensor | None:
        """Combine all parts into one bool tensor that broadcasts to (b, h, q, k). None if nothing is masked."""
        allowed = None if self.key_mask is None else self.key_mask[:, None, None, :]
        if self.attn_mask is not None:
            allowed = self.attn_mask if allowed is None else allowed & self.attn_mask
        if self.causal and not all_keys_visible(q_pos, k_pos):
            visible = position_tensor(q_pos, device)[..., :, None] >= position_tensor(k_pos, device)[..., None, :]
            visible = visible[:, None] if visible.dim() == 3 else visible[None, None]
            allowed = visible if allowed is None else allowed & visible
        return allowed

    def is_plain_causal(self, q_pos: PositionIds, k_pos: PositionIds) -> bool:
        """Whether this is the causal triangle over equal query and key positions, which fused kernels implement."""
        same = isinstance(q_pos, range) and isinstance(k_pos, range) and q_pos == k_pos
        return same and self.causal and self.key_mask is None and self.attn_mask is None


def all_keys_visible(q_pos: PositionIds, k_pos: PositionIds) -> bool:
    """Whether the first query is at or after the last key, as in a decoding step; a causal mask then hides nothing."""
    return isinstance(q_pos, range) and isinstance(k_pos, range) and (not k_pos or q_pos.start >= k_pos.stop - 1)


def build_mask(
    key_mask: Tensor | None, attn_mask: Tensor | None, causal: bool, *, b: int, h: int, q: int, k: int
) -> Mask | None:
    """Check the masks of a caller and combine them.

    Args:
        key_mask: (b, k) bool.
        attn_mask: (q, k), (b, q, k) or (b, h, q, k) bool.
        causal: Hide later keys.

    Returns:
        The mask, or None if every query may attend to every key.
    """
    if key_mask is not None:
        check_key_mask(key_mask, b, k)
        check_not_inverted(key_mask)
    if attn_mask is not None:
        attn_mask = _expand_attn_mask(attn_mask, b, h, q, k)
    if key_mask is None and attn_mask is None and not causal:
        return None
    return Mask(key_mask, attn_mask, causal)


def check_key_mask(key_mask: Tensor, b: int, k: int) -> None:
    """Raise UserError unless the mask is a bool tensor (b, k) or (1, k)."""
    _check_bool("key_mask", key_mask)
    if key_mask.dim() != 2 or key_mask.shape[0] not in (1, b) or key_mask.shape[1] != k:
        raise UserError(
            f"key_mask has shape {tuple(key_mask.shape)}; expected (batch, keys) = ({b}, {k}). "
            "Pass a mask over pairs of query and key as attn_mask"
        )


def check_not_inverted(key_mask: Tensor) -> None:
    """Raise UserError for right padding with True for padding: it hides every key of the longest row."""
    if torch.compiler.is_compiling() or key_mask.shape[1] < 2:
        return
    rising = (key_mask[:, 1:] >= key_mask[:, :-1]).all()
    if bool(rising & ~key_mask.all(1).any() & (~key_mask.any(1)).any()):
        raise UserError(
            "key_mask looks inverted: it hides all of the longest row and shows only padding. In regard True means "
            "'may attend'; torch.nn's key_padding_mask is the opposite, so pass ~mask"
        )


def _expand_attn_mask(attn_mask: Tensor, b: int, h: int, q: int, k: int) -> Tensor:
    """Check a mask over pairs of query and key. Returns it as (b or 1, h or 1, q, k)."""
    _check_bool("attn_mask", attn_mask)
    mask = attn_mask[None, None] if attn_mask.dim() == 2 else attn_mask[:, None] if attn_mask.dim() == 3 else attn_mask
    fits = mask.dim() == 4 and mask.shape[0] in (1, b) and mask.shape[1] in (1, h) and mask.shape[2:] == (q, k)
    if not fits:
        raise UserError(
            f"attn_mask has shape {tuple(attn_mask.shape)}; expected (queries, keys) = ({q}, {k}), (batch, queries, "
            f"keys) = ({b}, {q}, {k}) or (batch, heads, queries, keys) = ({b}, {h}, {q}, {k}). Pass a padding mask "
            "(batch, keys) as key_mask"
        )
    if not torch.compiler.is_compiling() and q == k and q > 1:
        future = torch.ones(q, k, dtype=torch.bool, device=mask.device).triu(1)
        if bool((mask == future).all()):
            raise UserError(
                "attn_mask looks like an inverted causal mask: it shows only later positions and hides each position "
                "from itself. In regard True means 'may attend', so pass ~mask, or causal=True"
            )
    return mask


def _check_bool(name: str, mask: Tensor) -> None:
    if mask.dtype != torch.bool:
        raise UserError(
            f"{name} must be a bool tensor with True for 'may attend'; given dtype {mask.dtype}. "
            "For an additive mask of 0 and -inf pass mask == 0; for 1 and 0 pass mask.bool()"
        )
