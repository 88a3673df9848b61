"""`regard ask`: ask a recall run a question."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from regard.cli.common import Imports, Json, RunFolder, open_run
from regard.errors import UserError


def ask(
    run: RunFolder,
    question: Annotated[
        str, typer.Argument(help="A question like those of training; - reads one question per line of standard input.")
    ],
    abstain: Annotated[
        float | None,
        typer.Option(
            help="Largest fraction of wrong answers, as measured on the people held out; less certain answers are "
            "withheld. [answers that are more likely right than wrong]"
        ),
    ] = None,
    nearest: Annotated[int, typer.Option(min=0, help="Number of similar known names to show.")] = 3,
    import_: Imports = None,
    json_: Json = False,
) -> None:
    """Ask a recall run a question.

    The answer comes with its confidence, whether that answer occurs in the facts, and its source: the most similar
    known names (closed book), or the sentence and the attended words (open book).

    \b
    Examples:
      regard ask runs/closed "Where was Ada Lovelace born?"
      regard ask runs/open "Where was Ada Lovelace born?" --abstain 0.05 --json
      cat questions.txt | regard ask runs/open - --json
    """
    model = open_run(run, import_, "ask")
    if question != "-":
        _print_answer(model.ask(question, abstain=abstain, nearest=nearest), json_)
        return
    for line in filter(None, map(str.strip, sys.stdin)):
        try:
            _print_answer(model.ask(line, abstain=abstain, nearest=nearest), json_)
        except UserError as error:  # continue with the next question
            print(json.dumps({"question": line, "error": str(error)}) if json_ else f"regard: {error}", flush=True)


def _print_answer(answer: Any, json_: bool) -> None:
    if json_:
        print(json.dumps(answer.as_dict(), ensure_ascii=False), flush=True)
    else:
        print(answer, *(f"  {line}" for line in answer.explain()), sep="\n", flush=True)
