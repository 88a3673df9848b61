"""From what stands on disk to the table: each design's measures, what may be said of them, and what they cost."""

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

from regard.comparison import formatting
from regard.comparison.designs import Asked
from regard.comparison.plan import Entry, Plan, failure_of, folder_of, score_of
from regard.comparison.runner import finished
from regard.comparison.scoring import opened
from regard.comparison.statistics import Analysis, analyse
from regard.errors import UserError, did_you_mean
from regard.tasks.comparison import Measure, get_comparison, stats_of
from regard.training import atomic_write, environment

LOOKED, TAKEN_AWAY = 60, 12
"""Test items on which attention is compared with the evidence, and from which words are taken away."""


def measure_of(asked: Asked) -> Measure:
    known = {m.name: m for m in get_comparison(asked.task).metrics}
    name = asked.measure or next(iter(known))
    if name not in known:
        raise UserError(f"{asked.task} has no measure {name!r}; {did_you_mean(name, known)}")
    return known[name]


def gather(plan: Plan, out: Path, *, looks: bool = True) -> dict[str, Any]:
    """All that the table and the report say. Where nothing is measured yet, there are no rows."""
    measure = measure_of(plan.asked)
    done = {e.design.name: [s for s in plan.seeds if score_of(out, e.design, s).is_file()] for e in plan.entries}
    entries = [entry for entry in plan.entries if done[entry.design.name]]
    scores = {
        e.design.name: np.stack([stats_of(score_of(out, e.design, s), measure.name) for s in done[e.design.name]])
        for e in entries
    }
    how = {"better": measure.better, "share": measure.share, "linear": measure.linear, "top": measure.top}
    found = analyse(scores, measure.metric, **how)
    by_name = {entry.design.name: entry for entry in entries}
    rows = [_row(plan, by_name[s.name], done[s.name], out, asdict(s), looks) for s in found.standings]
    for row in rows:
        row["more"] = more(found, rows[0]["name"], row["name"], plan.facts["items"]["test"])
    failures = {}
    for entry, seed in plan.runs:
        note = failure_of(out, entry.design, seed)
        if note.is_file():
            failures[f"{entry.design.name}, seed {seed}"] = json.loads(note.read_text(encoding="utf-8"))["error"]
    trained = sum(finished(folder_of(out, entry.design, seed)) for entry, seed in plan.runs)
    return {
        "task": plan.asked.task,
        "measure": measure.name,
        "better": measure.better,
        "margin": found.margin,
        "budget": str(plan.budget),
        "seeds": plan.asked.seeds,
        "runs": len(plan.runs),
        "trained": trained,
        "measured": sum(map(len, done.values())),
        "items": plan.facts["items"],
        "repeated": plan.facts["repeated"],
        "rows": rows,
        "pairs": [asdict(pair) for pair in found.pairs],
        "failures": failures,
        "left_out": plan.left_out,
        "machine": environment.describe_machine(),
    }


def _row(plan: Plan, entry: Entry, seeds: Sequence[int], out: Path, standing: dict, looks: bool) -> dict[str, Any]:
    runs = [json.loads(score_of(out, entry.design, s).read_text(encoding="utf-8")) for s in seeds]
    seen = entry.survey
    times = [run["latency"] for run in runs if run["latency"] is not None]
    cost = {
        "parameters": runs[0].get("parameters"),
        "flops": seen.flops_item or None,
        "memory": seen.memory or None,
        "seconds": statistics.mean(run["seconds"] for run in runs),
        "latency": statistics.median(times) if times else None,
    }
    others = {
        name: statistics.mean(run["measures"][name] for run in runs)
        for name in runs[0]["measures"]
        if name != measure_of(plan.asked).name
    }
    shown = shown_of(plan, entry, seeds[0], out) if looks else {}
    chosen = {"chosen": entry.chosen} if entry.chosen else {}
    return {
        **standing, "model": entry.design.model, "others": others, "seeds": list(seeds), "steps": entry.steps,
        **chosen, **cost,
        "evidence": shown.get("evidence"), "faithful": shown.get("faithful"),
    }  # fmt: skip


def shown_of(plan: Plan, entry: Entry, seed: int, out: Path) -> dict[str, Any]:
    """How much of a run's attention falls on the evidence, and how much more p falls without the words attended to than
    without as many by chance: means over test items. Found out once."""
    file = score_of(out, entry.design, seed).with_name("looks.json")
    if file.is_file():
        return json.loads(file.read_text(encoding="utf-8"))
    judge = get_comparison(plan.asked.task)
    if not judge.measures_faithfulness:
        return {}
    run = opened(folder_of(out, entry.design, seed))
    count = plan.facts["items"]["test"]
    shares, falls = [], []
    for item in np.linspace(0, count - 1, min(count, LOOKED)).round().astype(int).tolist():
        faithful = len(falls) < TAKEN_AWAY
        if not faithful and not plan.facts["evidence"]:
            break
        try:
            seen = judge.look(run, out / "parts", item, faithful)
        except (ValueError, RuntimeError):  # what cannot be shown leaves the table as it is
            seen = None
        if seen is None:
            break
        if seen.get("evidence_fraction") is not None:
            shares.append(seen["evidence_fraction"])
        falls += [fall] if faithful and (fall := _fall(seen)) is not None else []
    found = {
        "evidence": statistics.mean(shares) if shares else None,
        "faithful": statistics.mean(falls) if falls else None,
    }
    atomic_write.replace_file(file, json.dumps(found).encode())
    return found


def _fall(seen: Mapping[str, Any]) -> float | None:
    rows = (seen.get("faithfulness") or {}).get("metrics") or []
    own = next((r for r in rows if r["name"] == "comprehensiveness" and r["random"] is not None), None)
    return None if own is None else own["attention"] - own["random"]


def more(found: Analysis, best: str, name: str, items: int) -> str:
    """What would tell a design from the best, in words."""
    if name == best:
        return ""
    pair = found.pair(best, name)
    if pair.apart:
        return "told apart"
    if pair.more_seeds is not None:
        return formatting.more_seeds(pair.more_seeds)
    if pair.items is not None and pair.items > items:
        return f"{pair.items:,} test items"
    if pair.wide and pair.narrow is not None:
        return formatting.more_seeds(pair.narrow)
    return "more seeds" if pair.items is not None or pair.wide else "no difference seen"


def save(found: dict[str, Any], out: Path) -> None:
    """results.json, and results.csv with a row for each design."""
    atomic_write.replace_file(out / "results.json", (json.dumps(found, indent=1, ensure_ascii=False) + "\n").encode())
    stream = io.StringIO()
    names = ["rank", "name", "mean", "low", "high", "seeds", "steps", "parameters", "flops", "memory", "seconds"]
    names += ["latency", "evidence", "faithful", "more"]
    extra = list(found["rows"][0]["others"]) if found["rows"] else []
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([found["measure"] if n == "mean" else n for n in names] + extra)
    for row in found["rows"]:
        cells = [len(row[n]) if n == "seeds" else row[n] for n in names]
        writer.writerow([*cells, *(row["others"][n] for n in extra)])
    atomic_write.replace_file(out / "results.csv", stream.getvalue().encode())
