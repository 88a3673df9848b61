"""A KV cache is extended, branched, truncated and selected from, and continuations do not share keys."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.attention.kv_cache import KVCache
from regard.layers import MultiHeadAttention

B, H, U, D = 2, 3, 5, 7


def make_cache(start: int, n: int, *, seed: int = 0, max_lookback: int | None = None) -> KVCache:
    """A cache of n positions with keys and values that depend on the start."""
    g = torch.Generator().manual_seed(1000 * seed + start)
    keys, values = torch.randn(B, H, n, U, generator=g), torch.randn(B, H, n, D, generator=g)
    return KVCache(keys, values, range(start, start + n), max_lookback=max_lookback)


def concat(*parts: KVCache) -> tuple[Tensor, Tensor]:
    return torch.cat([p.keys for p in parts], 2), torch.cat([p.values for p in parts], 2)


@pytest.mark.parametrize("grad", [False, True])
def test_extend_is_concatenation(grad: bool):
    a, b, c = make_cache(0, 3), make_cache(3, 1), make_cache(4, 2)
    with torch.set_grad_enabled(grad):
        cache = a.extend(b).extend(c)
    keys, values = concat(a, b, c)
    assert torch.equal(cache.keys, keys)
    assert torch.equal(cache.values, values)
    assert cache.position_ids == range(6)
    assert len(cache) == 6


def test_gradients_flow_through_cached_keys():
    a = make_cache(0, 2)
    a.keys.requires_grad_()
    a.extend(make_cache(2, 1)).keys.sum().backward()
    assert torch.equal(a.keys.grad, torch.ones_like(a.keys))


@torch.no_grad()
def test_a_step_writes_into_the_buffer_without_a_copy():
    cache = make_cache(0, 3).extend(make_cache(3, 1))
    longer = cache.extend(make_cache(4, 1))
    assert longer.keys.data_ptr() == cache.keys.data_ptr()


@torch.no_grad()
def test_two_continuations_do_not_overwrite_each_other():
    cache = make_cache(0, 3).extend(make_cache(3, 1))
    before = cache.keys.clone()
    one, two = cache.extend(make_cache(4, 1, seed=1)), cache.extend(make_cache(4, 1, seed=2))
    one, two = one.extend(make_cache(5, 1, seed=3)), two.extend(make_cache(5, 1, seed=4))
    assert torch.equal(one.keys[:, :, 4:], concat(make_cache(4, 1, seed=1), make_cache(5, 1, seed=3))[0])
    assert torch.equal(two.keys[:, :, 4:], concat(make_cache(4, 1, seed=2), make_cache(5, 1, seed=4))[0])
    assert torch.equal(cache.keys, before)


@torch.no_grad()
def test_extending_selected_rows_leaves_the_original_unchanged():
    cache = make_cache(0, 3).extend(make_cache(3, 1))
    selected = cache.select(torch.tensor([1, 1, 0]))
    assert selected.keys.shape[0] == 3
    assert torch.equal(selected.keys[0], cache.keys[1])
    before = cache.keys.clone()
    new = make_cache(4, 1)
    rows = KVCache(new.keys[[0, 0, 1]], new.values[[0, 0, 1]], new.position_ids)
    selected.extend(rows)
    assert torch.equal(cache.keys, before)


def test_selecting_rows_selects_their_mask_and_positions():
    key_mask, position_ids = torch.tensor([[True, True], [True, False]]), torch.tensor([[0, 1], [4, 5]])
    cache = KVCache(torch.randn(B, H, 2, U), torch.randn(B, H, 2, D), position_ids, key_mask)
    selected = cache.select(torch.tensor([1]))
    assert selected.key_mask.tolist() == [[True, False]]
    assert selected.position_ids.tolist() == [[4, 5]]


@pytest.mark.parametrize("grad", [False, True])
def test_max_lookback_drops_keys_that_no_later_query_needs(grad: bool):
    parts = [make_cache(i, 1, max_lookback=3) for i in range(200)]  # long enough to outgrow the first buffer
    with torch.set_grad_enabled(grad):
        cache = parts[0]
        for i in range(1, 200):
            cache = cache.extend(parts[i])
            low = max(0, i - 3)
            assert cache.position_ids == range(low, i + 1)  # max_lookback keys and the new one
            assert torch.equal(cache.keys, concat(*parts[low : i + 1])[0])
    assert cache._buffer is None or cache._buffer.keys.shape[2] <= 64


def test_masks_are_concatenated_and_a_missing_mask_means_no_padding():
    a, b = make_cache(0, 2), make_cache(2, 1)
    assert a.extend(b).key_mask is None
    a.key_mask = torch.tensor([[True, False], [True, True]])
    assert a.extend(b).key_mask.tolist() == [[True, False, True], [True, True, True]]
    assert b.extend(a).key_mask.tolist() == [[True, True, False], [True, True, True]]


def test_the_key_mask_of_a_call_is_combined_with_that_of_the_cache():
    layer = MultiHeadAttention(12, 2).double()
    x, context = torch.randn(2, 3, 12, dtype=torch.float64), torch.randn(2, 5, 12, dtype=torch.float64)
    key_mask = torch.arange(5) < torch.tensor([[5], [3]])
    first_hidden = (torch.arange(5) > 0).expand(2, 5)
    out = layer(x, layer.project_kv(context, key_mask=key_mask), key_mask=first_hidden)
    assert torch.equal(out, layer(x, context, key_mask=key_mask & first_hidden))
    assert torch.allclose(out[1], layer(x[1:], context[1:, 1:3])[0])


def test_position_ids_of_any_type_are_concatenated():
    a, b = make_cache(0, 2), make_cache(2, 1)
    assert a.extend(b).position_ids == range(3)
    b.position_ids = range(7, 8)  # a gap
    assert a.extend(b).position_ids.tolist() == [0, 1, 7]
    a.position_ids = torch.tensor([[0, 1], [2, 3]])
    assert a.extend(b).position_ids.tolist() == [[0, 1, 7], [2, 3, 7]]
    b.position_ids = torch.tensor([[2], [4]])
    assert a.extend(b).position_ids.tolist() == [[0, 1, 2], [2, 3, 4]]


def test_steps_continue_at_the_positions_of_each_row():
    """Rows start at different positions, as with left padding."""
    layer = MultiHeadAttention(12, 2, positions="alibi").double().eval()
    x = torch.randn(2, 6, 12, dtype=torch.float64)
    position_ids = torch.arange(6) + torch.tensor([[0], [3]])
    expected = layer(x, causal=True, position_ids=position_ids)
    out, cache = layer.step(x[:, :4], None, position_ids=position_ids[:, :4])
    steps = [out]
    for i in (4, 5):
        out, cache = layer.step(x[:, i : i + 1], cache)
        steps.append(out)
    assert cache.position_ids.tolist() == position_ids.tolist()
    assert torch.allclose(torch.cat(steps, 1), expected)


@settings(max_examples=40, deadline=None)
@given(chunks=st.lists(st.integers(1, 40), min_size=1, max_size=6), max_lookback=st.none() | st.integers(1, 30))
def test_a_cache_of_any_chunks_holds_their_last_keys(chunks: list[int], max_lookback: int | None):
    parts, start = [], 0
    for n in chunks:
        parts.append(make_cache(start, n, max_lookback=max_lookback))
        start += n
    with torch.no_grad():
        cache = parts[0]
        for part in parts[1:]:
            cache = cache.extend(part)
    keys, values = concat(*parts)
    assert torch.equal(cache.keys, keys[:, :, start - len(cache) :])
    assert torch.equal(cache.values, values[:, :, start - len(cache) :])
    assert cache.position_ids == range(start - len(cache), start)
    if len(parts) > 1:
        assert len(cache) == chunks[-1] + min(start - chunks[-1], start if max_lookback is None else max_lookback)
