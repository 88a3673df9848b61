"""`regard generate` and `regard fill`: what a language model is for."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.use import Imports, Json, RunFolder, open_run
from regard.config.messages import collect_messages
from regard.errors import UserError

MOST = 64  # prompts of a file that are written at once

Seed = Annotated[int, typer.Option(min=0, help="The same seed writes the same.")]


def generate(
    run: RunFolder,
    prompt: Annotated[str | None, typer.Argument(help="How the text begins; without it, as a text begins.")] = None,
    file: Annotated[Path | None, typer.Option(help="A file with a prompt a line, instead of one.")] = None,
    tokens: Annotated[int, typer.Option(min=1, help="Write so many tokens at most.")] = 128,
    temperature: Annotated[float, typer.Option(min=0.0, help="0: always the likeliest word; 1: as learnt.")] = 0.8,
    top_k: Annotated[int | None, typer.Option(min=1, help="Choose among the k likeliest words. [all]")] = None,
    top_p: Annotated[float | None, typer.Option(help="Choose among the words that together have the chance p.")] = None,
    seed: Seed = 0,
    n: Annotated[int, typer.Option(min=1, help="How many texts for each prompt.")] = 1,
    window: Annotated[int | None, typer.Option(min=2, help="Tokens seen at once. [a window of training]")] = None,
    precision: Annotated[str, typer.Option(help="Of the weights: float32, or float16 (rounded, faster).")] = "float32",
    import_: Imports = None,
    json_: Json = False,
) -> None:
    """Let a causal language model (or one of spans) write on from a prompt. A single text appears word by word.

    \b
    Examples:
      regard generate runs/gpt "The room was" --tokens 40
      regard generate runs/gpt "The room was" --temperature 0.8 --top-k 50 --top-p 0.9 --seed 1 --n 3 --json
      regard generate runs/gpt --file lines.txt --temperature 0 --tokens 20
    """
    if prompt is not None and file is not None:
        raise UserError("give a prompt or --file, not both")
    opened = open_run(run, import_, "generate")
    _quick()
    prompts = [_whole(prompt or "")] if file is None else _lines(file)
    how: dict[str, Any] = {"tokens": tokens, "temperature": temperature, "top_k": top_k, "top_p": top_p}
    how |= {"seed": seed, "n": n, "window": window, "precision": precision}
    if file is None and n == 1 and not json_:
        _stream(opened, prompts[0], how)
        return
    slid = False
    for first in range(0, len(prompts), max(1, MOST // n)):
        part = prompts[first : first + max(1, MOST // n)]
        for said in (sample for samples in opened.generate_all(part, **how) for sample in samples):
            slid |= said.slid
            print(json.dumps(said.as_dict(), ensure_ascii=False) if json_ else f"{said}\n---", flush=True)
    _tell(slid, opened, window)


def _stream(opened: Any, prompt: str, how: dict[str, Any]) -> None:
    def heard(prompt: int, sample: int, piece: str) -> None:
        sys.stdout.write(piece)
        sys.stdout.flush()

    print(prompt, end="", flush=True)
    try:
        with collect_messages() as messages:  # shown after the text, and not within it
            said = opened.generate(prompt, heard=heard, **how)[0]
    except KeyboardInterrupt:  # what was written stands there
        print()
        raise typer.Exit(130) from None
    print()
    for message in messages:
        print(message, file=sys.stderr, flush=True)
    _tell(said.slid, opened, how["window"])


def _tell(slid: bool, opened: Any, window: int | None) -> None:
    if slid:
        seen = window or opened.settings.data.block
        print(
            f"the text grew beyond {seen} tokens: from there on the model saw the last {seen // 2} to {seen} of them",
            file=sys.stderr,
        )


def fill(
    run: RunFolder,
    text: Annotated[str, typer.Argument(help="A text with [MASK] where words are missing.")],
    top: Annotated[int, typer.Option(min=1, help="How many guesses for each [MASK].")] = 10,
    tokens: Annotated[int, typer.Option(min=1, help="Models of spans: the longest span.")] = 32,
    seed: Seed = 0,
    import_: Imports = None,
    json_: Json = False,
) -> None:
    """Name the words that may stand at each [MASK], with their probabilities. Models of masked words and blank models
    name single tokens; a model of spans writes the missing stretch: the likeliest one and others drawn by chance.

    \b
    Examples:
      regard fill runs/bert "The [MASK] was cold."
      regard fill runs/birnn "We [MASK] the [MASK]." --top 3 --json
    """
    found = open_run(run, import_, "fill").fill(_whole(text), top=top, tokens=tokens, seed=seed)
    if json_:
        rows = [{"mask": i, "guesses": [guess.as_dict() for guess in row]} for i, row in enumerate(found)]
        print(json.dumps({"text": text, "masks": rows}, ensure_ascii=False))
        return
    for i, row in enumerate(found):
        if len(found) > 1:
            print(f"[MASK] {i + 1}")
        for guess in row:
            print(f"{guess.probability:.4f}\t{_shown(guess.words)}")


def _shown(words: str) -> str:
    """A line end or a space alone can be seen."""
    return words if words.strip() and words.isprintable() else repr(words)[1:-1]


def _whole(text: str) -> str:
    if text.encode("utf-8", "replace").decode() != text:
        raise UserError("the text is not valid UTF-8; set the terminal to UTF-8, or put the text into a file")
    return text


def _lines(file: Path) -> list[str]:
    from regard.data.read_table import decode_utf8

    lines = [line.rstrip("\r") for line in decode_utf8(file.read_bytes(), str(file)).split("\n")]
    prompts = [line for line in lines if line.strip()]
    if not prompts:
        raise UserError(f"{file} holds no prompt: every line is empty")
    return prompts


def _quick() -> None:
    """The process keeps freed memory, which caches are made of."""
    from regard.training.environment import prepare

    prepare()
