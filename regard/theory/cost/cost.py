"""`regard.cost`: the cost of a mechanism, layer, model, recipe or run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.config.settings import load_settings
from regard.errors import UserError
from regard.tasks.base import TASKS
from regard.tasks.base_run import Run
from regard.tasks.build_settings import build_settings, task_models
from regard.theory.cost.build_subject import DEFAULT_VOCAB_SIZE, build_layer, build_model, build_task_model
from regard.theory.cost.cost_card import CostCard, measure_cost


def cost(
    subject: str | Path | nn.Module,
    *,
    n: int = 128,
    m: int | None = None,
    dim: int | None = None,
    heads: int | None = None,
    layers: int | None = None,
    mechanism: str | None = None,
    positions: str | None = None,
    vocab_size: int | None = None,
    num_classes: int = 2,
) -> CostCard:
    """Compute parameters, FLOPs, memory, sequential steps and path lengths for one text.

    Each number is computed by formula and counted on the operators that run.

    Args:
        subject: A mechanism ("local:window=64"), a layer ("gru"), a model ("gpt", "classify/transformer"), a recipe
            (.yaml), a run folder, or a module of regard.
        n: Length of the text in tokens.
        m: Length of the source, for models that have one; n by default.
        dim: Width; 64 for a layer, and the default of a model.
        heads: Number of heads; 4 for a layer, and the default of a model.
        layers: Number of layers of a model.
        mechanism: Attention mechanism of a model.
        positions: Position encoding.
        vocab_size: Size of the vocabulary; 8000, or that of the recipe.
        num_classes: Number of classes of a classifier.

    >>> cost("dot", n=64, dim=32).formula["params"]
    4224
    """
    options = {"d": dim, "heads": heads, "layers": layers, "mechanism": mechanism, "positions": positions}
    if isinstance(subject, nn.Module):
        return measure_cost(subject, type(subject).__name__, n, m)
    return measure_cost(build_module(str(subject), options, vocab_size, num_classes), str(subject), n, m)


def build_module(subject: str, options: dict[str, Any], vocab_size: int | None, num_classes: int) -> nn.Module:
    """Build or open what `subject` names: a folder is a run, a .yaml file a recipe; a layer comes before a model.

    Args:
        subject: As for `cost`.
        options: "d" (width), "heads", "layers", "mechanism" and "positions"; None values are ignored.
        vocab_size: Size of the vocabulary; None for the default.
        num_classes: Number of classes of a classifier.
    """
    is_recipe = subject.endswith((".yaml", ".yml"))
    if (Path(subject).is_dir() or is_recipe) and any(value is not None for value in options.values()):
        kind = "recipe" if is_recipe else "run"
        raise UserError(f"{subject} is a {kind}, which has its own sizes: leave out the width, heads and layers")
    if Path(subject).is_dir():
        return Run.load(subject).model
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        if is_recipe:
            return _build_recipe(subject, vocab_size, num_classes)
        layer = build_layer(subject, options.get("d") or 64, options.get("heads") or 4, options.get("positions"))
        if layer is not None:
            return layer
        configs = {f"{task}/{name}": config for task in TASKS for name, config in task_models(task).items()}
        return build_model(subject, configs, options, vocab_size, num_classes)


def _build_recipe(path: str, vocab_size: int | None, num_classes: int) -> nn.Module:
    """Build the model of a recipe, with the vocabulary size of its tokenizer."""
    tree = load_settings(path)
    task = tree.pop("task", None)
    if task is None or "models" in tree:
        raise UserError(f"{path} is not a recipe of `regard train`, which has a task and one model")
    settings = build_settings(str(task), tree)
    size: int = vocab_size or getattr(settings.tokenizer, "vocab_size", None) or DEFAULT_VOCAB_SIZE
    return build_task_model(settings.model, settings.task, size, num_classes)
