"""A memory goes on, branches, forgets and is picked from, and what it holds is never another's."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.attention.kv_cache import KVCache
from regard.layers import MultiHeadAttention

B, H, U, D = 2, 3, 5, 7


def stretch(start: int, n: int, *, seed: int = 0, limit: int | None = None) -> KVCache:
    """Keys and values that can be told apart by their place."""
    g = torch.Generator().manual_seed(1000 * seed + start)
    keys, values = torch.randn(B, H, n, U, generator=g), torch.randn(B, H, n, D, generator=g)
    return KVCache(keys, values, range(start, start + n), max_lookback=limit)


def joined(*parts: KVCache) -> tuple[Tensor, Tensor]:
    return torch.cat([p.keys for p in parts], 2), torch.cat([p.values for p in parts], 2)


@pytest.mark.parametrize("grad", [False, True])
def test_extend_is_concatenation(grad: bool):
    a, b, c = stretch(0, 3), stretch(3, 1), stretch(4, 2)
    with torch.set_grad_enabled(grad):
        memory = a.extend(b).extend(c)
    keys, values = joined(a, b, c)
    assert torch.equal(memory.keys, keys)
    assert torch.equal(memory.values, values)
    assert memory.position_ids == range(6)
    assert len(memory) == 6


def test_gradients_flow_through_what_is_remembered():
    a = stretch(0, 2)
    a.keys.requires_grad_()
    a.extend(stretch(2, 1)).keys.sum().backward()
    assert torch.equal(a.keys.grad, torch.ones_like(a.keys))


@torch.no_grad()
def test_a_step_writes_into_spare_room_and_copies_nothing_old():
    memory = stretch(0, 3).extend(stretch(3, 1))
    after = memory.extend(stretch(4, 1))
    assert after.keys.data_ptr() == memory.keys.data_ptr()


@torch.no_grad()
def test_two_continuations_do_not_write_over_each_other():
    past = stretch(0, 3).extend(stretch(3, 1))
    before = past.keys.clone()
    one, two = past.extend(stretch(4, 1, seed=1)), past.extend(stretch(4, 1, seed=2))
    one, two = one.extend(stretch(5, 1, seed=3)), two.extend(stretch(5, 1, seed=4))
    assert torch.equal(one.keys[:, :, 4:], joined(stretch(4, 1, seed=1), stretch(5, 1, seed=3))[0])
    assert torch.equal(two.keys[:, :, 4:], joined(stretch(4, 1, seed=2), stretch(5, 1, seed=4))[0])
    assert torch.equal(past.keys, before)


@torch.no_grad()
def test_picking_rows_leaves_the_rest_as_it_was():
    past = stretch(0, 3).extend(stretch(3, 1))
    picked = past.select(torch.tensor([1, 1, 0]))
    assert picked.keys.shape[0] == 3
    assert torch.equal(picked.keys[0], past.keys[1])
    before = past.keys.clone()
    new = stretch(4, 1)
    rows = KVCache(new.keys[[0, 0, 1]], new.values[[0, 0, 1]], new.position_ids)
    picked.extend(rows)
    assert torch.equal(past.keys, before)


def test_picking_rows_picks_their_mask_and_their_places():
    mask, position_ids = torch.tensor([[True, True], [True, False]]), torch.tensor([[0, 1], [4, 5]])
    memory = KVCache(torch.randn(B, H, 2, U), torch.randn(B, H, 2, D), position_ids, mask)
    picked = memory.select(torch.tensor([1]))
    assert picked.mask.tolist() == [[True, False]]
    assert picked.position_ids.tolist() == [[4, 5]]


@pytest.mark.parametrize("grad", [False, True])
def test_a_limit_forgets_what_no_later_query_sees(grad: bool):
    parts = [stretch(i, 1, limit=3) for i in range(200)]  # long enough to outgrow the first buffer
    with torch.set_grad_enabled(grad):
        memory = parts[0]
        for i in range(1, 200):
            memory = memory.extend(parts[i])
            low = max(0, i - 3)
            assert memory.position_ids == range(low, i + 1)  # the limit before, and the new one
            assert torch.equal(memory.keys, joined(*parts[low : i + 1])[0])
    assert memory._room is None or memory._room.keys.shape[2] <= 64


def test_masks_are_joined_and_a_part_without_one_is_real():
    a, b = stretch(0, 2), stretch(2, 1)
    assert a.extend(b).mask is None
    a.mask = torch.tensor([[True, False], [True, True]])
    assert a.extend(b).mask.tolist() == [[True, False, True], [True, True, True]]
    assert b.extend(a).mask.tolist() == [[True, True, False], [True, True, True]]


def test_a_mask_for_one_call_hides_more_of_a_memory_and_shows_no_padding_again():
    layer = MultiHeadAttention(12, 2).double()
    x, memory = torch.randn(2, 3, 12, dtype=torch.float64), torch.randn(2, 5, 12, dtype=torch.float64)
    real = torch.arange(5) < torch.tensor([[5], [3]])
    first_hidden = (torch.arange(5) > 0).expand(2, 5)
    out = layer(x, layer.project_kv(memory, key_mask=real), mask=first_hidden)
    assert torch.equal(out, layer(x, memory, key_mask=real & first_hidden))
    assert torch.allclose(out[1], layer(x[1:], memory[1:, 1:3])[0])


def test_places_are_joined_whatever_they_are():
    a, b = stretch(0, 2), stretch(2, 1)
    assert a.extend(b).position_ids == range(3)
    b.position_ids = range(7, 8)  # a gap
    assert a.extend(b).position_ids.tolist() == [0, 1, 7]
    a.position_ids = torch.tensor([[0, 1], [2, 3]])
    assert a.extend(b).position_ids.tolist() == [[0, 1, 7], [2, 3, 7]]
    b.position_ids = torch.tensor([[2], [4]])
    assert a.extend(b).position_ids.tolist() == [[0, 1, 2], [2, 3, 4]]


def test_steps_go_on_from_where_each_row_stands():
    """Rows that start at other places, as with padding on the left: the next step follows in each."""
    layer = MultiHeadAttention(12, 2, positions="alibi").double().eval()
    x = torch.randn(2, 6, 12, dtype=torch.float64)
    position_ids = torch.arange(6) + torch.tensor([[0], [3]])
    whole = layer(x, causal=True, position_ids=position_ids)
    out, past = layer.step(x[:, :4], None, position_ids=position_ids[:, :4])
    steps = [out]
    for i in (4, 5):
        out, past = layer.step(x[:, i : i + 1], past)
        steps.append(out)
    assert past.position_ids.tolist() == position_ids.tolist()
    assert torch.allclose(torch.cat(steps, 1), whole)


@settings(max_examples=40, deadline=None)
@given(chunks=st.lists(st.integers(1, 40), min_size=1, max_size=6), limit=st.none() | st.integers(1, 30))
def test_any_chunks_are_what_they_hold(chunks: list[int], limit: int | None):
    parts, start = [], 0
    for n in chunks:
        parts.append(stretch(start, n, max_lookback=limit))
        start += n
    with torch.no_grad():
        memory = parts[0]
        for part in parts[1:]:
            memory = memory.extend(part)
    keys, values = joined(*parts)
    assert torch.equal(memory.keys, keys[:, :, start - len(memory) :])
    assert torch.equal(memory.values, values[:, :, start - len(memory) :])
    assert memory.position_ids == range(start - len(memory), start)
    if len(parts) > 1:
        assert len(memory) == chunks[-1] + min(start - chunks[-1], start if limit is None else limit)
