"""Attention over pictures: grids against sequences, neighbourhoods against loops."""

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
    """One query at a time, over the neighbours it may see."""
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


def draw(b: int, n: int, seed: int = 0):
    g = torch.Generator().manual_seed(seed)
    return [torch.randn(b, H, n, D, generator=g, dtype=torch.float64) for _ in range(3)]


def tiled(query, key, grid, window, bias=None) -> Window2dScores:
    return Window2dScores(query, key, QueryKeyPositions(grid, grid, "grid", "grid"), grid, D**-0.5, window, bias)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("grid", [Grid(19, 23), Grid(5, 67), Grid(53, 3)])
def test_neighbourhood_equals_loops(grid, causal):
    window, n = 2, len(grid)
    assert split_tiles(grid, window).num_pairs < n * n, "the picture is too small to be cut into tiles"
    query, key, value = draw(2, n)
    keys = torch.rand(2, n, generator=torch.Generator().manual_seed(1)) > 0.4
    keys[0, : n // 2] = False
    mask, scores = Mask(key_mask=keys, causal=causal), tiled(query, key, grid, window)
    want = naive(query, key, value, grid, window, keys, causal)
    torch.testing.assert_close(scores.attend(value, mask), want)
    torch.testing.assert_close(scores.apply(scores.weights(mask), value), want)
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
    query, key, value = (x.requires_grad_() for x in draw(2, len(grid), height))
    keys = torch.rand(2, len(grid), generator=torch.Generator().manual_seed(width)) > 0.5 if padded else None
    bias = build("alibi", 4, H).double().bias if biased else None
    mask, scores = Mask(key_mask=keys, causal=causal), tiled(query, key, grid, window, bias)
    got, want = scores.attend(value, mask), scores.apply(scores.weights(mask), value)
    torch.testing.assert_close(got, want)
    for a, b in zip(*(torch.autograd.grad(x.square().sum(), (query, key, value)) for x in (got, want)), strict=True):
        torch.testing.assert_close(a, b)


def test_bias_on_a_picture_is_that_of_the_flattened_order():
    grid = Grid(17, 19)
    query, key, value = draw(1, len(grid))
    alibi = build("alibi", 4, H).double()
    want = naive(query, key, value, grid, 1, bias=lambda j, away: float(-alibi.slopes[j] * abs(away)))
    torch.testing.assert_close(tiled(query, key, grid, 1, alibi.bias).attend(value), want)


def test_tiles_grow_linearly():
    """Counted, not timed."""
    assert split_tiles(Grid(64, 64), 3).num_pairs * 4 == split_tiles(Grid(128, 128), 3).num_pairs


@pytest.mark.parametrize("positions", [None, "rotary", "alibi", "t5", "axial", "relative-2d"])
@pytest.mark.parametrize("mechanism", ["dot", "local:window=3", "local-2d:window=3", "relative:clip=3", "additive"])
def test_a_grid_of_height_one_is_a_sequence(mechanism, positions):
    torch.manual_seed(0)
    try:
        layer = SpatialAttention(12, 3, mechanism, positions=positions)
    except UserError:
        pytest.skip("an undefined pair")
    x = torch.randn(2, 1, 61, 12)
    real = torch.arange(61)[None] < torch.tensor([[61], [40]])
    for mask in (None, real):
        for causal in (False, True):
            want = layer.attention(x[:, 0], key_mask=mask, causal=causal)
            got = layer(x, key_mask=None if mask is None else mask[:, None], causal=causal)
            assert got.shape == x.shape
            torch.testing.assert_close(got[:, 0], want, atol=1e-6, rtol=1e-5)


def test_local_2d_on_a_sequence_is_local():
    torch.manual_seed(0)
    one, two = MultiHeadAttention(12, 3, "local:window=3"), MultiHeadAttention(12, 3, "local-2d:window=3")
    two.load_state_dict(one.state_dict())
    x = torch.randn(2, 90, 12)
    assert torch.equal(one(x), two(x))
    memory, parts = None, []
    with torch.no_grad():
        for start in range(0, 90, 7):
            out, memory = two.step(x[:, start : start + 7], memory)
            parts.append(out)
    torch.testing.assert_close(torch.cat(parts, 1), two(x, causal=True), atol=1e-5, rtol=1e-5)


def test_axes_are_not_exchanged():
    """A picture turned on its side gives the result turned on its side: neighbourhoods know rows from columns."""
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
def test_states_regard_a_picture(mechanism):
    torch.manual_seed(0)
    layer = SpatialAttention(12, 3, mechanism, context_dim=7)
    states, picture = torch.randn(2, 5, 12), torch.randn(2, 3, 11, 7)
    real = torch.ones(2, 3, 11, dtype=torch.bool)
    real[1, 2:] = False
    planted = picture.clone()
    planted[~real] = torch.nan
    with record(layer) as seen:
        out = layer(states, planted, key_mask=real)
    call = seen.calls[0]
    assert (call.qk_positions.query_axis, call.qk_positions.key_axis, call.qk_positions.k_pos) == (
        "tokens",
        "grid",
        Grid(3, 11),
    )
    assert call.weights.shape == (2, 3, 5, 33)
    torch.testing.assert_close(call.weights.sum(-1), torch.ones(2, 3, 5))
    assert not call.weights.unflatten(-1, (3, 11))[1, :, :, 2:].any()
    flat = layer.attention(states, planted.flatten(1, 2), key_mask=real.flatten(1))
    assert torch.equal(out, flat)
    memory = layer.project_kv(planted, key_mask=real)
    torch.testing.assert_close(torch.cat([layer(s, memory) for s in states.split(1, 1)], 1), out, atol=1e-6, rtol=1e-5)


def test_states_regard_a_picture_as_the_captioning_equation_says():
    """α = softmax over (y, x) of h W^key M[y, x]; the context is Σ α M[y, x]."""
    torch.manual_seed(0)
    layer = SpatialAttention(5, 1, "bilinear:values=false", context_dim=7, output_proj=False, bias=False)
    h, picture = torch.randn(1, 1, 5), torch.randn(1, 3, 4, 7)
    w = layer.attention.mechanism.q.weight.detach().reshape(7, 5)
    scores = torch.tensor([[float(w @ h[0, 0] @ picture[0, y, x]) for x in range(4)] for y in range(3)])
    alpha = (scores - scores.max()).exp()
    alpha = alpha / alpha.sum()
    context = sum(alpha[y, x] * picture[0, y, x] for y in range(3) for x in range(4))
    torch.testing.assert_close(layer(h, picture)[0, 0], context, atol=1e-5, rtol=1e-5)


def test_a_picture_regards_another():
    torch.manual_seed(0)
    layer = SpatialAttention(12, 3)
    x, memory = torch.randn(2, 3, 5, 12), torch.randn(2, 7, 2, 12)
    out = layer(x, memory)
    assert out.shape == x.shape
    torch.testing.assert_close(out.flatten(1, 2), layer.attention(x.flatten(1, 2), memory.flatten(1, 2)))


def test_axes_are_named_grid():
    layer = SpatialAttention(12, 3, "local-2d:window=2")
    with record(layer) as seen:
        layer(torch.randn(1, 4, 5, 12))
    qk_positions = seen.calls[0].qk_positions
    assert (qk_positions.query_axis, qk_positions.key_axis, qk_positions.q_pos, qk_positions.k_pos) == (
        "grid",
        "grid",
        Grid(4, 5),
        Grid(4, 5),
    )


@pytest.mark.parametrize("mechanism", [name for name, cls in MECHANISMS.items() if not cls.supports_cross_attention])
def test_what_is_about_its_own_places_regards_no_other_picture(mechanism):
    layer, picture = SpatialAttention(12, 3, mechanism), torch.randn(1, 3, 4, 12)
    assert layer(picture).shape == picture.shape
    for x in (torch.randn(1, 5, 12), picture):
        with pytest.raises(UserError, match=f"{mechanism!r} supports self-attention only"):
            layer(x, picture)


def test_bad_shapes():
    layer = SpatialAttention(12, 3)
    with pytest.raises(UserError, match="takes a grid"):
        layer(torch.zeros(1, 5, 12))
    with pytest.raises(UserError, match="a grid has shape"):
        layer(torch.zeros(1, 5, 12), torch.zeros(1, 5, 12))
    with pytest.raises(UserError, match="mask of a grid"):
        layer(torch.zeros(1, 3, 5, 12), key_mask=torch.ones(1, 15, dtype=torch.bool))
