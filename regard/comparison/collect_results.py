"""Collect the results of a comparison from its files: metrics with intervals, significance and cost of each design."""

from __future__ import annotations

import csv
import io
import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from regard.comparison.formatting import format_more_seeds
from regard.comparison.plan import Plan, PlannedDesign, failure_file, run_folder, score_file
from regard.comparison.recommendation import recommend
from regard.comparison.request import ComparisonRequest
from regard.comparison.score_run import load_run
from regard.comparison.statistics import Analysis, analyse
from regard.comparison.train_runs import is_finished
from regard.errors import UserError, did_you_mean
from regard.tasks.comparison import ComparisonMetric, get_comparison, load_item_stats
from regard.training import atomic_write, environment

NUM_EVIDENCE_ITEMS, NUM_FAITHFULNESS_ITEMS = 60, 12
"""Test items on which attention is compared with the evidence, and on which faithfulness is measured."""


def ranking_metric(request: ComparisonRequest) -> ComparisonMetric:
    """Return the metric of the request, or the first one of the task."""
    metrics = {metric.name: metric for metric in get_comparison(request.task).metrics}
    name = request.metric or next(iter(metrics))
    if name not in metrics:
        raise UserError(f"{request.task} has no metric {name!r}; {did_you_mean(name, metrics)}")
    return metrics[name]


def collect_results(plan: Plan, out: Path, *, inspect_attention: bool = True) -> dict[str, Any]:
    """Return the content of results.json. There are no rows if no run is evaluated yet."""
    metric = ranking_metric(plan.request)
    seeds = {p.name: [s for s in plan.seeds if score_file(out, p.design, s).is_file()] for p in plan.designs}
    by_name = {planned.name: planned for planned in plan.designs if seeds[planned.name]}
    scores = {
        name: np.stack([load_item_stats(score_file(out, planned.design, s), metric.name) for s in seeds[name]])
        for name, planned in by_name.items()
    }
    analysis = analyse(
        scores,
        metric.compute,
        better=metric.better,
        is_fraction=metric.is_fraction,
        is_mean=metric.is_mean,
        maximum=metric.maximum,
    )
    rows = [
        {
            **asdict(estimate),
            **_describe_runs(plan, by_name[estimate.name], seeds[estimate.name], out, inspect_attention),
            "vs_best": compare_with_best(analysis, estimate.name, plan.split["items"]["test"]),
        }
        for estimate in analysis.estimates
    ]
    failures = {}
    for planned, seed in plan.runs:
        file = failure_file(out, planned.design, seed)
        if file.is_file():
            failures[f"{planned.name}, seed {seed}"] = json.loads(file.read_text(encoding="utf-8"))["error"]
    results = {
        "task": plan.request.task,
        "metric": metric.name,
        "better": metric.better,
        "margin": analysis.margin,
        "budget": str(plan.budget),
        "seeds": plan.request.seeds,
        "runs": len(plan.runs),
        "trained": sum(is_finished(run_folder(out, planned.design, seed)) for planned, seed in plan.runs),
        "evaluated": sum(map(len, seeds.values())),
        "items": plan.split["items"],
        "duplicates": plan.split["repeated"],
        "rows": rows,
        "pairs": [asdict(pair) for pair in analysis.pairs],
        "failures": failures,
        "skipped": plan.skipped,
        "machine": environment.describe_machine(),
    }
    results["recommendation"] = recommend(results, metric.format, metric.description)
    return results


def _describe_runs(
    plan: Plan, planned: PlannedDesign, seeds: Sequence[int], out: Path, inspect_attention: bool
) -> dict[str, Any]:
    """Return other metrics, cost and attention figures of the runs of a design."""
    runs = [json.loads(score_file(out, planned.design, s).read_text(encoding="utf-8")) for s in seeds]
    latencies = [run["latency"] for run in runs if run["latency"] is not None]
    other_metrics = {
        name: statistics.mean(run["test_metrics"][name] for run in runs)
        for name in runs[0]["test_metrics"]
        if name != ranking_metric(plan.request).name
    }
    attention = measure_attention(plan, planned, seeds[0], out) if inspect_attention else {}
    return {
        "model": planned.design.model,
        "other_metrics": other_metrics,
        "seeds": list(seeds),
        "steps": planned.steps,
        **({"search_choice": planned.search_choice} if planned.search_choice else {}),
        "parameters": runs[0].get("parameters"),
        "flops": planned.cost.flops_per_item or None,
        "memory": planned.cost.memory or None,
        "seconds": statistics.mean(run["seconds"] for run in runs),
        "latency": statistics.median(latencies) if latencies else None,
        "evidence": attention.get("evidence"),
        "faithfulness": attention.get("faithfulness"),
    }


