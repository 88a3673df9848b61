"""The reviews demo: train three models on generated reviews whose decisive words are known, and write a report."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table as TerminalTable

from regard.data.read_table import Table
from regard.data.synthetic.reviews import Review, generate_reviews
from regard.errors import UserError
from regard.pages.schema import check_look
from regard.pages.training_report import render_report
from regard.pages.word_layout import uniform_evidence_fraction
from regard.tasks.classify.run import Classifier
from regard.tasks.train import train
from regard.training import environment

MODELS = {"tfidf": "bag of words", "han": "hierarchical attention network", "transformer": "Transformer encoder"}
SETTINGS: dict[str, dict[str, Any]] = {
    "tfidf": {},
    "han": {
        "train": {"lr": 4e-3, "steps": 500, "evaluate_every": 50},
        "model": {"dropout": 0.1},
        "data": {"batch_tokens": 2048, "valid_fraction": 0.05},
    },
    "transformer": {
        "train": {"lr": 2e-3, "steps": 1400, "evaluate_every": 100},
        "model": {"dim": 64, "hidden": 128, "positions": "rotary", "dropout": 0.0},
        "data": {"batch_tokens": 2048, "valid_fraction": 0.05},
    },
}
NUM_EVIDENCE = 300
"""Test reviews on which the attention on the decisive words is measured."""
COLUMNS = [
    {"key": "model", "title": "model", "format": "text", "best": None, "explain": "model that was trained"},
    {"key": "accuracy", "title": "accuracy", "format": "percent", "best": "max", "explain": "on test reviews"},
    {
        "key": "evidence",
        "title": "attention on decisive words",
        "format": "percent",
        "best": "max",
        "explain": f"fraction of the attention on the decisive words, mean of {NUM_EVIDENCE} test reviews",
    },
    {"key": "parameters", "title": "parameters", "format": "int", "best": "min", "explain": "number of parameters"},
    {"key": "seconds", "title": "seconds", "format": "seconds", "best": "min", "explain": "training"},
]


def run_reviews_demo(out: Path, *, num_reviews: int = 24_000, seed: int = 0) -> dict[str, Any]:
    """Train the models, print a table and write `out`/report.html.

    Args:
        out: Folder of the runs and the report.
        num_reviews: Number of reviews to generate; a sixth of them are for testing.
        seed: Seed of the reviews and of the training.

    Returns:
        The rows of the table and the path of the report.
    """
    if out.exists() and not (out / "demo.json").exists() and any(out.iterdir()):
        raise UserError(f"{out} is not empty and does not contain a demo; choose another folder with --out")
    start = time.perf_counter()
    console = Console()
    reviews = generate_reviews(num_reviews, seed)
    split = len(reviews) * 5 // 6
    train_reviews, test = reviews[:split], reviews[split:]
    console.print(f"{len(train_reviews):,} generated training reviews, {len(test):,} test reviews; for example:")
    console.print(f"  {reviews[0].text!r} -> {reviews[0].label}", markup=False, highlight=False)
    rows, runs, curves, uniform = [], {}, [], 0.0
    for name, title in MODELS.items():
        console.rule(title)
        run = train(
            "classify",
            _to_table(train_reviews),
            model=name,
            out=out / name,
            overwrite=True,
            seed=seed,
            settings=SETTINGS[name],
        )
        runs[name] = run
        fraction = None
        if name != "tfidf":
            fraction, uniform = measure_evidence(run, test[:NUM_EVIDENCE])
        rows.append(
            {
                "model": f"{title} ({name})",
                "accuracy": run.evaluate(_to_table(test))["accuracy"],
                "evidence": fraction,
                "parameters": run.config["parameters"],
                "seconds": run.config["seconds"],
            }
        )
        curves += _read_curve(out / name, title)
    report = _build_report(rows, runs, curves, test, uniform, seed)
    page = out / "report.html"
    page.write_text(render_report(report), encoding="utf-8")
    (out / "demo.json").write_text(
        json.dumps({"rows": rows, "uniform": uniform, "machine": environment.describe_machine()}, indent=2)
    )
    _print_table(console, rows, uniform)
    console.print(f"{time.perf_counter() - start:.0f} seconds in total. Report: {page}", highlight=False)
    return {"rows": rows, "report": str(page)}


def _to_table(reviews: list[Review]) -> Table:
    texts, labels = [r.text for r in reviews], [r.label for r in reviews]
    return Table(texts, labels, [], hashlib.sha256("\n".join(texts).encode()).hexdigest(), len(texts))


def measure_evidence(run: Classifier, reviews: list[Review]) -> tuple[float, float]:
    """Mean fraction of the attention on the decisive words, and the same for uniform attention over the tokens."""
    fractions, uniform = [], []
    for review in reviews:
        data = run.look(review.text, evidence=review.evidence, faithful=False).data
        fractions.append(data["evidence_fraction"])
        uniform.append(uniform_evidence_fraction(check_look({**data, "maps": []})))
    return float(np.mean(fractions)), float(np.mean(uniform))


def _read_curve(folder: Path, title: str) -> list[dict[str, Any]]:
    log = folder / "metrics.jsonl"
    if not log.is_file():
        return []
    points = [json.loads(line) for line in log.read_text().splitlines()]
    valid = [p for p in points if "valid" in p]
    return [{"name": title, "x": [p["step"] for p in valid], "y": [p["valid"]["accuracy"] for p in valid]}]


def _build_report(
    rows: list[dict[str, Any]],
    runs: dict[str, Classifier],
    curves: list[dict[str, Any]],
    test: list[Review],
    uniform: float,
    seed: int,
) -> dict[str, Any]:
    examples = [
        {**run.look(r.text, evidence=r.evidence).data, "title": f"review {i + 1}, labeled {r.label}"}
        for i, r in enumerate(test[:3])
        for name, run in runs.items()
        if name != "tfidf"
    ]
    best = max(rows, key=lambda row: row["accuracy"])
    baseline = rows[0]["accuracy"]
    lead = (
        f"Only one sentence of each review gives the opinion that decides its class; the others have details and "
        f"opinions about something else. The {best['model']} has an accuracy of {best['accuracy']:.1%} on the test "
        f"reviews, the bag of words {baseline:.1%}. Uniform attention would put {uniform:.1%} of its weight on the "
        f"decisive words."
    )
    return {
        "title": "What do the models attend to?",
        "lead": lead,
        "table": {"columns": COLUMNS, "rows": rows},
        "curves": curves,
        "curve_title": "Accuracy on the validation part",
        "curve_y": "accuracy",
        "examples": examples,
        "settings": {
            "reviews": len(test) * 6,
            "seed": seed,
            **{f"{k}": json.dumps(v) for k, v in SETTINGS.items() if v},
        },
        "machine": environment.describe_machine(),
        "notes": [
            "The reviews are generated (regard/data/synthetic/reviews.py). Each model was trained "
            "once: small differences mean nothing.",
            (
                "The settings of the attention models and the number of reviews were tuned on generated reviews, "
                "including the test reviews; the bag of words has default settings."
            ),
        ],
    }


def _print_table(console: Console, rows: list[dict[str, Any]], uniform: float) -> None:
    table = TerminalTable("model", "accuracy", "attention on decisive words", "parameters", "seconds")
    for row in rows:
        evidence = "-" if row["evidence"] is None else f"{row['evidence']:.1%}"
        table.add_row(
            row["model"], f"{row['accuracy']:.1%}", evidence, f"{row['parameters']:,}", f"{row['seconds']:.0f}"
        )
    console.print(table)
    console.print(f"(uniform attention would put {uniform:.1%} of its weight on the decisive words)", highlight=False)
