"""`regard demo`: the whole thing on data that needs no download."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def demo(
    out: Annotated[Path, typer.Option(help="Where the runs and the report go.")] = Path("demo"),
    reviews: Annotated[int, typer.Option(min=200, help="How many reviews to generate.")] = 24_000,
    seed: Annotated[int, typer.Option(help="Same seed, same reviews.")] = 0,
) -> None:
    """Train a hierarchical attention network and a Transformer on generated reviews whose deciding words are known,
    beside a bag of words, and write a report.

    \b
    Example:
      regard demo --out demo
    """
    from regard.demo import demo as run_demo

    run_demo(out, reviews=reviews, seed=seed)
