"""Time things side by side: in turns, so that a busy moment strikes all alike; compared by medians with an interval.
Memory is traced, allocation by allocation."""

from __future__ import annotations

import datetime
import os
import platform
import random
import statistics
import time
from collections.abc import Callable, Mapping
from math import log
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

Times = dict[str, list[float]]


def in_turns(work: Mapping[str, Callable[[], object]], rounds: int, warm: int = 2, settle: int = 0) -> Times:
    """Seconds of each piece of work in each round. The order is drawn anew every round: none always comes first. Before
    the clock runs, each is done `settle` times, so that it does not find the processor's caches full of the others'."""
    order, draw = list(work), random.Random(0)
    for _ in range(warm):
        for run in work.values():
            run()
    times: Times = {name: [] for name in work}
    for _ in range(rounds):
        draw.shuffle(order)
        for name in order:
            for _ in range(settle):
                work[name]()
            start = time.perf_counter()
            work[name]()
            times[name].append(time.perf_counter() - start)
    return times


def interval(times: Times, statistic: Callable[[Times], float], draws: int = 2000) -> dict[str, float]:
    """A statistic of the times with its 95 % bootstrap interval; whole rounds are drawn, as they were run."""
    rounds, draw = len(next(iter(times.values()))), random.Random(0)
    values = []
    for _ in range(draws):
        chosen = draw.choices(range(rounds), k=rounds)
        values.append(statistic({name: [t[i] for i in chosen] for name, t in times.items()}))
    values.sort()
    low, high = values[int(0.025 * draws)], values[int(0.975 * draws) - 1]
    return {"value": round(statistic(times), 4), "low": round(low, 4), "high": round(high, 4)}


def ratio(times: Times, name: str, to: str) -> dict[str, float]:
    """Median time of one over that of the other."""
    return interval(times, lambda t: statistics.median(t[name]) / statistics.median(t[to]))


def exponent(times: Times, sizes: Mapping[str, int]) -> dict[str, float]:
    """How time grows with size: the slope of log time over log size, by least squares."""

    def slope(t: Times) -> float:
        xs, ys = [log(n) for n in sizes.values()], [log(statistics.median(t[name])) for name in sizes]
        x, y = statistics.mean(xs), statistics.mean(ys)
        return sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)) / sum((a - x) ** 2 for a in xs)

    return interval(times, slope)


def milliseconds(times: Times) -> dict[str, float]:
    return {name: round(1e3 * statistics.median(t), 3) for name, t in times.items()}


def peak_memory(run: Callable[[], object]) -> int:
    """The most bytes that tensors made by this work held at one moment; exact, the same on every machine."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        run()
    held = peak = 0
    assert seen.profiler is not None
    assert seen.profiler.kineto_results is not None
    events = [e for e in seen.profiler.kineto_results.events() if e.name() == "[memory]"]
    for event in sorted(events, key=lambda e: e.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak


def machine() -> dict[str, object]:
    """Where and when this was measured, and how busy the machine was."""
    info = Path("/proc/cpuinfo")
    models = [line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "processor": models[0] if models else platform.processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "load": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
    }
