from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.batches import pad_rows, plan_batches
from regard.errors import UserError

LENGTHS = st.lists(st.integers(0, 300), max_size=200)


@given(LENGTHS, st.integers(1, 1000), st.integers(0, 9), st.integers(0, 9), st.booleans())
def test_each_document_once_within_the_budget(lengths, tokens, seed, epoch, shuffle):
    batches = plan_batches(lengths, tokens, seed=seed, epoch=epoch, shuffle=shuffle)
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or max(lengths[i] for i in batch) * len(batch) <= tokens


@given(LENGTHS, st.integers(1, 1000), st.integers(0, 9), st.integers(0, 9))
def test_same_arguments_give_the_same_batches(lengths, tokens, seed, epoch):
    np.random.seed(epoch)
    first = plan_batches(lengths, tokens, seed=seed, epoch=epoch)
    np.random.seed(epoch + 1)
    second = plan_batches(np.array(lengths, np.int64), tokens, seed=seed, epoch=epoch)
    assert [b.tolist() for b in first] == [b.tolist() for b in second]


@given(st.integers(0, 50), st.integers(0, 50))
def test_epochs_and_seeds_differ(seed, epoch):
    lengths = np.arange(200) % 37 + 1

    def flat(seed: int, epoch: int) -> list[int]:
        return np.concatenate(plan_batches(lengths, 100, seed=seed, epoch=epoch)).tolist()

    assert flat(seed, epoch) != flat(seed, epoch + 1)
    assert flat(seed, epoch) != flat(seed + 1, epoch)
    assert flat(seed, epoch) != flat(epoch + 1, seed) or seed == epoch + 1


def test_batches_are_full_and_shuffled():
    lengths = np.random.default_rng(0).lognormal(5.4, 0.7, 20_000).astype(int) + 1
    batches = plan_batches(lengths, 8192, seed=0, epoch=0)
    places = sum(int(lengths[b].max()) * len(b) for b in batches)
    assert lengths.sum() / places > 0.93
    means = [lengths[b].mean() for b in batches]
    assert abs(np.corrcoef(means[:-1], means[1:])[0, 1]) < 0.2
    ordered = plan_batches(lengths, 8192, seed=0, epoch=0, shuffle=False)
    assert np.diff([lengths[b].max() for b in ordered]).max() <= 0


def test_zero_token_budget_is_an_error():
    with pytest.raises(UserError, match="at least 1, got 0"):
        plan_batches([1, 2], 0, seed=0, epoch=0)


@given(st.lists(st.lists(st.integers(1, 99), max_size=9), min_size=1, max_size=9))
def test_padding(rows):
    ids, mask = pad_rows([np.array(row, np.int32) for row in rows])
    assert (ids.dtype, mask.dtype) == (np.int64, np.bool_)
    assert ids.shape == mask.shape == (len(rows), max(map(len, rows)))
    assert [line[keep].tolist() for line, keep in zip(ids, mask, strict=True)] == rows
    assert not ids[~mask].any()
