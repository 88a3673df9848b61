"""The rule of each operator against numbers that count themselves: work and the longest chain, with sums as trees."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from regard.layers import MultiHeadAttention
from regard.theory.cost import Trace
from regard.theory.cost.operator_costs import tree_depth


class Number:
    """A number that knows how long it took, and counts every operation."""

    count = 0

    def __init__(self, value: float, depth: int = 0):
        self.value, self.depth = value, depth

    def _with(self, other: Number, value: float) -> Number:
        Number.count += 1
        return Number(value, max(self.depth, other.depth) + 1)

    def __mul__(self, other: Number) -> Number:
        return self._with(other, self.value * other.value)

    def __add__(self, other: Number) -> Number:
        return self._with(other, self.value + other.value)

    def __sub__(self, other: Number) -> Number:
        return self._with(other, self.value - other.value)

    def __truediv__(self, other: Number) -> Number:
        return self._with(other, self.value / other.value)

    def do(self, function) -> Number:
        return self._with(self, function(self.value))


def total(numbers: list[Number], join=lambda a, b: a + b) -> Number:
    """A tree: neighbours two by two."""
    while len(numbers) > 1:
        pairs = [join(a, b) for a, b in zip(numbers[::2], numbers[1::2], strict=False)]
        numbers = pairs + numbers[2 * len(pairs) :]
    return numbers[0]


def numbers(tensor: torch.Tensor) -> list[list[Number]]:
    return [[Number(float(v)) for v in row] for row in tensor]


def product(a, b):
    return [[total([x * y for x, y in zip(row, column, strict=True)]) for column in zip(*b, strict=True)] for row in a]


def row_softmax(row):
    high = total(row, lambda a, b: a._with(b, max(a.value, b.value)))
    shares = [(x - high).do(math.exp) for x in row]
    whole = total(shares)
    return [x / whole for x in shares]


def deepest(rows) -> int:
    return max(x.depth for row in rows for x in row)


@pytest.mark.parametrize("k", [1, 2, 3, 5, 8, 13])
def test_tree(k):
    assert total([Number(1.0) for _ in range(k)]).depth == tree_depth(k)


@pytest.mark.parametrize(("n", "k", "m"), [(2, 3, 5), (3, 8, 2), (4, 1, 3)])
def test_matrix_products(n, k, m):
    a, b, bias = torch.randn(n, k), torch.randn(k, m), torch.randn(m)
    Number.count = 0
    c = product(numbers(a), numbers(b))
    with Trace() as trace:
        a @ b
    assert trace.span == deepest(c)
    assert trace.flops == 2 * n * k * m  # one add more each than a sum needs: torch's own convention
    assert Number.count == trace.flops - n * m
    assert trace.products == 1
    with Trace() as trace:
        torch.addmm(bias, a, b)
    added = [[x + Number(0.0) for x in row] for row in c]
    assert trace.span == deepest(added)
    for operator in (lambda: torch.bmm(a[None], b[None]), lambda: torch.baddbmm(bias[None, None], a[None], b[None])):
        with Trace() as trace, FlopCounterMode(display=False) as counter:
            operator()
        assert trace.flops == counter.get_total_flops() == 2 * n * k * m


@pytest.mark.parametrize("n", [2, 5, 8])
def test_softmax(n):
    x = torch.randn(3, n)
    with Trace() as trace:
        x.softmax(-1)
    assert trace.span == deepest([row_softmax(row) for row in numbers(x)])


@pytest.mark.parametrize("n", [3, 8])
def test_sums_and_functions(n):
    x = torch.randn(2, n)
    for operator, steps in (
        (lambda: x.sum(-1), tree_depth(n)),
        (lambda: x.mean(-1), tree_depth(n) + 1),
        (lambda: x.amax(-1), tree_depth(n)),
        (lambda: x.tanh(), 1),
        (lambda: x + x, 1),
        (lambda: torch.addcmul(x, x, x), 2),
        (lambda: x.view(n, 2).t(), 0),
        (lambda: (x.exp() + x).sum(), 2 + tree_depth(2 * n)),
    ):
        with Trace() as trace:
            operator()
        assert trace.span == steps
        assert not trace.unknown_ops


def test_bags_are_added_side_by_side():
    table, ids, starts = torch.randn(9, 4, requires_grad=True), torch.tensor([1, 2, 2, 5, 7]), torch.tensor([0, 1])
    with Trace() as trace:
        out = nn.functional.embedding_bag(ids, table, starts, mode="sum")
    assert (trace.span, trace.other_ops) == (
        tree_depth(4),
        5 * 4,
    )  # bags of 1 and 4 rows, 4 wide
    with Trace() as trace:
        out.backward(torch.ones_like(out))
    assert not trace.unknown_ops
    assert trace.other_ops == 5 * 4


def test_layer_norm():
    width = 6
    x = torch.randn(2, width)
    norm = nn.LayerNorm(width)
    with torch.no_grad(), Trace() as trace:
        norm(x)

    def by_hand(row):
        size, small = Number(float(width)), Number(1e-5)
        middle = total(row) / size
        off = [v - middle for v in row]
        spread = total([v * v for v in off]) / size
        root = (spread + small).do(lambda v: v**-0.5)
        return [v * root * Number(1.0) + Number(0.0) for v in off]

    assert trace.span == deepest([by_hand(row) for row in numbers(x)])


@pytest.mark.parametrize(("n", "m", "d", "v"), [(3, 5, 4, 4), (6, 6, 7, 7)])
def test_fused_attention_equals_its_parts(n, m, d, v):
    q, k, value = torch.randn(1, 2, n, d), torch.randn(1, 2, m, d), torch.randn(1, 2, m, v)
    with torch.no_grad(), Trace() as fused:
        torch.nn.functional.scaled_dot_product_attention(q, k, value)
    with torch.no_grad(), Trace() as parts:
        torch.softmax((q @ k.transpose(-2, -1)) * d**-0.5, -1) @ value
    assert fused.flops_by_op.keys() == {"_scaled_dot_product_flash_attention_for_cpu"}
    assert fused.flops == parts.flops == 2 * 2 * n * m * (d + v)
    assert fused.span == parts.span
    assert fused.products == parts.products == 2


def test_torchs_counter_reports_nothing_for_fused_attention_and_lstm():
    """If this fails, torch has learnt to count them: compare, and perhaps use it."""
    layer, lstm = MultiHeadAttention(8, 2), nn.LSTM(8, 8, batch_first=True)
    x = torch.randn(1, 5, 8)
    with torch.no_grad(), FlopCounterMode(display=False) as theirs, Trace() as ours:
        layer(x)
        lstm(x)
    assert theirs.get_total_flops() < ours.flops


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize(("n", "d", "h"), [(1, 3, 5), (4, 5, 7)])
def test_recurrent_layers_equal_their_cells(kind, n, d, h):
    cell = {nn.LSTM: nn.LSTMCell, nn.GRU: nn.GRUCell, nn.RNN: nn.RNNCell}[kind](d, h)
    layer, x = kind(d, h, batch_first=True), torch.randn(2, n, d)
    with torch.no_grad(), Trace() as trace:
        layer(x)
    with torch.no_grad(), Trace() as loop:
        state = torch.zeros(2, h)
        state = (state, torch.zeros(2, h)) if kind is nn.LSTM else state
        for t in range(n):
            state = cell(x[:, t].clone(), state)
    gates = {nn.LSTM: 4, nn.GRU: 3, nn.RNN: 1}[kind]
    assert trace.flops == loop.flops == 2 * 2 * n * gates * h * (d + h)
    assert trace.span == loop.span
    assert trace.products == loop.products == n
    assert not trace.unknown_ops


def test_convolution():
    x, net = torch.randn(2, 5, 11), nn.Conv1d(5, 7, 3)
    with torch.no_grad(), Trace() as trace, FlopCounterMode(display=False) as counter:
        net(x)
    assert trace.flops == counter.get_total_flops() == 2 * 2 * 7 * 9 * 5 * 3
    assert trace.span == 1 + tree_depth(15) + 1


@pytest.mark.parametrize(
    "mechanism", ["dot", "additive", "merged-qk", "relative", "local:window=3", "synthesizer-dense:length=20"]
)
def test_layers_count_what_the_math_backend_counts(mechanism):
    layer, x = MultiHeadAttention(24, 3, mechanism), torch.randn(1, 13, 24)
    with torch.no_grad(), Trace() as trace:
        layer(x)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        layer(x)
    assert trace.flops == counter.get_total_flops() == layer.cost(13).flops
    assert not trace.unknown_ops


def test_backward_of_fused_attention_is_five_products():
    q, k, v = (torch.randn(1, 2, 6, 8, requires_grad=True) for _ in range(3))
    out = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    with Trace() as trace:
        out.sum().backward()
    assert trace.flops == 5 * 2 * 2 * 6 * 6 * 8


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_backward_of_recurrent_layers_is_twice_the_forward(kind):
    layer, x = kind(8, 8, batch_first=True), torch.randn(1, 5, 8, requires_grad=True)
    with Trace() as forward:
        out = layer(x)[0]
    with Trace() as backward:
        out.sum().backward()
    # Step by step the first state, which is given, gets no gradient.
    spared = 0 if kind is nn.LSTM else 2 * 3 * 8 * 8
    assert backward.flops == 2 * forward.flops - spared


def test_looking_up_and_counting():
    table, asked = torch.arange(100), torch.tensor([3, 50, 99])
    with Trace() as trace:
        torch.searchsorted(table, asked)
    assert (trace.span, trace.other_ops) == (7, 21)  # 2^7 > 100 comparisons, one after the other, for each
    with Trace() as trace:
        torch.bincount(torch.tensor([1, 1, 4, 2, 2]))
    assert trace.span == tree_depth(5)
    with Trace() as trace:
        asked >> 1
    assert (trace.span, trace.flops) == (1, 0)
    assert not trace.unknown_ops


def test_norms_over_groups_equal_a_layer_norm_of_each():
    """One group of all channels is a layer norm over channels and places."""
    x = torch.randn(2, 6, 4, requires_grad=True)
    group, layer = nn.GroupNorm(1, 6), nn.LayerNorm((6, 4))
    with Trace() as ours:
        group(x)
    with Trace() as theirs:
        layer(x)
    assert ours.span == theirs.span
    assert not ours.unknown_ops
    out = nn.GroupNorm(3, 6)(x).sum()
    with Trace() as back:
        out.backward()
    assert not back.unknown_ops
    assert back.span >= tree_depth(8)


def test_an_operator_without_a_rule_is_named():
    with Trace() as trace:
        torch.linalg.det(torch.eye(3))
    assert trace.unknown_ops


def test_chains_add_up_and_branches_do_not():
    x = torch.randn(4, 4)
    with Trace() as trace:
        a, b = x.tanh(), x.exp()
        (a + b).relu()
    assert trace.span == 3
