"""A finished run on the test part, once: what it got of each item, how long an answer takes, how it learnt."""

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

QUESTIONS = 20
"""Single answers that are timed."""


def opened(folder: Path) -> Any:
    """A finished run, of regard's own or of an imported model."""
    if hf_frozen.finished(folder):
        return hf_frozen.load(folder)
    return hf_finetuned.Run(folder) if hf_finetuned.finished(folder) else Run.load(folder)


def score_one(plan: Plan, folder: Path, parts: Path, file: Path) -> None:
    """What a run got of each test item, and how long a single answer takes."""
    judge, run = get_comparison(plan.asked.task), opened(folder)
    with environment.process_environment(plan.threads), muted():
        found = judge.score(run, parts)
        latency = _latency(judge.latency_queries(run, parts, QUESTIONS))
    measured = {m.name: float(m.metric(found.stats[m.name].sum(0))) for m in judge.metrics}
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps({"item": i, **said}, ensure_ascii=False) + "\n" for i, said in enumerate(found.said))
    atomic_write.replace_file(file.with_suffix(".jsonl"), lines.encode())
    atomic_write.replace_file(
        file.with_suffix(".safetensors"), save({k: np.ascontiguousarray(v) for k, v in found.stats.items()})
    )
    kept = ("steps", "seconds", "parameters", "metrics")
    about = {key: run.config[key] for key in kept if key in run.config}
    content = {"measures": measured, "latency": latency, "curve": _curve(folder), **about}
    atomic_write.replace_file(file, (json.dumps(content, indent=1) + "\n").encode())


def _latency(questions: list[Callable[[], Any]]) -> float | None:
    """Median seconds of a single answer."""
    if not questions:
        return None
    questions[0]()
    times = []
    for question in questions:
        begun = time.perf_counter()
        question()
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


def _curve(folder: Path) -> list[dict[str, Any]]:
    log = folder / "metrics.jsonl"
    lines = log.read_text(encoding="utf-8").splitlines() if log.is_file() else []
    found = [json.loads(line) for line in lines if '"valid"' in line]
    return [{"step": p["step"], "seconds": p["seconds"], **p["valid"]} for p in found]
