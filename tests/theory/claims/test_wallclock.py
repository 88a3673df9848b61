"""Verdicts on times: decided if rounds agree, undecided on a busy machine, never wrong because of it."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch

from regard.theory.claims import wallclock

SIZES = (100, 200, 400, 800)


def simulate_rounds(power: float, busy: float = 0.0, seed: int = 0, count: int = 9) -> dict[str, list[float]]:
    """Return times that grow with this power; other processes add up to `busy` times as much."""
    rng = np.random.default_rng(seed)
    return {str(n): list(1e-6 * n**power * (1 + busy * rng.random(count) ** 2)) for n in SIZES}


@pytest.mark.parametrize("busy", [0.0, 0.05, 0.5])
def test_the_smallest_times_give_the_exponent(busy):
    figures, outcome = wallclock.compare_growth(simulate_rounds(2.0, busy), SIZES, 2.0, 0)
    assert figures["exponent"] == pytest.approx(2.0, abs=0.1)
    assert outcome is True


def test_a_wrong_exponent_fails_on_a_calm_machine_and_is_undecided_on_a_busy_one():
    assert wallclock.compare_growth(simulate_rounds(1.0, 0.05), SIZES, 2.0, 0)[1] is False
    for seed in range(20):
        assert wallclock.compare_growth(simulate_rounds(2.0, 8.0, seed), SIZES, 2.0, 0)[1] is not False
        assert wallclock.compare_growth(simulate_rounds(1.0, 8.0, seed), SIZES, 2.0, 0)[1] is not True


def test_waiting_does_not_count_and_threads_are_restored():
    num_threads = torch.get_num_threads()
    times = wallclock.measure_seconds({"sleep": lambda: time.sleep(0.02), "work": lambda: sum(range(300_000))}, 2)
    assert max(times["sleep"]) < min(times["work"])
    assert [len(t) for t in times.values()] == [2, 2]
    assert torch.get_num_threads() == num_threads


def test_is_faster():
    assert wallclock.is_faster([1, 1, 1, 9], [2, 2, 2, 2]) is True
    assert wallclock.is_faster([1, 1, 9, 9], [2, 2, 2, 2]) is None
    assert wallclock.is_faster([3, 3, 3, 3], [2, 2, 2, 2]) is False
