"""Rows and columns of a table by place: for whatever has a row of its own for every place and so a maximal length."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.attention.token_positions import PositionIds, position_tensor
from regard.errors import UserError


def within(position_ids: PositionIds, length: int, what: str) -> None:
    """An error where a place lies outside 0..length-1."""
    if isinstance(position_ids, Tensor):
        if torch.compiler.is_compiling() or not position_ids.numel():  # looking at numbers would break a traced graph
            return
        first, last = int(position_ids.min()), int(position_ids.max())
    else:
        first, last = (
            (position_ids.start, position_ids.stop - 1)
            if isinstance(position_ids, range)
            else (0, len(position_ids) - 1)
        )
    if last >= length or (first < 0 and first <= last):
        wrong = last if last >= length else first
        mend = f"build it with length={last + 1} or more, or shorten the sequence" if last >= length else "count from 0"
        raise UserError(f"{what} knows the places 0 to {length - 1}, and was given place {wrong}; {mend}")


def rows(table: Tensor, position_ids: PositionIds) -> Tensor:
    """(L, d) to (n, d) or (b, n, d); (h, L, d) to (h, n, d) or (b, h, n, d)."""
    if isinstance(position_ids, range):
        return table[..., position_ids.start : position_ids.stop, :]
    index = position_tensor(position_ids, table.device)
    # index_select, since its backward pass adds rows up; that of plain indexing is far slower on a CPU.
    picked = table.index_select(-2, index.flatten()).unflatten(-2, index.shape)
    return picked.transpose(0, 1) if table.dim() == 3 and index.dim() == 2 else picked


def columns(table: Tensor, position_ids: PositionIds) -> Tensor:
    """(b, h, q, L) to (b, h, q, k), where b may be 1."""
    if isinstance(position_ids, range):
        return table[..., position_ids.start : position_ids.stop]
    index = position_tensor(position_ids, table.device)
    if index.dim() == 1:
        return table.index_select(-1, index)
    b = max(table.shape[0], index.shape[0])
    h, q = table.shape[1:3]
    return table.expand(b, -1, -1, -1).gather(-1, index[:, None, None].expand(b, h, q, -1))
