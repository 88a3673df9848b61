"""Shaw's relative positions against the formula with its n x n x d tensor."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention import clipped_distance
from regard.attention.masks import Mask
from regard.attention.mechanisms.relative import RelativeScores
from regard.attention.token_positions import QueryKeyPositions
from regard.errors import UserError
from regard.inspect import record
from regard.layers import MultiHeadAttention

H, D, V = 3, 5, 7


def naive(query, key, value, on_keys, on_values, clip, *, shift=0, allowed=None):
    """Equations 3 and 4 of the paper, pair by pair; `shift` is the position of the first key minus that of the first
    query."""
    b, h, q, d = query.shape
    out = torch.zeros(b, h, q, value.shape[-1], dtype=query.dtype)
    for i in range(b):
        for t in range(q):
            seen = [s for s in range(key.shape[2]) if allowed is None or allowed[i, t, s]]
            if not seen:
                continue
            distance = [max(-clip, min(clip, s + shift - t)) + clip for s in seen]
            for j in range(h):
                scores = (key[i, j, seen] + on_keys[distance]) @ query[i, j, t] / d**0.5
                weight = torch.exp(scores - scores.max())
                weight = weight / weight.sum()
                extra = 0 if on_values is None else on_values[distance]
                out[i, j, t] = weight @ (value[i, j, seen] + extra)
    return out


def random_inputs(b, q, k, clip, seed=0):
    g = torch.Generator().manual_seed(seed)

    def one(*shape):
        return torch.randn(*shape, generator=g, dtype=torch.float64)

    return one(b, H, q, D), one(b, H, k, D), one(b, H, k, V), one(2 * clip + 1, D), one(2 * clip + 1, V)


@settings(max_examples=30, deadline=None)
@given(
    b=st.integers(1, 2),
    q=st.integers(1, 80),
    k=st.integers(1, 80),
    clip=st.integers(1, 90),
    shift=st.integers(-90, 90),
    values=st.booleans(),
    seed=st.integers(0, 99),
)
def test_equals_the_formula_at_any_offset(b, q, k, clip, shift, values, seed):
    query, key, value, on_keys, on_values = random_inputs(b, q, k, clip, seed)
    allowed = torch.rand(b, q, k, generator=torch.Generator().manual_seed(seed)) > 0.4
    expected = naive(query, key, value, on_keys, on_values if values else None, clip, shift=shift, allowed=allowed)
    qk_positions = QueryKeyPositions(range(100, 100 + q), range(100 + shift, 100 + shift + k))
    tensors = QueryKeyPositions(torch.arange(100, 100 + q), torch.arange(100 + shift, 100 + shift + k).expand(b, k))
    for position_ids in (qk_positions, tensors):
        scores = RelativeScores(query * D**-0.5, key, position_ids, on_keys, on_values if values else None)
        mask = Mask(attn_mask=allowed[:, None])
        torch.testing.assert_close(scores.attend(value, mask), expected)
        weights = scores.weights(mask)
        assert torch.equal(weights == 0, ~allowed[:, None].expand_as(weights))


def test_blocks_of_rows_equal_the_formula_and_its_gradients():
    clip, n = 4, 2 * clipped_distance.BLOCK_ROWS + 9
    inputs = [x.requires_grad_() for x in random_inputs(1, n, n, clip)]
    query, key, value, on_keys, on_values = inputs
    scores = RelativeScores(query * D**-0.5, key, QueryKeyPositions(range(n), range(n)), on_keys, on_values)
    actual, expected = scores.attend(value), naive(*inputs, clip)
    torch.testing.assert_close(actual, expected)
    for g, w in zip(*(torch.autograd.grad(x.square().sum(), inputs) for x in (actual, expected)), strict=True):
        torch.testing.assert_close(g, w)


@pytest.mark.parametrize("shift", [0, -3, 2])
def test_gradcheck(shift, monkeypatch):
    monkeypatch.setattr(clipped_distance, "BLOCK_ROWS", 3)
    query, key, value, on_keys, on_values = (
        x[:1, :2].clone() if x.dim() == 4 else x for x in random_inputs(1, 7, 11, 2)
    )
    weights = torch.rand(1, 2, 7, 11, dtype=torch.float64)
    inputs = [x.requires_grad_() for x in (query, key, on_keys)]
    assert torch.autograd.gradcheck(lambda *x: clipped_distance.logits(*x, shift), inputs)
    assert torch.autograd.gradgradcheck(lambda *x: clipped_distance.logits(*x, shift), inputs, fast_mode=True)
    inputs = [x.requires_grad_() for x in (weights, value, on_values)]
    assert torch.autograd.gradcheck(lambda *x: clipped_distance.apply(*x, shift), inputs)
    assert torch.autograd.gradgradcheck(lambda *x: clipped_distance.apply(*x, shift), inputs, fast_mode=True)


def test_add_by_distance_is_the_transpose_of_sum_by_distance():
    near, pairs = torch.randn(2, 67, 11, dtype=torch.float64), torch.randn(2, 67, 71, dtype=torch.float64)
    there = (clipped_distance.add_by_distance(near, -2, torch.zeros_like(pairs)) * pairs).sum()
    back = (clipped_distance.sum_by_distance(pairs, -2, 11) * near).sum()
    torch.testing.assert_close(there, back)


@pytest.mark.parametrize("values", [True, False])
@pytest.mark.parametrize("stride", [1, 3, 20])
def test_steps_equal_one_pass(values, stride):
    torch.manual_seed(0)
    layer = MultiHeadAttention(12, 2, "relative", clip=4, values=values).eval()
    x = torch.randn(2, 29, 12)
    expected, cache, parts = layer(x, causal=True), None, []
    with torch.no_grad():
        for start in range(0, 29, stride):
            out, cache = layer.step(x[:, start : start + stride], cache)
            parts.append(out)
    torch.testing.assert_close(torch.cat(parts, 1), expected, atol=1e-5, rtol=1e-5)


def test_scores_depend_on_the_distance_only():
    torch.manual_seed(0)
    layer = MultiHeadAttention(12, 2, "relative:clip=3")
    x = torch.randn(1, 17, 12)
    torch.testing.assert_close(layer(x, position_ids=range(17)), layer(x, position_ids=range(1000, 1017)))
    torch.testing.assert_close(
        layer(x, position_ids=range(17)), layer(x, position_ids=torch.arange(40, 57)[None]), atol=1e-5, rtol=1e-5
    )
    assert not torch.allclose(layer(x), layer(x, position_ids=2 * torch.arange(17)), atol=1e-3)


def test_padding_is_invisible_even_as_nan():
    torch.manual_seed(0)
    layer = MultiHeadAttention(12, 2, "relative:clip=3")
    x = torch.randn(2, 70, 12)
    key_mask = torch.arange(70)[None] < torch.tensor([[41], [70]])
    with_nan = x.clone()
    with_nan[~key_mask] = torch.nan
    out = layer(with_nan, key_mask=key_mask)
    torch.testing.assert_close(out[:1, :41], layer(x[:1, :41]), atol=1e-5, rtol=1e-5)
    out[key_mask].sum().backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in layer.parameters())
    nothing = layer(x, key_mask=torch.tensor([[False] * 70, [True] * 70]))
    torch.testing.assert_close(nothing[0], layer.out.bias.expand(70, -1))


def test_recorded_weights_applied_with_value_embeddings_give_the_output():
    torch.manual_seed(0)
    layer = MultiHeadAttention(12, 2, "relative:clip=3")
    x = torch.randn(1, 23, 12)
    with record(layer) as recording:
        out = layer(x)
    q, k, v = layer.mechanism.project_qkv(x, range(23))
    scores = layer.mechanism.score(q, k, QueryKeyPositions(range(23), range(23)))
    again = layer.out(scores.apply(recording["attend"], v).transpose(1, 2).flatten(2))
    torch.testing.assert_close(again, out, atol=1e-6, rtol=1e-5)
    plain = layer.out((recording["attend"] @ v).transpose(1, 2).flatten(2))
    assert not torch.allclose(plain, out, atol=1e-3)


def test_no_tensor_is_larger_than_the_scores():
    """No tensor of n x n x d is created."""
    from torch.utils._python_dispatch import TorchDispatchMode

    largest = 0

    class LargestTensor(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            nonlocal largest
            out = func(*args, **(kwargs or {}))
            if isinstance(out, torch.Tensor):
                largest = max(largest, out.numel())
            return out

    layer = MultiHeadAttention(32, 2, "relative:clip=4")
    x = torch.randn(1, 100, 32, requires_grad=True)
    with LargestTensor():
        layer(x).sum().backward()
    assert largest <= 2 * 100 * 100


def test_bad_options():
    with pytest.raises(UserError, match="clip must be at least 1"):
        MultiHeadAttention(8, 2, "relative:clip=0")
    with pytest.raises(UserError, match="does not support 'rotary'"):
        MultiHeadAttention(8, 2, "relative", positions="rotary")
    with pytest.raises(UserError, match="self-attention only"):
        MultiHeadAttention(8, 2, "relative")(torch.zeros(1, 3, 8), torch.zeros(1, 4, 8))
