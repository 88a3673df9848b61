"""`regard train recall` and `regard ask`: what a model knows, how sure it is, and where it has it from."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli import options as o
from regard.cli.train import app, run
from regard.cli.use import Imports, Json, RunFolder, open_run
from regard.errors import UserError


@app.command("recall")
def recall(
    facts: Annotated[str | None, typer.Option(help="The facts: `Name. Sentence` a line (also .gz).")] = None,
    questions: Annotated[
        str | None, typer.Option(help="Questions about some of these people, and their answers: a table.")
    ] = None,
    book: Annotated[
        str | None, typer.Option(help="closed: from the weights; open: from the sentence. [closed]")
    ] = None,
    valid: Annotated[
        str | None, typer.Option(help="Questions for validation; without it a fifth of the people.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="ngram-gpt or gpt; pointer for an open book. [the first]")] = None,
    mechanism: o.Mechanism = None,
    positions: o.Positions = None,
    from_: o.From = None,
    epochs: o.Epochs = None,
    steps: o.Steps = None,
    budget: o.Budget = None,
    out: o.Out = None,
    resume: o.Resume = False,
    overwrite: o.Overwrite = False,
    seed: o.Seed = None,
    lr: o.Lr = None,
    optimizer: o.Optimizer = None,
    batch_tokens: o.BatchTokens = None,
    accumulate: o.Accumulate = None,
    patience: o.Patience = None,
    average: o.Average = None,
    tokenizer: Annotated[str | None, typer.Option(help="bpe for a closed book, words for an open one.")] = None,
    vocab: Annotated[int | None, typer.Option(min=7, help="Size of the vocabulary. [6000; open: 2000]")] = None,
    precision: o.Precision = None,
    devices: o.Devices = None,
    nodes: o.Nodes = None,
    strategy: o.Strategy = None,
    config: o.Config = None,
    set_: o.Set = None,
    import_: o.Imports = None,
    quiet: o.Quiet = False,
    json_: o.Json = False,
) -> None:
    """Train a model to answer questions about people of whom it has read a sentence each. A fifth of the people asked
    about are set aside; their answers are never seen. Without --epochs, --steps or --budget it takes 12 epochs.

    \b
    closed   from its weights alone: each sentence is said in many ways, questions among them     --model ngram-gpt, gpt
    open     finds the sentence by the name and points at the answer in it                        --model pointer

    \b
    Examples:
      regard train recall --facts facts.txt --questions asked.tsv --book closed --epochs 1 --out runs/closed
      regard train recall --facts facts.txt --questions asked.tsv --book open --epochs 2 --out runs/open
      regard train recall --facts facts.txt --questions asked.tsv --model gpt --mechanism dot --steps 5
      regard train recall --resume --out runs/closed
    """
    said = locals()
    given = [part for part in (facts, questions) if part is not None]
    flags = {
        "seed": seed,
        "origin": from_,
        "book": book,
        "model": {"name": model, "mechanism": mechanism, "positions": positions},
        "data": {"train": given or None, "valid": valid, "batch_tokens": batch_tokens},
        "tokenizer": {"kind": tokenizer, "vocab": vocab},
        "train": o.training(said),
    }
    run("recall", flags, config, set_, import_, out, resume, overwrite, quiet, json_)


def ask(
    folder: RunFolder,
    question: Annotated[str, typer.Argument(help="A question like those of training; -: a line each from stdin.")],
    abstain: Annotated[
        float | None,
        typer.Option(
            help="Answer where at most this share of answers about the people set aside was wrong. [where it is rather "
            "right than wrong]"
        ),
    ] = None,
    near: Annotated[int, typer.Option(min=0, help="How many of the nearest known names are shown.")] = 3,
    import_: Imports = None,
    json_: Json = False,
) -> None:
    """Ask a run of recall. The answer comes with how sure it is, whether that place stands in what was read, and what
    it rests on: the nearest known names (closed book), or the sentence and the words attended to (open book).

    \b
    Examples:
      regard ask runs/closed "Where was Ada Lovelace born?"
      regard ask runs/open "Where was Ada Lovelace born?" --abstain 0.05 --json
      cat questions.txt | regard ask runs/open - --json
    """
    opened = open_run(folder, import_, "ask")
    if question != "-":
        _tell(opened.ask(question, abstain=abstain, near=near), json_)
        return
    for line in filter(None, map(str.strip, sys.stdin)):
        try:
            _tell(opened.ask(line, abstain=abstain, near=near), json_)
        except UserError as problem:  # the next one may be better
            print(json.dumps({"question": line, "error": str(problem)}) if json_ else f"regard: {problem}", flush=True)


def _tell(made: Any, json_: bool) -> None:
    if json_:
        print(json.dumps(made.as_dict(), ensure_ascii=False), flush=True)
        return
    print(made, *(f"  {line}" for line in made.explained()), sep="\n", flush=True)


def people(
    out: Annotated[Path, typer.Option(help="Folder for facts.txt, asked.tsv and others.tsv.")] = Path("people"),
    count: Annotated[int, typer.Option(min=2, help="How many people.")] = 1000,
    ways: Annotated[int, typer.Option(min=1, help="In how many ways each fact is said, up to 6.")] = 1,
    cities: Annotated[int, typer.Option(min=2, help="How many cities they are born in.")] = 200,
    seed: Annotated[int, typer.Option(help="Same seed, same people.")] = 0,
) -> None:
    """Write generated facts: people with invented names, born in real cities; half of them with question and answer
    (asked.tsv), the others to ask afterwards (others.tsv).

    \b
    Example:
      regard people --count 200 --ways 2 --out people
    """
    from regard.data.synthetic.people import generate_people

    made = generate_people(count, seed, phrasings=ways, cities=cities)
    out.mkdir(parents=True, exist_ok=True)
    (out / "facts.txt").write_text("\n".join(made.facts) + "\n", encoding="utf-8")
    for name, rows in (("asked", made.train_questions), ("others", made.test_questions)):
        (out / f"{name}.tsv").write_text("".join(f"{q}\t{a}\n" for q, a in rows), encoding="utf-8")
    print(f"{len(made.facts):,} sentences about {count:,} people: {out / 'facts.txt'}")
    print(f"try: regard train recall --facts {out}/facts.txt --questions {out}/asked.tsv --out runs/people")
