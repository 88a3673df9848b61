"""Prompts of different lengths in one batch. They are padded on the left, so that all continue in the same column."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.attention.token_positions import PositionIds
from regard.data.tokenizer import PAD


def pad_left(prompts: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor | None, PositionIds]:
    """Pad prompts on the left.

    Returns:
        Token ids (b, n); a mask (b, n), True for real tokens; and position ids (b, n), from 0 for the first real token
        of each prompt. For prompts of equal length the mask is None and the position ids are a range.
    """
    lengths = torch.tensor([len(prompt) for prompt in prompts])
    n = int(lengths.max())
    if bool((lengths == n).all()):
        return torch.tensor([list(prompt) for prompt in prompts]), None, range(n)
    ids = torch.tensor([[PAD] * (n - len(prompt)) + list(prompt) for prompt in prompts])
    position_ids = torch.arange(n) - (n - lengths)[:, None]
    return ids, position_ids >= 0, position_ids.clamp(min=0)
