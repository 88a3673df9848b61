"""Layers to hold against one another at the same width: what each does with n positions of width d.

self-attention  8nd² + 4n²d     rnn  4nd²     gru  12nd²     lstm  16nd²     convolution of width k  2knd²
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.layers.multi_head_attention import MultiHeadAttention

KERNEL = 3
WINDOW = 16


class Convolution(nn.Module):
    """(b, n, d) to (b, n, d): each place from k places, itself the last of them."""

    def __init__(self, d: int, k: int = KERNEL, *, dilation: int = 1, stride: int = 1):
        super().__init__()
        self.back = (k - 1) * dilation
        self.filter = nn.Conv1d(d, d, k, dilation=dilation, stride=stride)

    def forward(self, x: Tensor) -> Tensor:
        return self.filter(nn.functional.pad(x.transpose(1, 2), (self.back, 0))).transpose(1, 2)


def build(name: str, d: int, *, heads: int = 1, k: int = KERNEL, window: int = WINDOW) -> nn.Module:
    """One layer by its name, of width d."""
    recurrent = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}
    if name in recurrent:
        return recurrent[name](d, d, batch_first=True)
    if name == "convolution":
        return Convolution(d, k)
    if name == "local":
        return MultiHeadAttention(d, heads, f"local:window={window}")
    return MultiHeadAttention(d, heads)


NAMES = ("self-attention", "local", "rnn", "gru", "lstm", "convolution")


def flops(name: str, n: int, d: int, *, k: int = KERNEL, window: int = WINDOW) -> int:
    """Forward, by formula."""
    if name == "local":
        return MultiHeadAttention(d, 1, f"local:window={window}").cost(n).flops
    return {
        "self-attention": 8 * n * d * d + 4 * n * n * d,
        "rnn": 4 * n * d * d,
        "gru": 12 * n * d * d,
        "lstm": 16 * n * d * d,
        "convolution": 2 * k * n * d * d,
    }[name]


def crossing(name: str, d: int) -> int | None:
    """The length at which self-attention costs as much as a recurrent layer; None where it always costs more."""
    each = {"rnn": 4, "gru": 12, "lstm": 16}[name]
    return None if each <= 8 else (each - 8) * d // 4


def run(layer: nn.Module, x: Tensor) -> Tensor:
    out = layer(x)
    return out[0] if isinstance(out, tuple) else out


class Cells(nn.Module):
    """Recurrent layers of cells, one after the other in time and one above the other: place t of layer l waits for
    place t - 1 of its own layer and place t of the layer below, and for nothing else."""

    def __init__(self, d: int, layers: int):
        super().__init__()
        self.cells = nn.ModuleList(nn.RNNCell(d, d) for _ in range(layers))

    def forward(self, x: Tensor) -> Tensor:
        below = [x[:, t].clone() for t in range(x.shape[1])]
        for cell in self.cells:
            state, above = torch.zeros_like(below[0]), []
            for given in below:
                state = cell(given, state)
                above.append(state)
            below = above
        return below[-1]
