"""`regard list`: models, mechanisms, positions, and which go together."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer


def matrix() -> dict[str, Any]:
    """Everything that is registered, and which combinations are defined."""
    import dataclasses

    from regard.mechanisms import COMMON, MECHANISMS
    from regard.named import own_options
    from regard.positions import POSITIONS
    from regard.runs.resolve import TASKS, model_module, models

    def fields(task: str, name: str) -> set[str]:
        return {f.name for f in dataclasses.fields(model_module(task, name).Config)}

    return {
        "models": [
            {
                "task": task,
                "name": name,
                "mechanism": "mechanism" in fields(task, name),
                "positions": "positions" in fields(task, name),
                "settings": sorted(fields(task, name)),
            }
            for task in TASKS
            for name in models(task)
        ],
        "mechanisms": [
            {
                "name": name,
                "title": cls.title,
                "citation": cls.citation,
                "reason": cls.reason,
                "positions": [p for p, place in POSITIONS.items() if place.kind in cls.accepts],
                "cross": cls.cross,
                "options": {
                    key: None if option.default is option.empty else option.default
                    for key, option in own_options(cls, COMMON).items()
                },
            }
            for name, cls in MECHANISMS.items()
        ],
        "positions": [{"name": name, "title": cls.title, "kind": cls.kind} for name, cls in POSITIONS.items()],
    }


def list_(json_: Annotated[bool, typer.Option("--json", help="JSON on stdout.")] = False) -> None:
    """Print the models, the mechanisms and the positions, and which of them go together.

    \b
    Example:
      regard list
    """
    found = matrix()
    if json_:
        print(json.dumps(found, ensure_ascii=False))
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    console = Console()
    console.width = max(console.width, 130)  # a cut matrix would be of no use
    models = Table(
        "task",
        "model",
        "any mechanism",
        "any positions",
        "settings",
        title="Models",
        title_justify="left",
        box=SIMPLE_HEAD,
    )
    for m in found["models"]:
        yes = ["yes" if m[k] else "-" for k in ("mechanism", "positions")]
        models.add_row(m["task"], m["name"], *yes, ", ".join(m["settings"]))
    names = [p["name"] for p in found["positions"]]
    pairs = Table(
        title="Which mechanism goes with which positions", title_justify="left", box=SIMPLE_HEAD, pad_edge=False
    )
    for title in ("mechanism", *names, "cross"):
        pairs.add_column(title, no_wrap=True)
    for m in found["mechanisms"]:
        cells = ["yes" if p in m["positions"] else "-" for p in names]
        pairs.add_row(m["name"], *cells, "yes" if m["cross"] else "-")
    reasons = Table(
        "mechanism", "why", "from", "options", title="Why they exist", title_justify="left", box=SIMPLE_HEAD
    )
    for m in found["mechanisms"]:
        options = ", ".join(f"{k}={v}" for k, v in m["options"].items())
        reasons.add_row(m["name"], m["reason"], m["citation"], options)
    for table in (models, pairs, reasons):
        console.print(table)
    print("cross: can regard a memory other than its own sequence. A pair with - is refused with a message.")
