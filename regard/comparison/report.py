"""The HTML report of a comparison."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.comparison.collect_results import ranking_metric
from regard.comparison.disagreement import NO_DISAGREEMENT, describe_disagreement
from regard.comparison.formatting import (
    format_difference,
    format_interval,
    format_metric,
    format_more_seeds,
    format_p_value,
)
from regard.comparison.pareto import pareto_front
from regard.comparison.plan import Plan, score_file
from regard.pages.assets import render_document
from regard.pages.plots import line_plot, pareto_plot
from regard.pages.results_table import Cell, format_table
from regard.pages.training_report import flatten, group_by_text
from regard.tasks.comparison import ComparisonMetric, get_comparison

TEMPLATES = Path(__file__).parent / "templates"
COSTS = [("seconds", "seconds of training"), ("latency", "seconds of a prediction"), ("parameters", "parameters")]


def table_columns(task: str, metric: ComparisonMetric) -> list[dict[str, Any]]:
    """Return the columns of the results table: key, title, format, which value is best, and a description."""
    other_metrics = [m for m in get_comparison(task).metrics if m.name != metric.name]

    def column(key: str, title: str, kind: str, best: str | None, explain: str) -> dict[str, Any]:
        return {"key": key, "title": title, "format": kind, "best": best, "explain": explain}

    def metric_column(key: str, metric: ComparisonMetric, explain: str) -> dict[str, Any]:
        return column(key, metric.name.replace("_", "-"), metric.format, metric.better, explain)

    return [
        column("rank", "rank", "int", None, "designs without a significant difference share a rank"),
        column("name", "design", "text", None, ""),
        metric_column("mean", metric, f"{metric.description}; mean over seeds"),
        column("interval", "95 % interval", "text", None, "over seeds and test items together"),
        column("vs_best", "vs. best", "text", None, "or what would show the difference, if it is the true one"),
        *(metric_column(m.name, m, m.description) for m in other_metrics),
        column("seconds", "training", "seconds", "min", "mean seconds of a run"),
        column("latency_ms", "latency, ms", "number", "min", "median time of a single prediction"),
        column("parameters", "parameters", "int", "min", "number of parameters of the model"),
        column("mflops", "MFLOPs", "number", "min", "of a forward pass for one item, counted, mean over batches"),
        column("memory_mb", "memory, MB", "number", "min", "tensors that a training step holds at the same time"),
        column("evidence", "attention on evidence", "percent", "max", "fraction of attention on the deciding words"),
        column(
            "faithfulness", "faithfulness", "points", "max",
            "percentage points that p drops more without the most attended words than without random ones",
        ),
    ]  # fmt: skip


def build_table(plan: Plan, results: Mapping[str, Any]) -> dict[str, Any]:
    """Return columns and rows for `format_table`. Columns without values are left out."""
    metric = ranking_metric(plan.request)
    rows = [
        {
            **row,
            **row["other_metrics"],
            "interval": format_interval(row["low"], row["high"], metric.format),
            "latency_ms": None if row["latency"] is None else 1e3 * row["latency"],
            "mflops": None if row["flops"] is None else row["flops"] / 1e6,
            "memory_mb": None if row["memory"] is None else row["memory"] / 1e6,
        }
        for row in results["rows"]
    ]
    columns = [
        column
        for column in table_columns(plan.request.task, metric)
        if any(row.get(column["key"]) not in (None, "") for row in rows)
    ]
    return {"columns": columns, "rows": rows}


def render_report(plan: Plan, results: dict[str, Any], out: Path) -> str:
    """Return the HTML page of a comparison."""
    metric, table = ranking_metric(plan.request), build_table(plan, results)
    curves, curve_title, curve_axis = learning_curves(plan, results, out)
    disagreement, problems = _describe_disagreement(plan, results, out)
    return render_document(
        "compare.html.j2",
        folders=(TEMPLATES,),
        css=["theme.css", "text.css", "report.css", "compare.css"],
        js=["hover.js"],
        title=f"{len(results['rows'])} designs for {plan.request.task}",
        lead=results["recommendation"],
        columns=table["columns"],
        rows=_format_cells(table, metric),
        pairs=[_format_pair(pair, results, metric) for pair in results["pairs"]],
        fronts=[_pareto(results, metric, *cost) for cost in COSTS if all(row[cost[0]] for row in results["rows"])],
        curve_title=curve_title,
        wide=line_plot(curves, x_label=curve_axis, y_label=curve_title, width=860),
        narrow=line_plot(curves, x_label=curve_axis, y_label=curve_title, width=370),
        disagreement=disagreement["matrix"],
        sentences=disagreement["sentences"],
        examples=[{**example, "models": _views(example["looks"])} for example in disagreement["examples"]],
        failures=results["failures"],
        skipped=results["skipped"],
        facts=[("Setup", flatten(_describe_setup(plan, results))), ("Machine", flatten(results["machine"]))],
        notes=[*_notes(plan, results), *problems],
    )


def _format_cells(table: dict[str, Any], metric: ComparisonMetric) -> list[list[Cell]]:
    """Return the cells, with the metric rounded according to its interval."""
    cells = format_table(table)
    keys = [column["key"] for column in table["columns"]]
    for cell_row, row in zip(cells, table["rows"], strict=True):
        index = keys.index("mean")
        text = format_metric(row["mean"], metric.format, row["high"] - row["low"])
        cell_row[index] = dataclasses.replace(cell_row[index], text=text)
    return cells


def _describe_disagreement(plan: Plan, results: dict[str, Any], out: Path) -> tuple[dict[str, Any], list[str]]:
    """Return the disagreement and a list of problems: a run folder that is gone must not stop the report."""
    try:
        return describe_disagreement(plan, results, out), []
    except (OSError, ValueError, RuntimeError, KeyError) as problem:
        return NO_DISAGREEMENT, [f"The disagreement of the designs could not be shown: {problem}"]


def _views(looks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the attention views of the designs, each with its own text, since translations differ."""
    groups = (group_by_text([look])[0] for look in looks)
    return [{**group["models"][0], "even": group["even"]} for group in groups]


