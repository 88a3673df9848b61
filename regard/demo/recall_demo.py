"""The recall demo: train a closed-book and an open-book model on generated people, and write what they know."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as TerminalTable

from regard.data.facts import read_questions
from regard.data.synthetic.people import generate_people, write_people
from regard.errors import UserError
from regard.tasks.recall import page
from regard.tasks.recall.run import QuestionAnswerer
from regard.tasks.train import train
from regard.training import atomic_write, environment

PEOPLE, PHRASINGS, CITIES = 600, 2, 100
NUM_EXAMPLES = 2
"""People whose answers are printed."""
UNKNOWN_NAME = "Ada Lovelace"
"""None of the generated people has a similar name."""
BOOKS = {
    "closed": "closed book: answers from the weights",
    "open": "open book: answers from the sentence about the person",
}
SETTINGS: dict[str, dict[str, Any]] = {
    "closed": {
        "book": "closed",
        "model": {"table_size": 4096},
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
COLUMNS = {
    "exact": "correct",
    "ece": "calibration error",
    "answered": "answered",
    "risk": "wrong among these",
    "unknown_answered": "unknown names answered",
}


def run_recall_demo(out: Path, *, num_people: int = PEOPLE, seed: int = 0) -> dict[str, Any]:
    """Train both models, ask questions, evaluate on people without training questions, and write `out`/report.html.

    Args:
        out: Folder of the data, the runs and the report.
        num_people: Number of people to generate; half of them have training questions.
        seed: Seed of the people and of the training.

    Returns:
        The content of demo.json and the path of the report.
    """
    if out.exists() and not (out / "facts.txt").exists() and any(out.iterdir()):
        raise UserError(f"{out} is not empty and does not contain a recall demo; choose another folder with --out")
    start, console = time.perf_counter(), Console()
    write_people(generate_people(num_people, seed, phrasings=PHRASINGS, num_cities=CITIES), out)
    facts, asked, others = out / "facts.txt", out / "asked.tsv", out / "others.tsv"
    first = facts.read_text(encoding="utf-8").split("\n", 1)[0]
    console.print(f"{num_people:,} people, {PHRASINGS} sentences about each; half have training questions. Example:")
    console.print(f"  {first}", markup=False, highlight=False)
    questions = [line.split("\t")[0] for line in others.read_text(encoding="utf-8").split("\n")[:NUM_EXAMPLES]]
    evaluated_runs: list[page.EvaluatedRun] = []
    for book, title in BOOKS.items():
        console.rule(title)
        run = train("recall", [facts, asked], out=out / book, overwrite=True, seed=seed, settings=SETTINGS[book])
        assert isinstance(run, QuestionAnswerer)
        for question in (*questions, f"Where was {UNKNOWN_NAME} born?"):
            _print_answer(console, run, question)
        answered = run.answer_all(read_questions(others, run.patterns))
        evaluated_runs.append((run, answered, run.compute_metrics(answered) | run.unknown_name_metrics()))
    report = out / "report.html"
    html = page.render_page(evaluated_runs, source=others.name, title="What the models know, and how certain they are")
    atomic_write.replace_file(report, html.encode())
    rows = [{"book": run.book, "seconds": run.config["seconds"], **metrics} for run, _, metrics in evaluated_runs]
    seconds = time.perf_counter() - start
    content = {
        "rows": rows,
        "people": num_people,
        "seed": seed,
        "seconds": seconds,
        "machine": environment.describe_machine(),
    }
    atomic_write.replace_file(out / "demo.json", (json.dumps(content, indent=2) + "\n").encode())
    _print_table(console, rows)
    console.print(f"{seconds:.0f} seconds in total. Report: {report}", highlight=False)
    return {**content, "report": str(report)}


def _print_answer(console: Console, run: QuestionAnswerer, question: str) -> None:
    answer = run.ask(question, nearest=1)
    console.print(f"{question} {answer}", markup=False, highlight=False)
    for line in answer.explain():
        console.print(f"  {line}", markup=False, highlight=False)


def _print_table(console: Console, rows: list[dict[str, Any]]) -> None:
    table = TerminalTable("book", *COLUMNS.values(), "seconds")
    for row in rows:
        cells = ["–" if row[k] is None else f"{row[k]:.3f}" if k == "ece" else f"{row[k]:.1%}" for k in COLUMNS]
        table.add_row(row["book"], *cells, f"{row['seconds']:.0f}")
    console.print(table)
    console.print(f"({rows[0]['rows']:,} people without training questions)", highlight=False)
