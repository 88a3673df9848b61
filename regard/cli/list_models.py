"""`regard list`: the models, mechanisms and positions, and which of them can be combined."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from regard.cli.common import Imports, Json


def collect_components() -> dict[str, Any]:
    """Everything that is registered, and which mechanism can be combined with which positions."""
    import regard.models
    from regard.attention.mechanisms import COMMON, MECHANISMS
    from regard.attention.positions import POSITIONS
    from regard.config.registry import import_modules, models_of
    from regard.config.specs import option_parameters
    from regard.tasks.base import TASKS

    def describe_model(task: str | None, name: str, config: type) -> dict[str, Any]:
        fields = {field.name for field in dataclasses.fields(config)}
        choices = {part: part in fields for part in ("mechanism", "positions")}
        return {"task": task, "name": name, **choices, "settings": sorted(fields)}

    configs = {
        (task, name): models_of(task)[name] for task in map(str, filter(TASKS.get, TASKS)) for name in models_of(task)
    }
    others = [
        cls
        for module in import_modules(regard.models.__name__, regard.models.__path__)
        for name, cls in vars(module).items()
        if name.endswith("Config")
        and isinstance(cls, type)
        and dataclasses.is_dataclass(cls)
        and cls.__module__ == module.__name__
        and cls not in configs.values()
    ]
    return {
        "models": [
            *(describe_model(task, name, config) for (task, name), config in configs.items()),
            *(describe_model(None, f"{cls.__module__}.{cls.__name__}", cls) for cls in others),
        ],
        "mechanisms": [
            {
                "name": name,
                "title": cls.title,
                "citation": cls.citation,
                "reason": cls.reason,
                "positions": [p for p, positions in POSITIONS.items() if positions.kind in cls.accepts],
                "cross_attention": cls.supports_cross_attention,
                "options": {
                    key: None if option.default is option.empty else option.default
                    for key, option in option_parameters(cls, COMMON).items()
                },
            }
            for name, cls in MECHANISMS.items()
        ],
        "positions": [{"name": name, "title": cls.title, "kind": cls.kind} for name, cls in POSITIONS.items()],
    }


def list_components(import_: Imports = None, json_: Json = False) -> None:
    """List the models, mechanisms and positions.

    Also shows which of them can be combined.

    \b
    Example:
      regard list
    """
    from regard.config.plugins import import_files

    import_files(import_)
    components = collect_components()
    if json_:
        print(json.dumps(components, ensure_ascii=False))
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    style: dict[str, Any] = {"title_justify": "left", "box": SIMPLE_HEAD}
    models = Table("task", "model", "any mechanism", "any positions", "settings", title="Models", **style)
    for model in components["models"]:
        choices = ["yes" if model[part] else "-" for part in ("mechanism", "positions")]
        models.add_row(model["task"] or "-", model["name"], *choices, ", ".join(model["settings"]))
    names = [positions["name"] for positions in components["positions"]]
    combinations = Table(title="Which mechanism can be combined with which positions", pad_edge=False, **style)
    for title in ("mechanism", *names, "cross"):
        combinations.add_column(title, no_wrap=True)
    reasons = Table("mechanism", "why", "from", "options", title="Mechanisms", **style)
    for mechanism in components["mechanisms"]:
        cells = ["yes" if name in mechanism["positions"] else "-" for name in names]
        combinations.add_row(mechanism["name"], *cells, "yes" if mechanism["cross_attention"] else "-")
        options = ", ".join(f"{key}={value}" for key, value in mechanism["options"].items())
        reasons.add_row(mechanism["name"], mechanism["reason"], mechanism["citation"], options)
    console = Console()
    console.width = max(console.width, 130)  # a truncated table would be of no use
    for table in (models, combinations, reasons):
        console.print(table)
    print("A model without a task is built in Python, or comes from `regard import`.")
    print("cross: cross-attention to another sequence is supported. A combination with - raises an error.")
