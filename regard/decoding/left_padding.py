"""Texts of different length in one batch: padding stands on the left, so that all go on in the same column."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.attention.token_positions import PositionIds
from regard.data.tokenizer import PAD


def left(texts: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor | None, PositionIds]:
    """ids (b, n), which of them are real (b, n), and where they stand, each text from place 0 on. Texts of one length
    need no mask, and their places are a plain range."""
    lengths = torch.tensor([len(text) for text in texts])
    n = int(lengths.max())
    if bool((lengths == n).all()):
        return torch.tensor([list(text) for text in texts]), None, range(n)
    ids = torch.tensor([[PAD] * (n - len(text)) + list(text) for text in texts])
    at = torch.arange(n) - (n - lengths)[:, None]
    return ids, at >= 0, at.clamp(min=0)
