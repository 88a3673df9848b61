"""Which keys a query may regard. True means "may be seen", everywhere in regard (torch.nn says the opposite).

    keys    (b, k)         real keys, against padding
    pairs   (b, h, q, k)   any pattern; b and h may be 1
    causal                 a key is seen only from its own place onwards

The parts are kept apart until the scores need them, so that the fused kernels can be given the cheapest form.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.attention.token_positions import PositionIds, position_tensor
from regard.errors import UserError


@dataclass(frozen=True)
class Mask:
    key_mask: Tensor | None = None
    attn_mask: Tensor | None = None
    causal: bool = False

    def allowed(self, q_pos: PositionIds, k_pos: PositionIds, device: torch.device) -> Tensor | None:
        """All parts as one bool tensor that broadcasts to (b, h, q, k); None where everything may be seen."""
        allowed = None if self.key_mask is None else self.key_mask[:, None, None, :]
        if self.attn_mask is not None:
            allowed = self.attn_mask if allowed is None else allowed & self.attn_mask
        if self.causal and not sees_all(q_pos, k_pos):
            ahead = position_tensor(q_pos, device)[..., :, None] >= position_tensor(k_pos, device)[..., None, :]
            ahead = ahead[:, None] if ahead.dim() == 3 else ahead[None, None]
            allowed = ahead if allowed is None else allowed & ahead
        return allowed

    def is_plain_causal(self, q_pos: PositionIds, k_pos: PositionIds) -> bool:
        """Only causal, queries and keys being the same places: what the fused kernels know by themselves."""
        same = isinstance(q_pos, range) and isinstance(k_pos, range) and q_pos == k_pos
        return same and self.causal and self.key_mask is None and self.attn_mask is None


def sees_all(q_pos: PositionIds, k_pos: PositionIds) -> bool:
    """Whether even the first query stands at or after the last key, as in decoding one step."""
    return isinstance(q_pos, range) and isinstance(k_pos, range) and (not k_pos or q_pos.start >= k_pos.stop - 1)


def as_mask(mask: Mask | Tensor | None, *, causal: bool, b: int, q: int, k: int, h: int | None = None) -> Mask | None:
    """A caller's mask, checked. A tensor of (b, k) is about keys; (b, q, k) and (b, h, q, k) are about pairs."""
    if isinstance(mask, Tensor):
        mask = _from_tensor(mask, b, h, q, k)
    if mask is None:
        return Mask(causal=True) if causal else None
    for part, tensor, want in (("keys", mask.key_mask, (b, k)), ("pairs", mask.attn_mask, (b, h, q, k))):
        if tensor is not None:
            _check_part(part, tensor, want)
    return replace(mask, causal=True) if causal else mask


def _from_tensor(mask: Tensor, b: int, h: int | None, q: int, k: int) -> Mask:
    if mask.dim() == 2:
        _check_part("keys", mask, (b, k))
        _check_polarity(mask)
        return Mask(key_mask=mask)
    if mask.dim() == 3:
        mask = mask[:, None]
    _check_part("pairs", mask, (b, h, q, k))
    _check_pair_polarity(mask)
    return Mask(attn_mask=mask)


def _check_part(part: str, mask: Tensor, want: tuple[int | None, ...]) -> None:
    if mask.dtype != torch.bool:
        raise UserError(
            f"a mask must be bool with True for what may be seen; given dtype {mask.dtype}. "
            "For an additive mask of 0 and -inf pass mask == 0; for 1 and 0 pass mask.bool()"
        )
    fits = mask.dim() == len(want) and all(w is None or s == w or s == 1 for s, w in zip(mask.shape, want, strict=True))
    if not fits:
        shape = ", ".join("heads" if w is None else str(w) for w in want)
        raise UserError(
            f"the mask of {part} has shape {tuple(mask.shape)}; wanted ({shape}) here. A mask is (batch, keys), "
            "(batch, queries, keys) or (batch, heads, queries, keys)"
        )


def _check_polarity(keys: Tensor) -> None:
    """Right padding turned round hides every key of the longest row: that cannot be meant."""
    if torch.compiler.is_compiling() or keys.shape[1] < 2:
        return
    rising = (keys[:, 1:] >= keys[:, :-1]).all()
    if bool(rising & ~keys.all(1).any() & (~keys.any(1)).any()):
        raise UserError(
            "the mask of keys looks turned round: it hides all of the longest row and shows only padding. In regard "
            "True means 'may be seen'; torch.nn's key_padding_mask is the opposite, so pass ~mask"
        )


def _check_pair_polarity(pairs: Tensor) -> None:
    """A causal mask turned round shows the future and hides each place from itself."""
    q, k = pairs.shape[-2:]
    if torch.compiler.is_compiling() or q != k or q < 2:
        return
    upper = torch.ones(q, k, dtype=torch.bool, device=pairs.device).triu(1)
    if bool((pairs == upper).all()):
        raise UserError(
            "the mask shows only the future and hides each place from itself: it looks like a causal mask turned "
            "round. In regard True means 'may be seen', so pass ~mask, or causal=True"
        )