def measure_attention(plan: Plan, planned: PlannedDesign, seed: int, out: Path) -> dict[str, Any]:
    """Return the mean attention on the evidence, and the mean faithfulness, over some test items.

    Faithfulness is how much more the probability drops without the most attended words than without random ones. The
    result is saved next to the scores.
    """
    file = score_file(out, planned.design, seed).with_name("looks.json")
    if file.is_file():
        return json.loads(file.read_text(encoding="utf-8"))
    adapter = get_comparison(plan.request.task)
    if not adapter.measures_faithfulness:
        return {}
    run = load_run(run_folder(out, planned.design, seed))
    num_items = plan.split["items"]["test"]
    evidence, faithfulness = [], []
    for item in np.linspace(0, num_items - 1, min(num_items, NUM_EVIDENCE_ITEMS)).round().astype(int).tolist():
        faithful = len(faithfulness) < NUM_FAITHFULNESS_ITEMS
        if not faithful and not plan.split["evidence"]:
            break
        try:
            look = adapter.look(run, out / "parts", item, faithful)
        except (ValueError, RuntimeError):  # a missing attention map must not stop the report
            look = None
        if look is None:
            break
        if look.get("evidence_fraction") is not None:
            evidence.append(look["evidence_fraction"])
        faithfulness += [drop] if faithful and (drop := _comprehensiveness(look)) is not None else []
    figures = {
        "evidence": statistics.mean(evidence) if evidence else None,
        "faithfulness": statistics.mean(faithfulness) if faithfulness else None,
    }
    atomic_write.replace_file(file, json.dumps(figures).encode())
    return figures


def _comprehensiveness(look: Mapping[str, Any]) -> float | None:
    """Return the drop without the most attended words minus the drop without random ones."""
    for row in (look.get("faithfulness") or {}).get("metrics") or []:
        if row["name"] == "comprehensiveness" and row["random"] is not None:
            return row["attention"] - row["random"]
    return None


def compare_with_best(analysis: Analysis, name: str, num_items: int) -> str:
    """Return whether a design differs significantly from the best one, or what would show a difference."""
    best = analysis.estimates[0].name
    if name == best:
        return ""
    pair = analysis.find_pair(best, name)
    if pair.significant:
        return "significant"
    if pair.seeds_needed is not None:
        return format_more_seeds(pair.seeds_needed)
    if pair.items_needed is not None and pair.items_needed > num_items:
        return f"{pair.items_needed:,} test items"
    if pair.inconclusive and pair.seeds_for_margin is not None:
        return format_more_seeds(pair.seeds_for_margin)
    return "more seeds" if pair.items_needed is not None or pair.inconclusive else "no difference"


CSV_COLUMNS = (
    *("rank", "name", "mean", "low", "high", "seeds", "steps", "parameters", "flops", "memory", "seconds"),
    *("latency", "evidence", "faithfulness", "vs_best"),
)


def save_results(results: dict[str, Any], out: Path) -> None:
    """Write results.json, and results.csv with a row for each design."""
    text = json.dumps(results, indent=1, ensure_ascii=False) + "\n"
    atomic_write.replace_file(out / "results.json", text.encode())
    stream = io.StringIO()
    other_metrics = list(results["rows"][0]["other_metrics"]) if results["rows"] else []
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([results["metric"] if name == "mean" else name for name in CSV_COLUMNS] + other_metrics)
    for row in results["rows"]:
        cells = [len(row[name]) if name == "seeds" else row[name] for name in CSV_COLUMNS]
        writer.writerow([*cells, *(row["other_metrics"][name] for name in other_metrics)])
    atomic_write.replace_file(out / "results.csv", stream.getvalue().encode())
