"""`regard generate`: continue a prompt with a language model."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.common import Imports, Json, RunFolder, Seed, check_utf8, open_run
from regard.config.messages import collect_messages
from regard.errors import UserError

logger = logging.getLogger(__name__)

BATCH = 64
"""Texts of a file that are generated in one batch."""


def generate(
    run: RunFolder,
    prompt: Annotated[str | None, typer.Argument(help="Beginning of the text. [empty]")] = None,
    file: Annotated[Path | None, typer.Option(help="File with one prompt per line, instead of one prompt.")] = None,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Largest number of tokens to generate.")] = 128,
    temperature: Annotated[float, typer.Option(min=0.0, help="Sampling temperature; 0 is greedy.")] = 0.8,
    top_k: Annotated[int | None, typer.Option(min=1, help="Sample from the k most probable tokens. [all]")] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Sample from the most probable tokens whose probabilities add up to p.")
    ] = None,
    seed: Seed = 0,
    n: Annotated[int, typer.Option(min=1, help="Texts for each prompt.")] = 1,
    window: Annotated[int | None, typer.Option(min=2, help="Context length in tokens. [that of training]")] = None,
    precision: Annotated[str, typer.Option(help="Precision of the weights: float32, or float16 (faster).")] = "float32",
    import_: Imports = None,
    json_: Json = False,
) -> None:
    """Generate a continuation of a prompt.

    The run is a causal or span language model. A single text is printed while it is generated.

    \b
    Examples:
      regard generate runs/gpt "The room was" --max-new-tokens 40
      regard generate runs/gpt "The room was" --temperature 0.8 --top-k 50 --top-p 0.9 --seed 1 --n 3 --json
      regard generate runs/gpt --file lines.txt --temperature 0 --max-new-tokens 20
    """
    from regard.training.environment import prepare_process

    if prompt is not None and file is not None:
        raise UserError("give a prompt or --file, not both")
    model = open_run(run, import_, "generate")
    prepare_process()  # keep freed memory for the caches
    prompts = [check_utf8(prompt or "")] if file is None else _read_prompts(file)
    options: dict[str, Any] = {"max_new_tokens": max_new_tokens, "temperature": temperature, "top_k": top_k}
    options |= {"top_p": top_p, "seed": seed, "n": n, "window": window, "precision": precision}
    if file is None and n == 1 and not json_:
        _stream(model, prompts[0], options)
        return
    window_moved = False
    for first in range(0, len(prompts), max(1, BATCH // n)):
        batch = prompts[first : first + max(1, BATCH // n)]
        for sample in (sample for samples in model.generate_all(batch, **options) for sample in samples):
            window_moved |= sample.window_moved
            print(json.dumps(sample.as_dict(), ensure_ascii=False) if json_ else f"{sample}\n---", flush=True)
    _report_window(window_moved, model, window)


def _stream(model: Any, prompt: str, options: dict[str, Any]) -> None:
    """Print one text while it is generated; messages follow after it."""

    def on_text(prompt: int, sample: int, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    print(prompt, end="", flush=True)
    try:
        with collect_messages() as messages:
            sample = model.generate(prompt, on_text=on_text, **options)[0]
    except KeyboardInterrupt:  # the text so far is printed
        print()
        raise typer.Exit(130) from None
    print()
    for message in messages:
        logger.info(message)
    _report_window(sample.window_moved, model, options["window"])


def _report_window(window_moved: bool, model: Any, window: int | None) -> None:
    if window_moved:
        size = window or model.settings.data.block_size
        logger.info(
            f"the text is longer than the context of {size} tokens: the model saw only the last {size // 2} to {size}"
        )


def _read_prompts(file: Path) -> list[str]:
    from regard.data.read_table import decode_utf8

    lines = [line.rstrip("\r") for line in decode_utf8(file.read_bytes(), str(file)).split("\n")]
    prompts = [line for line in lines if line.strip()]
    if not prompts:
        raise UserError(f"{file} contains no prompt: every line is empty")
    return prompts
