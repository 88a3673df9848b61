"""Rows and columns of tables by position, for encodings and mechanisms with a maximal length."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.attention.token_positions import PositionIds, position_tensor
from regard.errors import UserError


def check_range(position_ids: PositionIds, length: int, owner: str) -> None:
    """Raise UserError if a position is outside 0..length-1.

    Args:
        position_ids: The positions.
        length: Maximal length.
        owner: What has the maximal length, for the message.
    """
    if isinstance(position_ids, Tensor):
        if torch.compiler.is_compiling() or not position_ids.numel():  # reading numbers would break the traced graph
            return
        first, last = int(position_ids.min()), int(position_ids.max())
    elif isinstance(position_ids, range):
        first, last = position_ids.start, position_ids.stop - 1
    else:
        first, last = 0, len(position_ids) - 1
    if last >= length:
        raise UserError(
            f"{owner}: position {last} is out of range 0 to {length - 1}; set length={last + 1} or more, or shorten "
            "the sequence"
        )
    if first < 0 and first <= last:
        raise UserError(f"{owner}: position {first} is out of range 0 to {length - 1}; count from 0")


def select_rows(table: Tensor, position_ids: PositionIds) -> Tensor:
    """(L, d) to (n, d) or (b, n, d); (h, L, d) to (h, n, d) or (b, h, n, d)."""
    if isinstance(position_ids, range):
        return table[..., position_ids.start : position_ids.stop, :]
    index = position_tensor(position_ids, table.device)
    # index_select, because the backward pass of plain indexing is far slower on a CPU.
    rows = table.index_select(-2, index.flatten()).unflatten(-2, index.shape)
    return rows.transpose(0, 1) if table.dim() == 3 and index.dim() == 2 else rows


def select_columns(table: Tensor, position_ids: PositionIds) -> Tensor:
    """(b, h, q, L) to (b, h, q, k), where b may be 1."""
    if isinstance(position_ids, range):
        return table[..., position_ids.start : position_ids.stop]
    index = position_tensor(position_ids, table.device)
    if index.dim() == 1:
        return table.index_select(-1, index)
    b = max(table.shape[0], index.shape[0])
    h, q = table.shape[1:3]
    return table.expand(b, -1, -1, -1).gather(-1, index[:, None, None].expand(b, h, q, -1))
