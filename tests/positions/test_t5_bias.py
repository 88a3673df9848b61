"""T5's bias against Hugging Face's: the buckets, and the bias at every pair."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.models.t5.modeling_t5 import T5Attention

from regard.errors import UserError
from regard.positions import build
from regard.positions.t5 import bucket

STRETCHES = [(range(300), range(300)), (range(150, 157), range(3, 211)), (range(9, 10), range(10))]


@given(st.booleans(), st.integers(2, 40), st.integers(1, 400))
@settings(max_examples=100, deadline=None)
def test_buckets_are_t5s(bidirectional, half, beyond):
    buckets = 2 * half
    max_distance = half + beyond
    far = torch.arange(-2 * max_distance - 5, 2 * max_distance + 6)
    theirs = T5Attention._relative_position_bucket(far, bidirectional, buckets, max_distance)
    assert torch.equal(bucket(far, bidirectional, buckets, max_distance), theirs)


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("q_at", "k_at"), STRETCHES)
def test_bad_sizes(options):
    with pytest.raises(UserError, match="T5 positions want at least"):
        build(f"t5:{options}", 12, 3)
