"""Evaluate a finished run on the test part: scores of each item, latency, and the learning curve."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from regard.comparison import hf_finetuned, hf_frozen
from regard.comparison.plan import Plan
from regard.config.messages import muted
from regard.tasks.base_run import Run
from regard.tasks.comparison import get_comparison
from regard.training import atomic_write, environment

NUM_LATENCY_QUERIES = 20


def load_run(folder: Path) -> Any:
    """Load a finished run of regard, or of an imported model."""
    for module in (hf_frozen, hf_finetuned):
        if module.is_finished(folder):
            return module.load(folder)
    return Run.load(folder)


def score_run(plan: Plan, folder: Path, parts: Path, file: Path) -> None:
    """Save the metrics, the scores and outputs of each test item, and the latency of a run."""
    adapter, run = get_comparison(plan.request.task), load_run(folder)
    with environment.process_environment(plan.threads), muted():
        scores = adapter.score(run, parts)
        latency = measure_latency(adapter.latency_queries(run, parts, NUM_LATENCY_QUERIES))
    lines = (json.dumps({"item": i, **output}, ensure_ascii=False) + "\n" for i, output in enumerate(scores.outputs))
    stats = {name: np.ascontiguousarray(values) for name, values in scores.stats.items()}
    content = {
        "test_metrics": {m.name: float(m.compute(scores.stats[m.name].sum(0))) for m in adapter.metrics},
        "latency": latency,
        "curve": read_curve(folder),
        **{key: run.config[key] for key in ("steps", "seconds", "parameters", "metrics") if key in run.config},
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    atomic_write.replace_file(file.with_suffix(".jsonl"), "".join(lines).encode())
    atomic_write.replace_file(file.with_suffix(".safetensors"), save(stats))
    atomic_write.replace_file(file, (json.dumps(content, indent=1) + "\n").encode())


def measure_latency(queries: list[Callable[[], Any]]) -> float | None:
    """Return the median seconds of a single prediction."""
    if not queries:
        return None
    queries[0]()
    times = []
    for query in queries:
        start = time.perf_counter()
        query()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def read_curve(folder: Path) -> list[dict[str, Any]]:
    """Return step, seconds and validation metrics of each evaluation."""
    log = folder / "metrics.jsonl"
    lines = log.read_text(encoding="utf-8").splitlines() if log.is_file() else []
    points = [json.loads(line) for line in lines if '"valid"' in line]
    return [{"step": p["step"], "seconds": p["seconds"], **p["valid"]} for p in points]
