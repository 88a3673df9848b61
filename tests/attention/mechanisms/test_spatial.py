"""Attention over images: grids equal sequences, neighbourhoods equal plain loops."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention.masks import Mask
from regard.attention.mechanisms import MECHANISMS
from regard.attention.positions import build
from regard.attention.token_positions import Grid, QueryKeyPositions
from regard.attention.window_2d import Window2dScores, split_tiles
from regard.errors import UserError
from regard.inspect import record
from regard.layers import MultiHeadAttention
from regard.layers.spatial_attention import SpatialAttention

H, D = 2, 3


def naive(query, key, value, grid: Grid, window: int, keys=None, causal=False, bias=None):
    """Plain loops over queries and their neighbours."""
    b, h, n, d = query.shape
    out = torch.zeros_like(value)
    for i in range(b):
        for t in range(n):
            y, x = divmod(t, grid.width)
            seen = [
                s
                for s in range(n)
                if abs(s // grid.width - y) <= window
                and abs(s % grid.width - x) <= window
                and (keys is None or keys[i, s])
                and (not causal or s <= t)
            ]
            if not seen:
                continue
            for j in range(h):
                scores = key[i, j, seen] @ query[i, j, t] / d**0.5
                if bias is not None:
                    scores = scores + torch.tensor([bias(j, s - t) for s in seen])
                weight = torch.exp(scores - scores.max())
                out[i, j, t] = (weight / weight.sum()) @ value[i, j, seen]
    return out


def random_inputs(b: int, n: int, seed: int = 0):
    g = torch.Generator().manual_seed(seed)
    return [torch.randn(b, H, n, D, generator=g, dtype=torch.float64) for _ in range(3)]


def window_2d_scores(query, key, grid, window, bias=None) -> Window2dScores:
    return Window2dScores(query, key, QueryKeyPositions(grid, grid, "grid", "grid"), grid, D**-0.5, window, bias)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("grid", [Grid(19, 23), Grid(5, 67), Grid(53, 3)])
def test_neighbourhood_equals_loops(grid, causal):
    window, n = 2, len(grid)
    assert split_tiles(grid, window).num_pairs < n * n, "the image is too small for tiles"
    query, key, value = random_inputs(2, n)
    keys = torch.rand(2, n, generator=torch.Generator().manual_seed(1)) > 0.4
    keys[0, : n // 2] = False
    mask, scores = Mask(key_mask=keys, causal=causal), window_2d_scores(query, key, grid, window)
    expected = naive(query, key, value, grid, window, keys, causal)
    torch.testing.assert_close(scores.attend(value, mask), expected)
    torch.testing.assert_close(scores.apply(scores.weights(mask), value), expected)
    torch.testing.assert_close(scores.attend(value), naive(query, key, value, grid, window))


@settings(max_examples=30, deadline=None)
@given(
    height=st.integers(1, 30),
    width=st.integers(1, 30),
    window=st.integers(1, 12),
    causal=st.booleans(),
    padded=st.booleans(),
    biased=st.booleans(),
)
def test_tiles_equal_dense_for_all_sizes(height, width, window, causal, padded, biased):
    grid = Grid(height, width)
    query, key, value = (x.requires_grad_() for x in random_inputs(2, len(grid), height))
    keys = torch.rand(2, len(grid), generator=torch.Generator().manual_seed(width)) > 0.5 if padded else None
    bias = build("alibi", 4, H).double().bias if biased else None
    mask, scores = Mask(key_mask=keys, causal=causal), window_2d_scores(query, key, grid, window, bias)
    actual, expected = scores.attend(value, mask), scores.apply(scores.weights(mask), value)
    torch.testing.assert_close(actual, expected)
    for a, b in zip(
        *(torch.autograd.grad(x.square().sum(), (query, key, value)) for x in (actual, expected)), strict=True
    ):
        torch.testing.assert_close(a, b)


def test_the_bias_on_an_image_is_that_of_the_flattened_sequence():
    grid = Grid(17, 19)
    query, key, value = random_inputs(1, len(grid))
    alibi = build("alibi", 4, H).double()
    expected = naive(query, key, value, grid, 1, bias=lambda j, distance: float(-alibi.slopes[j] * abs(distance)))
    torch.testing.assert_close(window_2d_scores(query, key, grid, 1, alibi.bias).attend(value), expected)


def test_tiles_grow_linearly():
    """The number of scores grows linearly with the number of positions."""
    assert split_tiles(Grid(64, 64), 3).num_pairs * 4 == split_tiles(Grid(128, 128), 3).num_pairs


@pytest.mark.parametrize("positions", [None, "rotary", "alibi", "t5", "axial", "relative-2d"])
@pytest.mark.parametrize("mechanism", ["dot", "local:window=3", "local-2d:window=3", "relative:clip=3", "additive"])
def test_a_grid_of_height_one_is_a_sequence(mechanism, positions):
    torch.manual_seed(0)
    try:
        layer = SpatialAttention(12, 3, mechanism, positions=positions)
    except UserError:
        pytest.skip("this mechanism does not support these positions")
    x = torch.randn(2, 1, 61, 12)
    key_mask = torch.arange(61)[None] < torch.tensor([[61], [40]])
    for mask in (None, key_mask):
        for causal in (False, True):
            expected = layer.attention(x[:, 0], key_mask=mask, causal=causal)
            actual = layer(x, key_mask=None if mask is None else mask[:, None], causal=causal)
            assert actual.shape == x.shape
            torch.testing.assert_close(actual[:, 0], expected, atol=1e-6, rtol=1e-5)


def test_local_2d_on_a_sequence_is_local():
    torch.manual_seed(0)
    one, two = MultiHeadAttention(12, 3, "local:window=3"), MultiHeadAttention(12, 3, "local-2d:window=3")
    two.load_state_dict(one.state_dict())
    x = torch.randn(2, 90, 12)
    assert torch.equal(one(x), two(x))
    cache, parts = None, []
    with torch.no_grad():
        for start in range(0, 90, 7):
            out, cache = two.step(x[:, start : start + 7], cache)
            parts.append(out)
    torch.testing.assert_close(torch.cat(parts, 1), two(x, causal=True), atol=1e-5, rtol=1e-5)


def test_axes_are_not_exchanged():
    """A transposed image gives the transposed result; a change affects its neighbourhood only."""
    torch.manual_seed(0)
    layer = SpatialAttention(12, 3, "local-2d:window=2")
    x = torch.randn(1, 13, 29, 12)
    torch.testing.assert_close(layer(x.transpose(1, 2)).transpose(1, 2), layer(x), atol=1e-5, rtol=1e-5)
    changed = x.clone()
    changed[0, 4, 11] += 10.0
    moved = (layer(changed) - layer(x)).abs().amax(-1)[0] > 1e-6
    y, column = torch.meshgrid(torch.arange(13), torch.arange(29), indexing="ij")
    assert torch.equal(moved, ((y - 4).abs() <= 2) & ((column - 11).abs() <= 2))


@pytest.mark.parametrize("mechanism", ["dot", "bilinear"])
def test_states_attend_to_an_image(mechanism):
    torch.manual_seed(0)
    layer = SpatialAttention(12, 3, mechanism, context_dim=7)
    states, image = torch.randn(2, 5, 12), torch.randn(2, 3, 11, 7)
    key_mask = torch.ones(2, 3, 11, dtype=torch.bool)
    key_mask[1, 2:] = False
    with_nan = image.clone()
    with_nan[~key_mask] = torch.nan
    with record(layer) as recording:
        out = layer(states, with_nan, key_mask=key_mask)
    call = recording.calls[0]
    assert (call.qk_positions.query_axis, call.qk_positions.key_axis, call.qk_positions.k_pos) == (
        "tokens",
        "grid",
        Grid(3, 11),
    )
    assert call.weights.shape == (2, 3, 5, 33)
    torch.testing.assert_close(call.weights.sum(-1), torch.ones(2, 3, 5))
    assert not call.weights.unflatten(-1, (3, 11))[1, :, :, 2:].any()
    flat = layer.attention(states, with_nan.flatten(1, 2), key_mask=key_mask.flatten(1))
    assert torch.equal(out, flat)
    context = layer.project_kv(with_nan, key_mask=key_mask)
    torch.testing.assert_close(torch.cat([layer(s, context) for s in states.split(1, 1)], 1), out, atol=1e-6, rtol=1e-5)


def test_attention_to_an_image_is_the_captioning_equation():
    """α = softmax over (y, x) of h W^key M[y, x]; the context is Σ α M[y, x]."""
    torch.manual_seed(0)
    layer = SpatialAttention(5, 1, "bilinear:values=false", context_dim=7, output_proj=False, bias=False)
    h, image = torch.randn(1, 1, 5), torch.randn(1, 3, 4, 7)
    w = layer.attention.mechanism.q.weight.detach().reshape(7, 5)
    scores = torch.tensor([[float(w @ h[0, 0] @ image[0, y, x]) for x in range(4)] for y in range(3)])
    alpha = (scores - scores.max()).exp()
    alpha = alpha / alpha.sum()
    context = sum(alpha[y, x] * image[0, y, x] for y in range(3) for x in range(4))
    torch.testing.assert_close(layer(h, image)[0, 0], context, atol=1e-5, rtol=1e-5)


def test_an_image_attends_to_another():
    torch.manual_seed(0)
    layer = SpatialAttention(12, 3)
    x, context = torch.randn(2, 3, 5, 12), torch.randn(2, 7, 2, 12)
    out = layer(x, context)
    assert out.shape == x.shape
    torch.testing.assert_close(out.flatten(1, 2), layer.attention(x.flatten(1, 2), context.flatten(1, 2)))


def test_axes_are_labelled_grid():
    layer = SpatialAttention(12, 3, "local-2d:window=2")
    with record(layer) as recording:
        layer(torch.randn(1, 4, 5, 12))
    qk_positions = recording.calls[0].qk_positions
    assert (qk_positions.query_axis, qk_positions.key_axis, qk_positions.q_pos, qk_positions.k_pos) == (
        "grid",
        "grid",
        Grid(4, 5),
        Grid(4, 5),
    )


@pytest.mark.parametrize("mechanism", [name for name, cls in MECHANISMS.items() if not cls.supports_cross_attention])
def test_mechanisms_without_cross_attention_raise_for_another_image(mechanism):
    layer, image = SpatialAttention(12, 3, mechanism), torch.randn(1, 3, 4, 12)
    assert layer(image).shape == image.shape
    for x in (torch.randn(1, 5, 12), image):
        with pytest.raises(UserError, match=f"{mechanism!r} supports self-attention only"):
            layer(x, image)


def test_bad_shapes():
    layer = SpatialAttention(12, 3)
    with pytest.raises(UserError, match="takes a grid"):
        layer(torch.zeros(1, 5, 12))
    with pytest.raises(UserError, match="a grid has shape"):
        layer(torch.zeros(1, 5, 12), torch.zeros(1, 5, 12))
    with pytest.raises(UserError, match="mask of a grid"):
        layer(torch.zeros(1, 3, 5, 12), key_mask=torch.ones(1, 15, dtype=torch.bool))
