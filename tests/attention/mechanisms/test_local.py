"""Local attention equals plain loops over the pairs."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.attention.masks import Mask
from regard.attention.token_positions import Grid, QueryKeyPositions
from regard.attention.window import WindowScores, split_blocks
from regard.errors import UserError
from regard.inspect import record
from regard.layers import MultiHeadAttention
from regard.testing import CHECKS
from regard.testing.mechanism_case import cases

H, D = 3, 5


def naive(query, key, value, window, *, q0=0, keys=None, causal=False, bias=None):
    """softmax over the allowed keys, one query at a time."""
    b, h, q, d = query.shape
    out, weights = torch.zeros(b, h, q, value.shape[-1], dtype=query.dtype), torch.zeros(b, h, q, key.shape[2])
    weights = weights.to(query.dtype)
    for i in range(b):
        for j in range(h):
            for t in range(q):
                seen = [
                    s
                    for s in range(key.shape[2])
                    if abs(q0 + t - s) <= window and (keys is None or keys[i, s]) and (not causal or s <= q0 + t)
                ]
                if not seen:
                    continue
                scores = torch.stack([query[i, j, t] @ key[i, j, s] / d**0.5 for s in seen])
                if bias is not None:
                    scores = scores + torch.stack([bias(j, s - q0 - t) for s in seen])
                weight = torch.exp(scores - scores.max())
                weight = weight / weight.sum()
                weights[i, j, t, seen] = weight
                out[i, j, t] = weight @ value[i, j, seen]
    return out, weights


def random_inputs(b: int, q: int, k: int, seed: int = 0, dtype=torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    g = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(b, H, n, D, generator=g, dtype=dtype) for n in (q, k, k))  # type: ignore[return-value]


def window_scores(query: Tensor, key: Tensor, window: int, q0: int = 0, **more) -> WindowScores:
    qk_positions = QueryKeyPositions(range(q0, q0 + query.shape[2]), range(key.shape[2]))
    return WindowScores(query, key, qk_positions, D**-0.5, window, **more)


def in_blocks(scores: WindowScores, mask: Mask | None = None) -> bool:
    blocks = scores._blocks(mask)
    return blocks is not None and blocks.num_pairs < scores.query.shape[2] * scores.key.shape[2]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("q", "k", "q0", "window"), [(97, 97, 0, 5), (131, 131, 0, 3), (83, 127, 44, 7), (71, 149, 23, 2)]
)
def test_equals_loops(q, k, q0, window, causal):
    query, key, value = random_inputs(2, q, k)
    keys = torch.rand(2, k, generator=torch.Generator().manual_seed(1)) > 0.3
    keys[1, 20:60] = False  # hides entire windows
    mask = Mask(key_mask=keys, causal=causal)
    scores = window_scores(query, key, window, q0)
    assert in_blocks(scores, mask)
    out, weights = naive(query, key, value, window, q0=q0, keys=keys, causal=causal)
    assert (weights.sum(-1) == 0).any(), "the test needs a row without allowed keys"
    torch.testing.assert_close(scores.attend(value, mask), out)
    torch.testing.assert_close(scores.weights(mask), weights)
    assert torch.equal(scores.weights(mask) == 0, weights == 0)
    torch.testing.assert_close(scores.apply(scores.weights(mask), value), out)


@settings(max_examples=40, deadline=None)
@given(
    b=st.integers(1, 3),
    n=st.integers(1, 150),
    window=st.integers(1, 160),
    back=st.integers(0, 40),
    ahead=st.integers(0, 10),
    causal=st.booleans(),
    padded=st.booleans(),
    seed=st.integers(0, 99),
)
def test_blocks_equal_dense_for_all_sizes(b, n, window, back, ahead, causal, padded, seed):
    query, key, value = random_inputs(b, n, back + n + ahead, seed)
    keys = torch.rand(b, key.shape[2], generator=torch.Generator().manual_seed(seed)) > 0.5 if padded else None
    mask = Mask(key_mask=keys, causal=causal)
    scores = window_scores(query, key, window, back)
    weights = scores.weights(mask)
    torch.testing.assert_close(scores.attend(value, mask), weights @ value)
    band = scores.window_weights(mask)
    assert band.shape == (b, H, n, 2 * window + 1)
    dense = torch.zeros_like(weights)
    for t in range(n):
        for o in range(2 * window + 1):
            if 0 <= back + t + o - window < key.shape[2]:
                dense[:, :, t, back + t + o - window] = band[:, :, t, o]
            else:
                assert not band[:, :, t, o].any()
    torch.testing.assert_close(dense, weights)
    assert torch.equal(dense == 0, weights == 0)


@pytest.mark.parametrize("causal", [False, True])
def test_gradients(causal):
    query, key, value = (x.requires_grad_() for x in random_inputs(1, 70, 70))
    keys = torch.ones(1, 70, dtype=torch.bool)
    keys[:, 30:45] = False
    mask = Mask(key_mask=keys, causal=causal)
    assert in_blocks(window_scores(query, key, 3), mask)
    by_blocks = torch.autograd.grad(
        window_scores(query, key, 3).attend(value, mask).square().sum(), (query, key, value)
    )
    by_loops = torch.autograd.grad(
        naive(query, key, value, 3, keys=keys, causal=causal)[0].square().sum(), (query, key, value)
    )
    for actual, expected in zip(by_blocks, by_loops, strict=True):
        torch.testing.assert_close(actual, expected)
    small = [x[:, :1, :, :2].detach().requires_grad_() for x in (query, key, value)]
    assert torch.autograd.gradcheck(lambda q, k, v: window_scores(q, k, 2).attend(v, mask), small, fast_mode=True)
    assert torch.autograd.gradcheck(lambda q, k: window_scores(q, k, 2).window_weights(mask), small[:2], fast_mode=True)


@pytest.mark.parametrize("distance_only", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_the_bias_is_computed_for_blocks_only(distance_only, causal):
    query, key, value = random_inputs(2, 101, 113)
    slopes = torch.tensor([0.1, 0.5, 2.0], dtype=torch.float64, requires_grad=True)
    lengths = []

    def bias(q_pos, k_pos):
        q_pos, k_pos = (torch.arange(a.start, a.stop) if isinstance(a, range) else a for a in (q_pos, k_pos))
        lengths.append(max(q_pos.shape[-1], k_pos.shape[-1]))
        distance = (k_pos[..., None, :] - q_pos[..., :, None]).abs()
        distance = distance[:, None] if distance.dim() == 3 else distance[None, None]
        return -slopes[:, None, None] * distance

    keys = torch.ones(2, 113, dtype=torch.bool)
    keys[0, 40:70] = False
    mask = Mask(key_mask=keys, causal=causal)
    scores = window_scores(query, key, 4, 6, bias=bias, distance_only=distance_only)
    actual = scores.attend(value, mask)
    assert lengths
    assert max(lengths) <= 32 + 2 * 4
    expected, weights = naive(
        query, key, value, 4, q0=6, keys=keys, causal=causal, bias=lambda j, distance: -slopes[j] * abs(distance)
    )
    torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(scores.weights(mask), weights)
    g1, g2 = (torch.autograd.grad(x.square().sum(), slopes)[0] for x in (actual, expected))
    torch.testing.assert_close(g1, g2)


@pytest.mark.parametrize("positions", [None, "rotary", "alibi", "t5"])
def test_a_layer_equals_dot_with_a_window_in_the_mask(positions):
    torch.manual_seed(0)
    local = MultiHeadAttention(12, 2, "local:window=4", positions=positions)
    dot = MultiHeadAttention(12, 2, "dot", positions=positions)
    dot.load_state_dict(local.state_dict())
    x = torch.randn(3, 103, 12)
    position = torch.arange(103)
    band = (position[:, None] - position).abs() <= 4
    key_mask = position[None] < torch.tensor([103, 50, 1])[:, None]
    for mask in (None, key_mask):
        for causal in (False, True):
            expected = dot(x, key_mask=mask, attn_mask=band, causal=causal)
            torch.testing.assert_close(local(x, key_mask=mask, causal=causal), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("positions", [None, "rotary", "alibi", "t5"])
@pytest.mark.parametrize("stride", [1, 2, 41])
def test_steps_equal_one_pass_and_cache_a_window(positions, stride):
    torch.manual_seed(0)
    layer = MultiHeadAttention(12, 2, "local:window=5", positions=positions).eval()
    x = torch.randn(2, 83, 12)
    expected = layer(x, causal=True)
    for grad in (False, True):
        with torch.set_grad_enabled(grad):
            cache, parts = None, []
            for start in range(0, 83, stride):
                out, cache = layer.step(x[:, start : start + stride], cache)
                parts.append(out)
                if start:
                    assert len(cache) <= 5 + stride
            torch.testing.assert_close(torch.cat(parts, 1), expected, atol=1e-5, rtol=1e-5)


def test_padding_is_invisible_even_as_nan():
    torch.manual_seed(0)
    layer = MultiHeadAttention(12, 2, "local:window=3")
    x = torch.randn(2, 120, 12)
    key_mask = torch.arange(120)[None] < torch.tensor([[77], [101]])
    clean = layer(x, key_mask=key_mask)
    with_nan = x.clone()
    with_nan[~key_mask] = torch.nan
    with_nan.requires_grad_()
    out = layer(with_nan, key_mask=key_mask)
    assert torch.equal(out[key_mask], clean[key_mask])
    out[key_mask].sum().backward()
    for parameter in layer.parameters():
        assert parameter.grad is not None
        assert torch.isfinite(parameter.grad).all()
    alone = layer(x[:1, :77])
    torch.testing.assert_close(out[:1, :77], alone, atol=1e-5, rtol=1e-5)


def test_recorded_weights_lie_in_the_window_and_give_the_output():
    torch.manual_seed(0)
    layer = MultiHeadAttention(12, 2, "local:window=3")
    x = torch.randn(1, 90, 12)
    with record(layer) as recording:
        out = layer(x)
    weights = recording["attend"]
    position = torch.arange(90)
    assert torch.equal(weights[0, 0] > 0, (position[:, None] - position).abs() <= 3)
    values = layer.mechanism.project_qkv(x, range(90))[2]
    torch.testing.assert_close(layer.out((weights @ values).transpose(1, 2).flatten(2)), out, atol=1e-5, rtol=1e-5)


def test_positions_that_differ_between_rows():
    """With left padding the window is part of the mask."""
    query, key, value = random_inputs(2, 40, 40)
    position_ids = torch.arange(40) - torch.tensor([[7], [0]])
    scores = WindowScores(query, key, QueryKeyPositions(position_ids, position_ids), D**-0.5, 3)
    torch.testing.assert_close(scores.attend(value), naive(query, key, value, 3)[0])
    with pytest.raises(UserError, match="consecutive positions"):
        scores.window_weights()


def test_a_grid_is_treated_as_a_sequence():
    query, key, value = random_inputs(1, 77, 77)
    flat = WindowScores(query, key, QueryKeyPositions(range(77), range(77)), D**-0.5, 3).attend(value)
    grid = WindowScores(query, key, QueryKeyPositions(Grid(7, 11), Grid(7, 11)), D**-0.5, 3).attend(value)
    assert torch.equal(flat, grid)


def test_blocks_grow_linearly():
    """The number of scores for each position does not depend on the length."""
    sizes = {
        n: blocks.num_pairs / n
        for n in (512, 1024, 8192, 65536)
        if (blocks := split_blocks(range(n), range(n), 128, False))
    }
    assert set(sizes.values()) == {128 + 2 * 128}
    layer = MultiHeadAttention(16, 2, "local:window=128")
    assert layer.cost(8192).memory == 2 * layer.cost(4096).memory
    assert layer.cost(8192).path == 64


@pytest.mark.parametrize("positions", ["none", "t5"])
def test_the_contract_holds_in_blocks(positions):
    """The sizes of the contract are too small for blocks; these are large enough."""
    (case,) = cases("local:window=3", positions=positions, lengths=(71, 71))
    for name, check in CHECKS.items():
        if positions == "none" or name != "traced":  # tracing is slow, and once is enough
            check(case)


def test_bad_window():
    with pytest.raises(UserError, match="window must be at least 1"):
        MultiHeadAttention(8, 2, "local:window=0")
    with pytest.raises(UserError, match="did you mean 'window'"):
        MultiHeadAttention(8, 2, "local:windw=3")
    with pytest.raises(UserError, match="self-attention only"):
        MultiHeadAttention(8, 2, "local")(torch.zeros(1, 3, 8), torch.zeros(1, 4, 8))
