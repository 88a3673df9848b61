"""Attention masks. True means "may attend", everywhere in regard. In torch.nn's key_padding_mask True means the opposite.

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
    if attn_mask is not None:
        attn_mask = _check_attn_mask(attn_mask, b, h, q, k)
    if key_mask is None and attn_mask is None and not causal:
        return None
    return Mask(key_mask, attn_mask, causal)


def check_key_mask(key_mask: Tensor, b: int, k: int) -> None:
    """Raise UserError unless the mask is a (b, k) bool tensor with True for real keys; a dimension may be 1."""
    _check_bool("key_mask", key_mask)
    if not _broadcasts(key_mask, (b, k)):
        raise UserError(
            f"key_mask has shape {tuple(key_mask.shape)}; expected (batch, keys) = ({b}, {k}). "
            "Pass a mask over query-key pairs as attn_mask"
        )
    if torch.compiler.is_compiling() or key_mask.shape[1] < 2:
        return
    # Inverted right padding hides every key of the longest row, and no row is all True.
    rising = (key_mask[:, 1:] >= key_mask[:, :-1]).all()
    if bool(rising & ~key_mask.all(1).any() & (~key_mask.any(1)).any()):
        raise UserError(
            "key_mask looks inverted: it hides all of the longest row and shows only padding. In regard True means "
            "'may attend'; torch.nn's key_padding_mask is the opposite, so pass ~mask"
        )


def _check_attn_mask(attn_mask: Tensor, b: int, h: int, q: int, k: int) -> Tensor:
    """Check a mask over query-key pairs. Returns it as (b or 1, h or 1, q or 1, k or 1)."""
    _check_bool("attn_mask", attn_mask)
    full = {2: attn_mask[None, None], 3: attn_mask[:, None], 4: attn_mask}.get(attn_mask.dim()) if attn_mask.dim() > 1 else None
    if full is None or not _broadcasts(full, (b, h, q, k)):
        raise UserError(
            f"attn_mask has shape {tuple(attn_mask.shape)}; expected (queries, keys) = ({q}, {k}), (batch, queries, "
            f"keys) = ({b}, {q}, {k}) or (batch, heads, queries, keys) = ({b}, {h}, {q}, {k}). Pass a padding mask "
            "(batch, keys) as key_mask"
        )
    if not torch.compiler.is_compiling() and q == k and q > 1 and full.shape[-2:] == (q, k):
        future = torch.ones(q, k, dtype=torch.bool, device=full.device).triu(1)
        if bool((full == future).all()):
            raise UserError(
                "attn_mask looks like an inverted causal mask: it shows only later positions and hides each position "
                "from itself. In regard True means 'may attend', so pass ~mask, or causal=True"
            )
    return full


def _check_bool(name: str, mask: Tensor) -> None:
    if mask.dtype != torch.bool:
        raise UserError(
            f"{name} must be a bool tensor with True for 'may attend'; given dtype {mask.dtype}. "
            f"For an additive mask of 0 and -inf pass {name}=mask == 0; for 1 and 0 pass {name}=mask.bool()"
        )


def _broadcasts(mask: Tensor, shape: tuple[int, ...]) -> bool:
    return mask.dim() == len(shape) and all(given in (1, size) for given, size in zip(mask.shape, shape, strict=True))
