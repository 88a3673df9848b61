"""Verdicts on times: found where rounds agree, undecided on a busy machine, and never wrong because of it."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch

from regard.theory.claims import wallclock

SIZES = (100, 200, 400, 800)


def rounds(power: float, busy: float = 0.0, seed: int = 0, count: int = 9) -> dict[str, list[float]]:
    """Times that grow with this power; a neighbour adds up to `busy` times as much, never less than nothing."""
    draw = np.random.default_rng(seed)
    return {str(n): list(1e-6 * n**power * (1 + busy * draw.random(count) ** 2)) for n in SIZES}


@pytest.mark.parametrize("busy", [0.0, 0.05, 0.5])
def test_the_least_times_tell_the_exponent(busy):
    figures, said = wallclock.grows(rounds(2.0, busy), SIZES, 2.0, 0)
    assert figures["exponent"] == pytest.approx(2.0, abs=0.1)
    assert said is True


def test_a_wrong_exponent_fails_on_a_calm_machine_and_is_undecided_on_a_busy_one():
    assert wallclock.grows(rounds(1.0, 0.05), SIZES, 2.0, 0)[1] is False
    for seed in range(20):
        assert wallclock.grows(rounds(2.0, 8.0, seed), SIZES, 2.0, 0)[1] is not False
        assert wallclock.grows(rounds(1.0, 8.0, seed), SIZES, 2.0, 0)[1] is not True


def test_waiting_is_not_time_and_threads_are_put_back():
    before = torch.get_num_threads()
    times = wallclock.seconds({"sleep": lambda: time.sleep(0.02), "work": lambda: sum(range(300_000))}, 2)
    assert max(times["sleep"]) < min(times["work"])
    assert [len(t) for t in times.values()] == [2, 2]
    assert torch.get_num_threads() == before


def test_less():
    assert wallclock.less([1, 1, 1, 9], [2, 2, 2, 2]) is True
    assert wallclock.less([1, 1, 9, 9], [2, 2, 2, 2]) is None
    assert wallclock.less([3, 3, 3, 3], [2, 2, 2, 2]) is False
