"""T5's bias against Hugging Face's: the buckets, and the bias at every pair."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.models.t5.modeling_t5 import T5Attention

from regard.attention.positions import build
from regard.attention.positions.t5_bias import distance_bucket
from regard.errors import UserError

STRETCHES = [(range(300), range(300)), (range(150, 157), range(3, 211)), (range(9, 10), range(10))]


@given(st.booleans(), st.integers(2, 40), st.integers(1, 400))
@settings(max_examples=100, deadline=None)
def test_buckets_are_t5s(bidirectional, half, beyond):
    buckets = 2 * half
    max_distance = half + beyond
    far = torch.arange(-2 * max_distance - 5, 2 * max_distance + 6)
    theirs = T5Attention._relative_position_bucket(far, bidirectional, buckets, max_distance)
    assert torch.equal(distance_bucket(far, bidirectional, buckets, max_distance), theirs)


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("q_pos", "k_pos"), STRETCHES)
def test_bias_at_every_pair(bidirectional, q_pos, k_pos):
    torch.manual_seed(0)
    t5 = build(f"t5:bidirectional={bidirectional}", 12, 3)
    distance = torch.tensor(k_pos)[None] - torch.tensor(q_pos)[:, None]
    index = T5Attention._relative_position_bucket(distance, bidirectional, 32, 128)
    expected = t5.table[index].permute(2, 0, 1)[None]
    q, k = torch.tensor(q_pos), torch.tensor(k_pos)
    torch.testing.assert_close(t5.bias(q_pos, k_pos), expected)
    torch.testing.assert_close(t5.bias(q, k), expected)
    torch.testing.assert_close(t5.bias(q_pos, k.expand(2, -1)), expected.expand(2, -1, -1, -1))
    torch.testing.assert_close(t5.bias(q.expand(2, -1), k_pos), expected.expand(2, -1, -1, -1))


def test_gradients_reach_every_bucket_used_and_agree():
    torch.manual_seed(1)
    t5 = build("t5:buckets=8,max_distance=16", 12, 3).double()
    weight = torch.randn(1, 3, 23, 29).double()
    plain = torch.autograd.grad((t5.bias(range(23), range(29)) * weight).sum(), t5.table)[0]
    by_index = torch.autograd.grad((t5.bias(torch.arange(23), torch.arange(29)) * weight).sum(), t5.table)[0]
    torch.testing.assert_close(plain, by_index)
    # Bucket 4, "later, and at distance 0", is empty in T5 as well.
    assert (plain.abs().sum(1) > 0).tolist() == [i != 4 for i in range(8)]


@pytest.mark.parametrize("options", ["buckets=2", "buckets=32,max_distance=8", "buckets=1,bidirectional=false"])
def test_bad_sizes(options):
    with pytest.raises(UserError, match="T5 positions need at least"):
        build(f"t5:{options}", 12, 3)
