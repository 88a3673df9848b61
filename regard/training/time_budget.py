"""Convert a time budget to a number of steps by timing some.

The steps run on the real model and on batches from the whole first epoch, and leave no trace: weights, optimizers and
random states are restored. So a run by budget is, bit by bit, the run with that number of steps. The number is saved in
the first checkpoint, and a resumed run takes it from there. A run that is stopped during the timing starts again.
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

WARMUP_STEPS = 2
"""Steps that are not timed: the first ones allocate memory."""
MIN_STEPS, MAX_STEPS = 3, 200
BUDGET_FRACTION = 0.03
"""The fraction of the budget for timed steps beyond the minimum."""


def steps_within(seconds: float, step: float, evaluation: float, evaluate_every: int) -> int:
    """How many steps fit, with an evaluation after every `evaluate_every` steps and one at the end. At least 1."""
    return max(1, int((seconds - evaluation) / (step + evaluation / evaluate_every)))


def count_steps_in_budget(loop: Loop, seed: int) -> int:
    """Time steps and an evaluation, restore everything, and compute how many steps fit into the rest of the budget."""
    budget = loop.settings.budget
    assert budget is not None
    step, evaluation = time_step_and_evaluation(loop, seed)
    plan = len(loop.plan(0))
    remaining = budget - (time.perf_counter() - loop.start_time)
    steps = steps_within(remaining, step, evaluation, loop.settings.evaluate_every or plan)
    steps = loop.fabric.broadcast(steps) if loop.world_size > 1 else steps
    logger.info(f"{budget:g} s are enough for {steps} steps of about {step * 1e3:.0f} ms, or {steps / plan:.1f} epochs")
    return steps


def time_step_and_evaluation(loop: Loop, seed: int) -> tuple[float, float]:
    """Mean seconds of a step over batches from the whole epoch, and seconds of an evaluation. Leaves no trace."""
    with _restored(loop):
        return _time_steps(loop, seed, BUDGET_FRACTION * (loop.settings.budget or 0.0))


def _time_steps(loop: Loop, seed: int, seconds: float) -> tuple[float, float]:
    fabric, plan = loop.fabric, loop.plan(0)
    order = np.random.default_rng(seed).permutation(len(plan))
    times: list[float] = []
    for i in range(WARMUP_STEPS + MAX_STEPS):
        start = time.perf_counter()
        result = loop.step(plan[order[i % len(order)]], 0, loop.settings.lr * 1e-3)
        if not result.values.isfinite().all():  # reading waits for the device
            break  # the run itself will report it
        if i >= WARMUP_STEPS:
            times.append(time.perf_counter() - start)
        if result.requests[-1]:
            raise Interrupted(loop.folder, 0, loop.interrupts.signal_number or signal.SIGTERM)
        is_enough = len(times) >= MIN_STEPS and sum(times) >= seconds
        if fabric.broadcast(is_enough) if loop.world_size > 1 else is_enough:
            break
    start = time.perf_counter()
    loop.metrics()
    return float(np.mean(times or [time.perf_counter() - start])), time.perf_counter() - start


@contextlib.contextmanager
def _restored(loop: Loop) -> Iterator[None]:
    """Restore weights, optimizers, random states and the state of the gradient scaler at the end."""
    tensors = [*loop.wrapped.parameters(), *loop.wrapped.buffers()]
    saved_tensors = [t.detach().clone() for t in tensors]
    rng_states = rng.get_rng_states(loop.fabric)
    scaler = loop.fabric.strategy.precision.state_dict()
    try:
        yield
    finally:
        with torch.no_grad():
            for tensor, value in zip(tensors, saved_tensors, strict=True):
                tensor.copy_(value)
        if loop.ema is not None:
            loop.ema.num_updates = 0  # the next step restarts it
        for optimizer in loop.optimizers:
            optimizer.zero_grad(set_to_none=True)
            fsdp.unwrap_optimizer(optimizer).state.clear()
        rng.set_rng_states(loop.fabric, rng_states)
        loop.fabric.strategy.precision.load_state_dict(scaler)
