from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.train_valid_split import count_duplicates, split_indices
from regard.errors import UserError


@given(
    st.lists(st.sampled_from(["a", "b", "c", "日本"]), min_size=2, max_size=200),
    st.floats(0.05, 0.95),
    st.integers(0, 99),
)
def test_stratified_with_one_on_each_side(labels, fraction, seed):
    counts = {c: labels.count(c) for c in labels}
    if max(counts.values()) < 2:
        return
    train, valid = split_indices(labels, fraction, seed)
    assert sorted([*train, *valid]) == list(range(len(labels)))
    assert (np.diff(train) > 0).all()
    for name, count in counts.items():
        held = sum(labels[i] == name for i in valid)
        if count == 1:
            assert held == 0
        else:
            assert 1 <= held <= count - 1
            assert abs(held - count * fraction) <= 1


def test_split_depends_on_the_seed():
    labels = ["x", "y"] * 100
    one, same, other = (split_indices(labels, 0.2, seed)[1].tolist() for seed in (1, 1, 2))
    assert one == same != other


def test_impossible_splits_are_errors():
    for labels, fraction, message in (
        (["a", "b"], 0.0, "between 0 and 1"),
        (["a", "b"], 1.5, "between 0 and 1"),
        (["a"], 0.5, "cannot split"),
        (["a", "b", "c"], 0.5, "different label"),
    ):
        with pytest.raises(UserError, match=message):
            split_indices(labels, fraction, 0)


def test_duplicates_are_counted():
    assert count_duplicates(["A  film", "other"], ["a film", "a film ", "new", "Other"]) == 3
    assert count_duplicates([], ["a"]) == 0
