"""The report of a comparison: one page that needs nothing else."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.comparison import formatting, recommendation
from regard.comparison.disagreement import EMPTY, disagreements
from regard.comparison.pareto import pareto_front
from regard.comparison.plan import Plan, score_of
from regard.comparison.results import measure_of
from regard.pages.assets import render_document
from regard.pages.plots import line_plot, pareto_plot
from regard.pages.results_table import Cell, format_table
from regard.pages.training_report import flatten, group_by_text
from regard.tasks.comparison import Measure, get_comparison

HERE = Path(__file__).parent / "templates"


def columns(plan: Plan, measure: Measure) -> list[dict[str, Any]]:
    """Columns of the table: what they are called, how they are written, what is better, what they mean."""
    others = [m for m in get_comparison(plan.asked.task).metrics if m.name != measure.name]

    def column(key: str, title: str, form: str, best: str | None, explain: str) -> dict[str, Any]:
        return {"key": key, "title": title, "format": form, "best": best, "explain": explain}

    own = measure.name.replace("_", "-")
    apart = "designs that cannot be told apart share a rank; whoever is beaten stands behind"
    return [
        column("rank", "rank", "int", None, apart),
        column("name", "design", "text", None, ""),
        column("mean", own, measure.format, measure.better, f"{measure.explain}; mean over seeds"),
        column("interval", "95 % interval", "text", None, "over seeds and test items together"),
        column("more", "told from the best", "text", None, "or what would, if the difference seen is the true one"),
        *(column(m.name, m.name.replace("_", "-"), m.format, m.better, m.explain) for m in others),
        column("seconds", "training", "seconds", "min", "mean seconds of a run"),
        column("latency_ms", "answer, ms", "number", "min", "median of single answers, one at a time"),
        column("parameters", "parameters", "int", "min", "numbers in the model"),
        column("mflops", "MFLOPs", "number", "min", "of a forward pass for one item, counted, mean over batches"),
        column("memory_mb", "memory, MB", "number", "min", "tensors that a step of training holds at once"),
        column("evidence", "evidence found", "percent", "max", "share of attention on words that are known to decide"),
        column(
            "faithful", "faithfulness", "points", "max",
            "percent points that p falls more without the words attended to than without as many by chance",
        ),
    ]  # fmt: skip


def table(plan: Plan, found: Mapping[str, Any]) -> dict[str, Any]:
    """Columns that hold nothing are left out."""
    measure = measure_of(plan.asked)
    rows = [shown_row(row, measure) for row in found["rows"]]
    kept = [c for c in columns(plan, measure) if any(row.get(c["key"]) not in (None, "") for row in rows)]
    return {"columns": kept, "rows": rows}


def shown_row(row: Mapping[str, Any], measure: Measure) -> dict[str, Any]:
    return {
        **row,
        **row["others"],
        "interval": formatting.interval(row["low"], row["high"], measure.format),
        "latency_ms": None if row["latency"] is None else 1e3 * row["latency"],
        "mflops": None if row["flops"] is None else row["flops"] / 1e6,
        "memory_mb": None if row["memory"] is None else row["memory"] / 1e6,
    }


def page(plan: Plan, found: dict[str, Any], out: Path) -> str:
    measure, shown = measure_of(plan.asked), table(plan, found)
    curves, title, axis = learning(plan, found, out)
    differ, trouble = _differ(plan, found, out)
    return render_document(
        "compare.html.j2",
        folders=(HERE,),
        css=["theme.css", "text.css", "report.css", "compare.css"],
        js=["hover.js"],
        title=f"{len(found['rows'])} designs for {plan.asked.task}",
        lead=recommendation.recommendation(found, measure.format, measure.explain),
        columns=shown["columns"],
        rows=_rounded(shown, found["rows"], measure),
        pairs=[_pair(pair, found, measure) for pair in found["pairs"]],
        fronts=[_front(found, measure, *cost) for cost in COSTS if all(row[cost[0]] for row in found["rows"])],
        curve_title=title,
        wide=line_plot(curves, x_label=axis, y_label=title, width=860),
        narrow=line_plot(curves, x_label=axis, y_label=title, width=370),
        disagree=differ["matrix"],
        sentences=differ["sentences"],
        examples=[{**one, "models": _models(one["looks"])} for one in differ["examples"]],
        failures=found["failures"],
        left_out=found["left_out"],
        facts=[("How it was done", flatten(_done(plan, found))), ("Machine", flatten(found["machine"]))],
        notes=[*_notes(plan, found), *trouble],
    )


def _rounded(shown: dict[str, Any], rows: list[dict[str, Any]], measure: Measure) -> list[list[Cell]]:
    """The cells, with the measure rounded as its interval is."""
    made, at = format_table(shown), [column["key"] for column in shown["columns"]].index("mean") if rows else 0
    for cell_row, row in zip(made, rows, strict=True):
        text = formatting.shown(row["mean"], measure.format, row["high"] - row["low"])
        cell_row[at] = dataclasses.replace(cell_row[at], text=text)
    return made


def _differ(plan: Plan, found: dict[str, Any], out: Path) -> tuple[dict[str, Any], list[str]]:
    """What cannot be opened again, such as a run folder that is gone, must not cost the rest of the report."""
    try:
        return disagreements(plan, found, out), []
    except (OSError, ValueError, RuntimeError, KeyError) as problem:
        return EMPTY, [f"Where the designs disagree could not be looked at: {problem}"]


def _models(looks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What stands side by side: each design with its own text, as translations differ."""
    return [{**shown[0]["models"][0], "even": shown[0]["even"]} for shown in (group_by_text([look]) for look in looks)]


