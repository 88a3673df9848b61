"""The demonstration of recall: generated people, a closed and an open book, what each knows and does not know."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as Grid

from regard.data.facts import read_questions
from regard.data.synthetic.people import generate_people
from regard.errors import UserError
from regard.tasks.recall import page
from regard.tasks.recall.run import Recaller
from regard.tasks.train import train
from regard.training import atomic_write, environment

PEOPLE, WAYS, CITIES = 600, 2, 100
ASKED = 2
"""People whose answers are shown."""
STRANGER = "Ada Lovelace"
"""Nobody of the generated people has a name like that."""
BOOKS = {"closed": "closed book: from the weights alone", "open": "open book: from the sentence about the person"}
SETTINGS: dict[str, dict[str, Any]] = {
    "closed": {
        "book": "closed",
        "model": {"table": 4096},
        "tokenizer": {"vocab": 1200},
        "data": {"valid_fraction": 1 / 3},
        "train": {"steps": 180, "evaluate_every": 90},
    },
    "open": {
        "book": "open",
        "model": {"dim": 64, "hidden": 128},
        "data": {"valid_fraction": 1 / 3},
        "train": {"steps": 240, "evaluate_every": 80},
    },
}
FIGURES = {"exact": "right", "ece": "calibration error", "answered": "answered", "risk": "wrong among these"}
FIGURES |= {"strangers": "strangers answered"}


def demo(out: Path, *, people: int = PEOPLE, seed: int = 0) -> dict[str, Any]:
    """Train both books, ask, measure on people never asked about, and write `out`/report.html."""
    if out.exists() and not (out / "facts.txt").exists() and any(out.iterdir()):
        raise UserError(f"{out} is not empty and not a demo of recall; name another folder for --out")
    begun, console = time.perf_counter(), Console()
    facts, asked, others = _written(out, people, seed)
    first = facts.read_text(encoding="utf-8").split("\n", 1)[0]
    console.print(f"{people:,} people, {WAYS} sentences about each; half of them are asked about. For example:")
    console.print(f"  {first}", markup=False, highlight=False)
    known = [line.split("\t")[0] for line in others.read_text(encoding="utf-8").split("\n")[:ASKED]]
    measured: list[page.Measured] = []
    for book, title in BOOKS.items():
        console.rule(title)
        run = train("recall", [facts, asked], out=out / book, overwrite=True, seed=seed, settings=SETTINGS[book])
        assert isinstance(run, Recaller)
        for question in (*known, f"Where was {STRANGER} born?"):
            _say(console, run, question)
        tried = run.tried(read_questions(others, run.patterns))
        measured.append((run, tried, run.measures(tried) | run.strange()))
    report = out / "report.html"
    shown = page.page(measured, source=others.name, title="What it knows, and how sure it is")
    atomic_write.replace(report, shown.encode())
    rows = [{"book": run.book, "seconds": run.config["seconds"], **found} for run, _, found in measured]
    seconds = time.perf_counter() - begun
    content = {"rows": rows, "people": people, "seed": seed, "seconds": seconds, "machine": environment.describe()}
    atomic_write.replace(out / "demo.json", (json.dumps(content, indent=2) + "\n").encode())
    _print(console, rows)
    console.print(f"{seconds:.0f} seconds in all. Report: {report}", highlight=False)
    return {**content, "report": str(report)}


def _written(out: Path, people: int, seed: int) -> tuple[Path, Path, Path]:
    """facts.txt, asked.tsv and others.tsv, as `regard people` writes them."""
    made = generate_people(people, seed, phrasings=WAYS, cities=CITIES)
    out.mkdir(parents=True, exist_ok=True)
    files = out / "facts.txt", out / "asked.tsv", out / "others.tsv"
    files[0].write_text("\n".join(made.facts) + "\n", encoding="utf-8")
    for file, rows in zip(files[1:], (made.train_questions, made.test_questions), strict=True):
        file.write_text("".join(f"{q}\t{a}\n" for q, a in rows), encoding="utf-8")
    return files


def _say(console: Console, run: Recaller, question: str) -> None:
    made = run.ask(question, near=1)
    console.print(f"{question} {made}", markup=False, highlight=False)
    for line in made.explained():
        console.print(f"  {line}", markup=False, highlight=False)


def _print(console: Console, rows: list[dict[str, Any]]) -> None:
    grid = Grid("book", *FIGURES.values(), "seconds")
    for row in rows:
        told = ["–" if row[k] is None else f"{row[k]:.3f}" if k == "ece" else f"{row[k]:.1%}" for k in FIGURES]
        grid.add_row(row["book"], *told, f"{row['seconds']:.0f}")
    console.print(grid)
    console.print(f"({rows[0]['rows']:,} people never asked about in training)", highlight=False)
