"""`regard list`: models, mechanisms, positions, and which go together."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Annotated, Any

import typer


def matrix() -> dict[str, Any]:
    """Everything that is registered, and which combinations are defined."""
    import dataclasses

    import regard.models
    from regard.attention.mechanisms import COMMON, MECHANISMS
    from regard.attention.positions import POSITIONS
    from regard.config.registry import import_modules
    from regard.config.specs import own_options
    from regard.tasks.base import KINDS
    from regard.tasks.build_settings import model_module, models

    def model(task: str | None, name: str, module: ModuleType) -> dict[str, Any]:
        fields = {f.name for f in dataclasses.fields(module.Config)}
        choices = {part: part in fields for part in ("mechanism", "positions")}
        return {"task": task, "name": name, **choices, "settings": sorted(fields)}

    trained = {(task, name): model_module(task, name) for task in KINDS for name in models(task)}
    others = [
        module
        for module in import_modules(regard.models.__name__, regard.models.__path__)
        if hasattr(module, "Config") and module not in trained.values()
    ]
    return {
        "models": [
            *(model(task, name, module) for (task, name), module in trained.items()),
            *(model(None, module.__name__, module) for module in others),
        ],
        "mechanisms": [
            {
                "name": name,
                "title": cls.title,
                "citation": cls.citation,
                "reason": cls.reason,
                "positions": [p for p, place in POSITIONS.items() if place.kind in cls.accepts],
                "cross": cls.supports_cross_attention,
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
        models.add_row(m["task"] or "-", m["name"], *yes, ", ".join(m["settings"]))
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
    print("A model with no task is built in Python, or comes by `regard import`.")
    print("cross: can regard a memory other than its own sequence. A pair with - is refused with a message.")
