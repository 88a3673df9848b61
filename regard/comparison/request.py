"""What a comparison was asked to do: task, models, settings, budget, seeds and metric."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.comparison.designs import add_baselines
from regard.comparison.synthetic_data import write_synthetic_data
from regard.config.owned_folders import claim_folder
from regard.errors import UserError


@dataclass(frozen=True)
class ComparisonRequest:
    """A request, as it is saved in plan.json so that it can be repeated.

    Args:
        models: Specs such as "han:hidden=64", or mappings of settings with a "label".
        settings: Settings of all runs.
        vary: Values of settings that make a grid of designs.
        search: Values of settings that each design tries first, within its budget.
        budget: Strings such as "2min" and "300kparameters".
        seeds: Number of runs of each design.
        test: Test files; None to hold out `test_fraction` of the data.
        metric: The metric that ranks; None for the first one of the task.
    """

    task: str
    models: list[Any]
    settings: dict[str, Any] = field(default_factory=dict)
    vary: dict[str, list[str]] = field(default_factory=dict)
    search: dict[str, list[str]] = field(default_factory=dict)
    budget: list[str] = field(default_factory=list)
    seeds: int = 3
    test: list[str] | None = None
    test_fraction: float = 0.2
    split_seed: int = 0
    metric: str | None = None

    def __post_init__(self) -> None:
        if not self.models:
            raise UserError("name the models to compare, such as --models han,transformer,nb-svm")
        if self.seeds < 1:
            raise UserError(f"seeds must be at least 1, not {self.seeds}")
        if not 0 < self.test_fraction < 1:
            raise UserError(f"test_fraction must be between 0 and 1, not {self.test_fraction}")


def build_request(
    task: str,
    data: Sequence[str | Path] | str | Path | None,
    settings: Mapping[str, Any],
    folder: Path,
    options: Mapping[str, Any],
) -> ComparisonRequest:
    """Build a request from options as users write them.

    Args:
        data: Data files; None if the settings name them or `options` has "generate".
        settings: Settings of all runs.
        folder: The folder of the comparison; generated data is written to `folder`/generated.
        options: Fields of `ComparisonRequest`, and "generate". Single values in place of lists are accepted.
    """
    options = {key: value for key, value in options.items() if value is not None}
    settings = {**settings, "data": dict(settings.get("data") or {})}
    if data is not None:
        settings["data"]["train"] = absolute_files(task, [data] if isinstance(data, str | Path) else data)
    elif spec := options.get("generate"):
        claim_folder(folder, "comparison")
        settings["data"] |= write_synthetic_data(task, spec, folder / "generated", options)
    options.pop("generate", None)
    if not settings["data"]:
        del settings["data"]
    if isinstance(options.get("models"), str):
        options["models"] = split_specs(options["models"])
    lists = {key: to_list(options[key]) for key in ("models", "budget", "test") if key in options}
    grids = {key: parse_grid(key, options[key]) for key in ("vary", "search") if key in options}
    fields = {"metric": default_metric(settings.get("data") or {}), "models": [], **options, **lists, **grids}
    fields["models"] = add_baselines(task, fields["models"])
    fields["budget"] = [str(amount) for amount in fields.get("budget", [])]
    return ComparisonRequest(task=task, settings=settings, **fields)


def absolute_files(task: str, files: Sequence[str | Path]) -> str | list[str]:
    """Return absolute paths: one for classify, a list for other tasks. Raises if classify gets several files."""
    if task != "classify":
        return [str(Path(file).absolute()) for file in files]
    if len(files) > 1:
        raise UserError(f"classify takes one file, not {len(files)}")
    return str(Path(files[0]).absolute())


def default_metric(data: Mapping[str, Any]) -> str | None:
    """Return the metric that ranks classifiers by default: the one that training uses to choose its best checkpoint."""
    weighted = data.get("class_weights") not in (None, "none")
    return "macro_f1" if weighted else "micro_f1" if data.get("multi_label") else None


def to_list(value: Any) -> list[Any]:
    """Wrap a single value in a list."""
    return [value] if isinstance(value, str | Path | int | float | Mapping) else list(value)


def split_specs(text: str) -> list[str]:
    """Split `a,b:x=1,y=2,c` into `a`, `b:x=1,y=2` and `c`: a part with "=" belongs to the spec before it."""
    specs: list[str] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        if specs and re.match(r"[^:=]*=", part):
            specs[-1] += f",{part}"
        else:
            specs.append(part)
    return specs


def parse_grid(name: str, grid: Any) -> dict[str, list[str]]:
    """Turn {"lr": [0.1, 0.2]} or ["mechanism=dot,additive"] into a mapping from settings to lists of values."""
    if isinstance(grid, Mapping):
        return {key: [str(value) for value in to_list(values)] for key, values in grid.items()}
    if isinstance(grid, str) or not isinstance(grid, Sequence):
        raise UserError(f"{name} must be a mapping from settings to values, not {grid!r}")
    values_by_key: dict[str, list[str]] = {}
    for pair in grid:
        key, equals, values = pair.partition("=")
        if not equals or not split_specs(values):
            raise UserError(f"expected key=value,value, such as mechanism=dot,additive, not {pair!r}")
        values_by_key[key.strip()] = split_specs(values)
    return values_by_key