def _pareto(results: Mapping[str, Any], metric: ComparisonMetric, key: str, label: str) -> dict[str, Any]:
    scale = 100 if metric.format == "percent" else 1
    points = [
        (row["name"], float(row[key]), scale * row["mean"], scale * row["low"], scale * row["high"])
        for row in results["rows"]
    ]
    labels: dict[str, Any] = {"x_label": label, "y_label": f"{metric.name}, %" if scale == 100 else metric.name}
    front = pareto_front(points, metric.better)
    return {
        "wide": pareto_plot(points, front, **labels, width=560),
        "narrow": pareto_plot(points, front, **labels, width=370),
        "names": front,
        "label": label,
    }


def _format_pair(pair: Mapping[str, Any], results: Mapping[str, Any], metric: ComparisonMetric) -> dict[str, Any]:
    """Format a pair of designs, the better one first."""
    a, b, sign = pair["a"], pair["b"], 1
    if (pair["difference"] < 0) == (metric.better == "max"):
        a, b, sign = b, a, -1
    low, high = sorted((sign * pair["low"], sign * pair["high"]))
    differences = {"difference": sign * pair["difference"], "low": low, "high": high}
    return {
        "a": a,
        "b": b,
        **{key: format_difference(value, metric.format, high - low) for key, value in differences.items()},
        "p": format_p_value(pair["p"]),
        "p_corrected": format_p_value(pair["p_corrected"]),
        "verdict": _verdict(pair, results["items"]["test"]),
        "significant": pair["significant"],
    }


