"""`regard fill`: predict the tokens at [MASK]."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from regard.cli.common import Imports, Json, RunFolder, Seed, check_utf8, open_run


def fill(
    run: RunFolder,
    text: Annotated[str, typer.Argument(help="Text with one or more [MASK].")],
    top: Annotated[int, typer.Option(min=1, help="Guesses for each [MASK].")] = 10,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Span models: largest length of the span.")] = 32,
    seed: Seed = 0,
    import_: Imports = None,
    json_: Json = False,
) -> None:
    """Predict each [MASK], with probabilities.

    Masked and blank language models predict single tokens. A span model generates the missing span: the most probable
    one, and random samples.

    \b
    Examples:
      regard fill runs/bert "The [MASK] was cold."
      regard fill runs/birnn "We [MASK] the [MASK]." --top 3 --json
    """
    model = open_run(run, import_, "fill")
    masks = model.fill(check_utf8(text), top=top, max_new_tokens=max_new_tokens, seed=seed)
    if json_:
        rows = [{"mask": i, "guesses": [guess.as_dict() for guess in guesses]} for i, guesses in enumerate(masks)]
        print(json.dumps({"text": text, "masks": rows}, ensure_ascii=False))
        return
    for i, guesses in enumerate(masks, 1):
        if len(masks) > 1:
            print(f"[MASK] {i}")
        for guess in guesses:
            print(f"{guess.probability:.4f}\t{_visible(guess.words)}")


def _visible(text: str) -> str:
    """The text, with whitespace and control characters escaped where they could not be seen."""
    return text if text.strip() and text.isprintable() else repr(text)[1:-1]
