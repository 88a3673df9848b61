"""A budget in seconds, turned into a number of steps by trying some.

The trial runs on the real model and data, batches drawn from all over the first epoch, and leaves no trace: weights,
optimizers and random states are put back. So a run by budget is, to the bit, the run with the number of steps that was
found; that number is kept in the first checkpoint, and a resumed run takes it from there. A run that is stopped during
the trial starts again with another trial.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import torch

from regard.training import fsdp, rng
from regard.training.interrupts import Interrupted

if TYPE_CHECKING:
    from regard.training.loop import Loop

logger = logging.getLogger(__name__)

WARM = 2
"""Steps that are not timed: the first ones allocate."""
LEAST, MOST = 3, 200
SHARE = 0.03
"""The share of the budget that the timed steps may take, where more than the least are wanted."""


def steps_within(seconds: float, step: float, evaluation: float, every: int) -> int:
    """How many steps fit, with an evaluation after each `every` of them and one at the end. At least one."""
    return max(1, int((seconds - evaluation) / (step + evaluation / every)))


def count_steps_in_budget(loop: Loop, seed: int) -> int:
    """Time steps and an evaluation, put everything back, and say how many steps the rest of the budget holds."""
    budget = loop.settings.budget
    assert budget is not None
    step, evaluation = time_step_and_evaluation(loop, seed)
    plan = len(loop.plan(0))
    left = budget - (time.perf_counter() - loop.begun)
    steps = steps_within(left, step, evaluation, loop.settings.evaluate_every or plan)
    steps = loop.fabric.broadcast(steps) if loop.world > 1 else steps
    logger.info(f"{budget:g} s hold {steps} steps of about {step * 1e3:.0f} ms, or {steps / plan:.1f} epochs")
    return steps


def time_step_and_evaluation(loop: Loop, seed: int) -> tuple[float, float]:
    """Seconds of a step, the mean over batches from all over the epoch, and of an evaluation. Leaves no trace."""
    with _untouched(loop):
        return _trial(loop, seed, SHARE * (loop.settings.budget or 0.0))


def _trial(loop: Loop, seed: int, seconds: float) -> tuple[float, float]:
    fabric, plan = loop.fabric, loop.plan(0)
    order = np.random.default_rng(seed).permutation(len(plan))
    times: list[float] = []
    for number in range(WARM + MOST):
        begun = time.perf_counter()
        done = loop.step(plan[order[number % len(order)]], 0, loop.settings.lr * 1e-3)
        if not done.values.isfinite().all():  # reading waits for the device, as timing must
            break  # the run itself will find it and say more
        if number >= WARM:
            times.append(time.perf_counter() - begun)
        if done.requests[-1]:
            raise Interrupted(loop.folder, 0, loop.interrupts.signal_number or signal.SIGTERM)
        enough = len(times) >= LEAST and sum(times) >= seconds
        if fabric.broadcast(enough) if loop.world > 1 else enough:
            break
    begun = time.perf_counter()
    loop.metrics()
    return float(np.mean(times or [time.perf_counter() - begun])), time.perf_counter() - begun


@contextlib.contextmanager
def _untouched(loop: Loop) -> Iterator[None]:
    """Put back weights, optimizers, random and scaler states as they were before."""
    tensors = [*loop.wrapped.parameters(), *loop.wrapped.buffers()]
    kept = [t.detach().clone() for t in tensors]
    random = rng.get_rng_states(loop.fabric)
    scaler = loop.fabric.strategy.precision.state_dict()
    try:
        yield
    finally:
        with torch.no_grad():
            for tensor, value in zip(tensors, kept, strict=True):
                tensor.copy_(value)
        if loop.average is not None:
            loop.average.num_updates = 0  # the next step starts it anew
        for optimizer in loop.optimizers:
            optimizer.zero_grad(set_to_none=True)
            fsdp.unwrap_optimizer(optimizer).state.clear()
        rng.set_rng_states(loop.fabric, random)
        loop.fabric.strategy.precision.load_state_dict(scaler)
