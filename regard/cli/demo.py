"""`regard demo`: train small models on generated data and write a report. Nothing is downloaded."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.errors import UserError


def demo(
    name: Annotated[str, typer.Argument(help="reviews: what models attend to; recall: what models know.")] = "reviews",
    out: Annotated[Path | None, typer.Option(help="Folder of the runs and the report. [demo, or demo-recall]")] = None,
    reviews: Annotated[int, typer.Option(min=200, help="reviews: number of reviews to generate.")] = 24_000,
    people: Annotated[int, typer.Option(min=20, help="recall: number of people to generate.")] = 600,
    seed: Annotated[int, typer.Option(help="Random seed. The same seed gives the same data.")] = 0,
) -> None:
    """Train models on generated data and write a report.

    \b
    reviews   hierarchical attention, a Transformer and a bag of words, on reviews whose decisive words are known
    recall    a closed-book and an open-book model, on invented people; both are asked about known and unknown people

    \b
    Examples:
      regard demo --out demo
      regard demo recall --out demo-recall
    """
    if name == "recall":
        from regard.demo.recall_demo import run_recall_demo

        run_recall_demo(out or Path("demo-recall"), num_people=people, seed=seed)
    elif name == "reviews":
        from regard.demo.reviews_demo import run_reviews_demo

        run_reviews_demo(out or Path("demo"), num_reviews=reviews, seed=seed)
    else:
        raise UserError(f"unknown demo {name!r}; known: reviews, recall")
