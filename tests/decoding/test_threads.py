"""Batches in threads: the same translations, torch's threads are restored, errors are raised."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch

from regard.decoding import BatchTranslator, BeamSearch
from regard.decoding.threads import run_in_threads
from regard.decoding.translation import MIN_THREAD_ROWS, split_batches
from regard.models import transformer


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_each_item_runs_once_on_one_core(two_threads):
    def work(part: int) -> tuple[int, int, bool]:
        return 10 * part, torch.get_num_threads(), torch.is_inference_mode_enabled()

    with torch.inference_mode():
        found = dict(run_in_threads(work, [3, 1, 4, 1, 5]))
    assert found == {i: (10 * part, 1, True) for i, part in enumerate([3, 1, 4, 1, 5])}
    assert torch.get_num_threads() == 2
    assert dict(run_in_threads(work, [7])) == {0: (70, 2, False)}  # one part has all cores


def test_an_error_is_raised_and_the_rest_is_cancelled(two_threads):
    begun = []

    def work(part: int) -> int:
        begun.append(part)
        if part == 0:
            raise ValueError("no such word")
        time.sleep(0.01)  # on a busy machine, threads would finish all items before the error is seen
        return part

    with pytest.raises(ValueError, match="no such word"):
        list(run_in_threads(work, list(range(1000))))
    assert len(begun) < 1000
    assert torch.get_num_threads() == 2


def test_small_batches_are_not_split():
    rows = np.arange(16)
    halves = split_batches([rows], 2, 5)
    assert [half.tolist() for half in halves] == [rows[::2].tolist(), rows[1::2].tolist()]
    assert len(split_batches([np.arange(2)], 2, 5)) == 1
    assert len(split_batches([np.arange(MIN_THREAD_ROWS)], 4, 1)) == 1
    assert len(split_batches([rows, rows], 2, 5)) == 2


@pytest.mark.parametrize("count", [1, 16, 70])
def test_translations_do_not_depend_on_threads(two_threads, count: int):
    torch.manual_seed(0)
    model = transformer.TransformerConfig(dim=32, hidden=64, layers=2, heads=2, norm="pre").build(101).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.1 * torch.randn_like(p))
    draw = np.random.default_rng(1)
    sources = [[*draw.integers(6, 101, draw.integers(1, 30)).tolist(), 3] for _ in range(count)]
    told: list[int] = []
    made = [
        BatchTranslator(model).translate(
            sources, strategy=BeamSearch(3), max_length=12, batch_tokens=512, on_progress=told.append
        )
    ]
    assert sum(told) == count
    torch.set_num_threads(1)
    made.append(BatchTranslator(model).translate(sources, strategy=BeamSearch(3), max_length=12, batch_tokens=512))
    two, one = ([[said.ids for said in each] for each in found] for found in made)
    assert two == one
