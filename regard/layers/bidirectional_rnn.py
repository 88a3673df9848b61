"""Two recurrent nets, one reading forwards and one backwards, over padded rows.

Torch's own bidirectional nets start the backward pass in the padding, or need packing, which is about twice as slow
on a CPU. Here each row is turned round within its own length, so padding always comes last and is invisible. The two
are separate stacks, so a model that must not see the word at t (a blank language model) can use the states on either
side of it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.errors import UserError

CELLS: dict[str, type[nn.GRU] | type[nn.LSTM]] = {"gru": nn.GRU, "lstm": nn.LSTM}


class BidirectionalRNN(nn.Module):
    """(b, n, dim) to (b, n, 2 · hidden)."""

    def __init__(self, dim: int, hidden: int, cell: str = "gru", layers: int = 1, dropout: float = 0.0):
        super().__init__()
        if cell not in CELLS:
            raise UserError(f"unknown cell {cell!r}; known: {', '.join(CELLS)}")
        dropout = dropout if layers > 1 else 0.0  # torch drops between layers only, and warns where there is one
        self.onward = CELLS[cell](dim, hidden, layers, batch_first=True, dropout=dropout)
        self.back = CELLS[cell](dim, hidden, layers, batch_first=True, dropout=dropout)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        turned = reverse_padded(x, lengths)
        return torch.cat((self.onward(x)[0], reverse_padded(self.back(turned)[0], lengths)), -1)


def reverse_padded(x: Tensor, lengths: Tensor) -> Tensor:
    """Each row of (b, n, d) the other way round within its length; padding stays behind."""
    place = torch.arange(x.shape[1], device=x.device)[None]
    index = torch.where(place < lengths[:, None], lengths[:, None] - 1 - place, place)
    return x.gather(1, index[..., None].expand_as(x))