COSTS = [("seconds", "seconds of training"), ("latency", "seconds of an answer"), ("parameters", "parameters")]


def _front(found: Mapping[str, Any], measure: Measure, key: str, label: str) -> dict[str, Any]:
    scale = 100 if measure.format == "percent" else 1
    points = [(r["name"], float(r[key]), scale * r["mean"], scale * r["low"], scale * r["high"]) for r in found["rows"]]
    named = f"{measure.name}, %" if scale == 100 else measure.name
    labels, front = {"x_label": label, "y_label": named}, pareto_front(points, measure.better)
    return {
        "wide": pareto_plot(points, front, **labels, width=560),
        "narrow": pareto_plot(points, front, **labels, width=370),
        "names": front,
        "label": label,
    }


def _pair(pair: Mapping[str, Any], found: Mapping[str, Any], measure: Measure) -> dict[str, Any]:
    """A pair in words, the better one first."""
    a, b, sign = pair["a"], pair["b"], 1
    if (pair["difference"] < 0) == (measure.better == "max"):
        a, b, sign = b, a, -1
    ends = sorted((sign * pair["low"], sign * pair["high"]))
    width = ends[1] - ends[0]
    if pair["apart"]:
        would = ""
    elif pair["more_seeds"] is not None:
        would = f"{formatting.more_seeds(pair['more_seeds'])} each"
    elif pair["items"] is not None and pair["items"] > found["items"]["test"]:
        would = f"about {pair['items']:,} test items, and no number of seeds alone"
    elif pair["wide"] and pair["narrow"] is not None:
        would = f"{formatting.more_seeds(pair['narrow'])} each"
    else:
        would = "no difference was seen" if pair["difference"] == 0 else "more seeds; how many one seed cannot say"
    return {
        "a": a,
        "b": b,
        "difference": formatting.gap(sign * pair["difference"], measure.format, width),
        "low": formatting.gap(ends[0], measure.format, width),
        "high": formatting.gap(ends[1], measure.format, width),
        "p": formatting.chance(pair["p"]),
        "corrected": formatting.chance(pair["corrected"]),
        "apart": pair["apart"],
        "would": would,
    }


def learning(plan: Plan, found: Mapping[str, Any], out: Path) -> tuple[list[dict[str, Any]], str, str]:
    """The validation part along the steps, the mean over seeds, one curve for each design; which measure; the axis."""
    by_time = plan.budget.kind == "seconds"
    by_name = {entry.design.name: entry for entry in plan.entries}
    runs = {
        row["name"]: [_curve(score_of(out, by_name[row["name"]].design, s)) for s in row["seeds"]]
        for row in found["rows"]
    }
    known = [set(points[0]) for each in runs.values() for points in each if points]
    names = [name for name in (measure_of(plan.asked).name, "loss", "accuracy") if all(name in one for one in known)]
    if not known or not names:
        return [], "", ""
    curves = []
    for name, each in runs.items():
        steps = sorted(set.intersection(*(({p["step"] for p in points}) for points in each)))
        at = [[next(p for p in points if p["step"] == step) for points in each] for step in steps]
        if steps:
            x = [sum(p["seconds"] for p in ps) / len(ps) for ps in at] if by_time else steps
            curves.append({"name": name, "x": x, "y": [sum(p[names[0]] for p in ps) / len(ps) for ps in at]})
    return curves, f"{names[0]} on the validation part", "seconds of training" if by_time else "step"


def _curve(file: Path) -> list[dict[str, Any]]:
    return json.loads(file.read_text(encoding="utf-8"))["curve"]


def _done(plan: Plan, found: Mapping[str, Any]) -> dict[str, Any]:
    asked = plan.asked
    rule = "the same for all, by default or as given"
    if asked.search:
        rule = f"each design tried {asked.search} first, within its budget, and kept the best on the validation part"
    chosen = {row["name"]: row["chosen"] for row in found["rows"] if row.get("chosen")}
    return {
        "budget of a run": str(plan.budget),
        "seeds": asked.seeds,
        "runs": f"{found['measured']} of {found['runs']} measured",
        "items": found["items"],
        "stand in two parts": found["repeated"],
        "settings": rule,
        **({"chosen": chosen} if chosen else {}),
        "given": json.dumps(asked.settings, ensure_ascii=False),
        "designs": {entry.design.name: json.dumps(entry.design.tree) for entry in plan.entries},
        "steps": {row["name"]: row["steps"] or "fitted at once" for row in found["rows"]},
        "threads": plan.threads,
    }


def _notes(plan: Plan, found: Mapping[str, Any]) -> list[str]:
    said = [
        "The data were cut once and the same for all runs. The model that was best on the validation part is the one "
        "kept; each run met the test part once, after its training.",
        "Intervals and tests count seeds and test items as drawn by chance; p is corrected for all pairs (Holm), and "
        "two designs are told apart where it is below 0.05.",
    ]
    if plan.budget.kind == "seconds":
        said.append("The time was turned into steps by a trial before the start; the steps are kept in plan.json.")
    if any(row["faithful"] is not None for row in found["rows"]):
        said.append("Evidence and faithfulness are means over some test items, of the first seed.")
    unknown = {name for entry in plan.entries for name in entry.survey.unknown}
    if unknown:
        said.append(f"FLOPs leave out operators without a rule: {', '.join(sorted(unknown))}.")
    return said
