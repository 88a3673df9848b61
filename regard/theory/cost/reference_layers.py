"""Layers to compare at the same width: FLOPs of n positions of width d.

self-attention  8nd² + 4n²d     rnn  4nd²     gru  12nd²     lstm  16nd²     convolution with kernel size k  2knd²
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.layers.multi_head_attention import MultiHeadAttention

KERNEL_SIZE = 3
WINDOW = 16
RECURRENT = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}
NAMES = ("self-attention", "local", *RECURRENT, "convolution")


class CausalConv(nn.Module):
    """Causal convolution, (b, n, d) to (b, n, d): each position from k positions, itself the last one."""

    def __init__(self, d: int, k: int = KERNEL_SIZE, *, dilation: int = 1, stride: int = 1):
        super().__init__()
        self.lookback = (k - 1) * dilation
        self.conv = nn.Conv1d(d, d, k, dilation=dilation, stride=stride)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(nn.functional.pad(x.transpose(1, 2), (self.lookback, 0))).transpose(1, 2)


def build_reference_layer(
    name: str, d: int, *, heads: int = 1, k: int = KERNEL_SIZE, window: int = WINDOW
) -> nn.Module:
    """One of `NAMES` with width d. k is the kernel size, `window` that of local attention."""
    if name in RECURRENT:
        return RECURRENT[name](d, d, batch_first=True)
    if name == "convolution":
        return CausalConv(d, k)
    return MultiHeadAttention(d, heads, f"local:window={window}" if name == "local" else "dot")


def layer_flops(name: str, n: int, d: int, *, k: int = KERNEL_SIZE, window: int = WINDOW) -> int:
    """FLOPs of the forward pass by formula."""
    if name == "local":
        return MultiHeadAttention(d, 1, f"local:window={window}").cost(n).flops
    return {
        "self-attention": 8 * n * d * d + 4 * n * n * d,
        "rnn": 4 * n * d * d,
        "gru": 12 * n * d * d,
        "lstm": 16 * n * d * d,
        "convolution": 2 * k * n * d * d,
    }[name]


def crossover_length(name: str, d: int) -> int | None:
    """The length at which self-attention costs as much as a recurrent layer; None if it always costs more."""
    factor = {"rnn": 4, "gru": 12, "lstm": 16}[name]
    return None if factor <= 8 else (factor - 8) * d // 4


def layer_output(layer: nn.Module, x: Tensor) -> Tensor:
    """The output sequence of a layer; recurrent layers return a tuple."""
    output = layer(x)
    return output[0] if isinstance(output, tuple) else output


class StackedRNNCells(nn.Module):
    """Recurrent layers as single cells: step t of layer l depends on step t - 1 of its own layer and step t of the
    layer below, and on nothing else."""

    def __init__(self, d: int, layers: int):
        super().__init__()
        self.cells = nn.ModuleList(nn.RNNCell(d, d) for _ in range(layers))

    def forward(self, x: Tensor) -> Tensor:
        """(b, n, d) to the last state of the top layer, (b, d)."""
        inputs = [x[:, t].clone() for t in range(x.shape[1])]
        for cell in self.cells:
            state, states = torch.zeros_like(inputs[0]), []
            for step_input in inputs:
                state = cell(step_input, state)
                states.append(state)
            inputs = states
        return inputs[-1]