def _verdict(pair: Mapping[str, Any], num_items: int) -> str:
    """Say whether a difference is significant, and if not, what would show it."""
    if pair["significant"]:
        return "significant"
    if pair["seeds_needed"] is not None:
        needed = f"{format_more_seeds(pair['seeds_needed'])} each would show it"
    elif pair["items_needed"] is not None and pair["items_needed"] > num_items:
        needed = f"about {pair['items_needed']:,} test items would show it, and no number of seeds alone"
    elif pair["inconclusive"] and pair["seeds_for_margin"] is not None:
        needed = f"{format_more_seeds(pair['seeds_for_margin'])} each would narrow it"
    elif pair["difference"] == 0:
        needed = "no difference"
    else:
        needed = "more seeds are needed; how many cannot be estimated from one"
    return f"not significant; {needed}"


def learning_curves(plan: Plan, results: Mapping[str, Any], out: Path) -> tuple[list[dict[str, Any]], str, str]:
    """Return the validation metric of each design, mean over seeds, with the title and the label of the x axis."""
    by_time = plan.budget.kind == "seconds"
    designs = {planned.name: planned.design for planned in plan.designs}
    runs = {
        row["name"]: [_read_curve(score_file(out, designs[row["name"]], seed)) for seed in row["seeds"]]
        for row in results["rows"]
    }
    recorded = [set(points[0]) for curves in runs.values() for points in curves if points]
    candidates = (ranking_metric(plan.request).name, "loss", "accuracy")
    names = [name for name in candidates if all(name in keys for keys in recorded)]
    if not recorded or not names:
        return [], "", ""
    curves = []
    for design, seed_curves in runs.items():
        steps = sorted(set.intersection(*({point["step"] for point in points} for points in seed_curves)))
        by_step = [[next(p for p in points if p["step"] == step) for points in seed_curves] for step in steps]
        if steps:
            x = [_mean(points, "seconds") for points in by_step] if by_time else steps
            curves.append({"name": design, "x": x, "y": [_mean(points, names[0]) for points in by_step]})
    return curves, f"{names[0]} on the validation part", "seconds of training" if by_time else "step"


def _mean(points: list[dict[str, Any]], key: str) -> float:
    return sum(point[key] for point in points) / len(points)


def _read_curve(file: Path) -> list[dict[str, Any]]:
    return json.loads(file.read_text(encoding="utf-8"))["curve"]


def _describe_setup(plan: Plan, results: Mapping[str, Any]) -> dict[str, Any]:
    request = plan.request
    rule = "the same for all designs"
    if request.search:
        rule = f"each design searched {request.search} first, within its budget, by the validation metric"
    search_choice = {row["name"]: row["search_choice"] for row in results["rows"] if row.get("search_choice")}
    return {
        "budget of a run": str(plan.budget),
        "seeds": request.seeds,
        "runs": f"{results['evaluated']} of {results['runs']} evaluated",
        "items": results["items"],
        "items in two parts": results["duplicates"],
        "settings": rule,
        **({"search choice": search_choice} if search_choice else {}),
        "given settings": json.dumps(request.settings, ensure_ascii=False),
        "designs": {planned.name: json.dumps(planned.design.settings) for planned in plan.designs},
        "steps": {row["name"]: row["steps"] or "fitted" for row in results["rows"]},
        "threads": plan.threads,
    }


def _notes(plan: Plan, results: Mapping[str, Any]) -> list[str]:
    notes = [
        "The data were split once, the same for all runs. Each run keeps the checkpoint with the best validation "
        "metric, and was evaluated on the test part once, after training.",
        "Intervals and tests treat seeds and test items as random; p is corrected for all pairs (Holm), and a "
        "difference is significant if it is below 0.05.",
    ]
    if plan.budget.kind == "seconds":
        notes.append("The time was converted to steps by a trial before the start; the steps are in plan.json.")
    if any(row["faithfulness"] is not None for row in results["rows"]):
        notes.append("Evidence and faithfulness are means over some test items, of the first seed.")
    unknown_ops = {name for planned in plan.designs for name in planned.cost.unknown_ops}
    if unknown_ops:
        notes.append(f"FLOPs do not count operators without a rule: {', '.join(sorted(unknown_ops))}.")
    return notes
