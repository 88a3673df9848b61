"""Parameters and FLOPs of layers by formula, part by part. Models put their cost together from these.

    forward    2 · n · in · out for a matrix that is applied at n positions: a multiply-add counts as two
    backward   twice the forward FLOPs, for the gradients of the input and of the matrix. Fused attention computes its
               scores again, which adds half of its forward FLOPs.

Sizes are those of one example: n is the length of the (target) sequence, m that of the source.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import nn

from regard.attention.mechanisms.additive import CHUNK, AdditiveMechanism
from regard.layers.attention_pooling import AttentionPooling
from regard.layers.bidirectional_rnn import BidirectionalRNN
from regard.layers.multi_head_attention import MultiHeadAttention
from regard.layers.transformer_blocks import DecoderBlock, EncoderBlock

GATES = {nn.RNN: 1, nn.GRU: 3, nn.LSTM: 4}
FUSED_MECHANISMS = ("dot", "bare", "local", "local-2d")
"""Mechanisms whose scores go through the fused kernel if keys and values have the same width."""
UNPROJECTED_MECHANISMS = ("bilinear", "merged-qk")
"""Mechanisms whose keys are the context itself. They are fused if the values have the width of the context."""


@dataclass(frozen=True)
class PartCost:
    """The cost of one part of a model.

    Attributes:
        name: The part, usually the name of the module.
        params: Trained parameters.
        flops: FLOPs of the forward pass.
        backward: FLOPs of the backward pass.
        memory: Bytes of attention scores in float32.
        steps: Sequential steps.
        path: Longest path between two positions; 0 if the part treats each position alone.
    """

    name: str
    params: int = 0
    flops: int = 0
    backward: int = 0
    memory: int = 0
    steps: int = 0
    path: int = 0


PartCosts = Iterator[PartCost]


def num_params(module: nn.Module) -> int:
    """The number of parameters of a module."""
    return sum(p.numel() for p in module.parameters())


def matmul_cost(name: str, n: int, in_features: int, out_features: int, params: int | None = None) -> PartCost:
    """A matrix that is applied at n positions. By default it has a bias."""
    flops = 2 * n * in_features * out_features
    params = in_features * out_features + out_features if params is None else params
    return PartCost(name, params, flops, 2 * flops, steps=1)


def linear_cost(name: str, module: nn.Linear, n: int) -> PartCost:
    """An `nn.Linear` that is applied at n positions."""
    return matmul_cost(name, n, module.in_features, module.out_features, num_params(module))


def params_cost(name: str, *modules: nn.Module | None) -> PartCost:
    """Modules without matrix products: embeddings, norms, positions."""
    return PartCost(name, sum(num_params(module) for module in modules if module is not None))


def attention_cost(name: str, layer: MultiHeadAttention, n: int, m: int | None = None) -> PartCost:
    """Attention of n queries to m keys, without the parameters of positions that all layers share."""
    mechanism, m = layer.mechanism, n if m is None else m
    cost = layer.cost(n, m)
    backward = 2 * cost.flops - chunked_additive_savings(mechanism, n, m) + fused_flops(mechanism, n, m) // 2
    params = cost.params - num_params(mechanism.positions)
    return PartCost(name, params, cost.flops, backward, cost.memory, cost.steps, cost.path)


def fused_flops(mechanism: Any, n: int, m: int) -> int:
    """FLOPs of scores and weighted sums that go through the fused kernel."""
    key_width, value_width = getattr(mechanism, "key_width", None), mechanism.value_width
    if mechanism.positions.kind == "bias":
        return 0
    if mechanism.name in UNPROJECTED_MECHANISMS and mechanism.context_dim == value_width:
        return 4 * mechanism.heads * n * m * value_width
    if key_width != value_width or mechanism.name not in FUSED_MECHANISMS:
        return 0
    return mechanism.cost(n, m).flops - mechanism.projection_flops(n, m)


def chunked_additive_savings(mechanism: Any, n: int, m: int) -> int:
    """FLOPs that additive scores save in the backward pass if they are computed in chunks.

    The gradients of a chunk are summed first and then multiplied by v, so one of two products is left.
    """
    if not isinstance(mechanism, AdditiveMechanism) or 4 * mechanism.heads * mechanism.hidden * n * m <= CHUNK:
        return 0
    return 2 * mechanism.heads * n * m * mechanism.hidden


def ffn_costs(name: str, module: nn.Module, n: int) -> PartCosts:
    """Every linear layer of a feed-forward network."""
    for part, child in module.named_children():
        if isinstance(child, nn.Linear):
            yield linear_cost(f"{name}.{part}", child, n)


def encoder_block_costs(name: str, block: EncoderBlock, n: int) -> PartCosts:
    """Self-attention and feed-forward network."""
    yield attention_cost(f"{name}.attention", block.attention, n)
    yield from ffn_costs(f"{name}.ffn", block.ffn, n)
    yield params_cost(f"{name}.norms", block.attention_residual, block.ffn_residual)


def decoder_block_costs(name: str, block: DecoderBlock, n: int, m: int) -> PartCosts:
    """Self-attention, cross-attention to m source positions, and feed-forward network."""
    yield attention_cost(f"{name}.attention", block.attention, n)
    yield attention_cost(f"{name}.cross_attention", block.cross_attention, n, m)
    yield from ffn_costs(f"{name}.ffn", block.ffn, n)
    yield params_cost(f"{name}.norms", block.attention_residual, block.cross_attention_residual, block.ffn_residual)


def rnn_costs(name: str, module: nn.RNNBase, n: int, rows: int = 1, *, has_initial_state: bool = False) -> PartCosts:
    """Each layer of a recurrent network over n steps of `rows` sequences.

    An initial state of zeros gets no gradient, unless the fused LSTM computes it all the same. With
    `has_initial_state` the state was computed and gets one.
    """
    gates = next(count for cell, count in GATES.items() if isinstance(module, cell))
    hidden, directions = module.hidden_size, 2 if module.bidirectional else 1
    for layer in range(module.num_layers):
        in_features = module.input_size if layer == 0 else hidden * directions
        params = directions * gates * (hidden * (in_features + hidden) + (2 * hidden if module.bias else 0))
        flops = 2 * directions * rows * n * gates * hidden * (in_features + hidden)
        saved = 0 if gates == 4 or has_initial_state else 2 * directions * rows * gates * hidden * hidden
        layer_name = f"{name}.{layer}" if module.num_layers > 1 else name
        yield PartCost(layer_name, params, flops, 2 * flops - saved, 0, n, n)


def birnn_costs(name: str, module: BidirectionalRNN, n: int, rows: int = 1) -> PartCosts:
    """Both directions of a bidirectional recurrent network."""
    for direction, rnn in module.named_children():
        assert isinstance(rnn, nn.RNNBase)
        yield from rnn_costs(f"{name}.{direction}", rnn, n, rows)


def pooling_cost(name: str, module: AttentionPooling, n: int, rows: int = 1) -> PartCost:
    """Attention pooling over n positions of `rows` sequences."""
    cost = module.cost(n)
    return PartCost(name, cost.params, rows * cost.flops, 2 * rows * cost.flops, rows * cost.memory, 1, 1)


def conv_cost(name: str, module: nn.Conv1d, n: int, path: int) -> PartCost:
    """A convolution with n outputs."""
    flops = 2 * n * module.kernel_size[0] * module.in_channels * module.out_channels
    return PartCost(name, num_params(module), flops, 2 * flops, 0, 1, path)
