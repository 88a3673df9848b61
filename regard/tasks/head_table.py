"""Measure on a data set how important each attention head of a run is, and remove heads.

A run needs the method `build_evaluation(files, rows)`: it returns a function that computes the loss (and the accuracy)
of the model as it is at that moment.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.inspect import HeadImportance, find_attention_layers, head_importance
from regard.inspect import prune as prune_heads


@dataclass(frozen=True)
class HeadTable:
    """The importance of the heads of a run.

    Attributes:
        baseline: Metrics of the complete model.
        rows: Metrics without each head, the most important head first.
    """

    baseline: dict[str, float]
    rows: list[HeadImportance]

    def as_dict(self) -> dict[str, Any]:
        return {"baseline": self.baseline, "rows": [row.as_dict() for row in self.rows]}

    def save(self, path: str | Path) -> Path:
        """Write the table as .csv or .json."""
        path = Path(path)
        if path.suffix.lower() == ".json":
            path.write_text(json.dumps(self.as_dict()), encoding="utf-8")
            return path
        if path.suffix.lower() != ".csv":
            raise UserError(f"the table must be saved as .csv or .json, not {str(path)!r}")
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            names = list(self.baseline)
            writer.writerow(["layer", "head", "intervention", *names, *(f"change of {name}" for name in names)])
            for row in self.rows:
                head = "" if row.head is None else row.head
                writer.writerow([row.layer, head, row.intervention, *row.metrics.values(), *row.change.values()])
        return path

    def __str__(self) -> str:
        names = list(self.baseline)
        width = max(5, *(len(row.layer) for row in self.rows))
        lines = ["complete model: " + ", ".join(f"{name} {value:.4f}" for name, value in self.baseline.items())]
        lines.append(f"{'layer':{width}}  {'head':>5}  {'':8}" + "".join(f"{name:>12}" for name in names))
        for row in self.rows:
            head = "all" if row.head is None else str(row.head)
            changes = "".join(f"{row.change[name]:>+12.4f}" for name in names)
            lines.append(f"{row.layer:{width}}  {head:>5}  {row.intervention:8}{changes}")
        return "\n".join(lines)


def measure_heads(
    run: Any,
    files: Sequence[str | Path],
    *,
    rows: int = 200,
    on_progress: Callable[[int, int], Any] | None = None,
) -> HeadTable:
    """Evaluate a run without each of its attention heads.

    Args:
        run: A run or an imported model.
        files: The data.
        rows: How many texts are used; for language models, thousands of tokens.
        on_progress: Called with the number of evaluations so far and their total.
    """
    if not hasattr(run, "build_evaluation"):
        raise UserError(f"the heads of a {type(run).__name__} cannot be measured on data; use `regard look`")
    evaluate = run.build_evaluation(files, rows)
    baseline, importances = head_importance(run.model, evaluate, on_progress=on_progress)
    return HeadTable(baseline, sorted(importances, key=lambda row: -row.change["loss"]))


def prune_run(run: Any, specs: Sequence[str]) -> Any:
    """A copy of a run without some heads.

    Args:
        run: A run or an imported model.
        specs: The heads, each as LAYER:HEADS, such as "layers.0:1,3".
    """
    model = deepcopy(run.model)
    for spec in specs:
        name, _, numbers = spec.rpartition(":")
        try:
            heads = [int(number) for number in numbers.split(",")]
        except ValueError:
            heads = []
        if not name or not heads:
            raise UserError(f"heads must be named LAYER:HEADS, such as layers.0:1,3, not {spec!r}")
        layers = [layer for layer in find_attention_layers(model) if layer == name or layer.startswith(f"{name}.")]
        if len(layers) != 1:
            known = ", ".join(layers or find_attention_layers(model))
            raise UserError(f"{name!r} must name one attention layer, but names {len(layers)}; known: {known}")
        prune_heads(model, layers[0], heads)
    if hasattr(run, "with_model"):  # an imported model
        return run.with_model(model)
    return type(run)(None, run.config, model, run.tokenizer)
