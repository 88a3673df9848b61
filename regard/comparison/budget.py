"""One budget for all runs: time, FLOPs, tokens, steps or epochs become a number of steps, parameters become a width.

    2min, 90s                   seconds of training, measured by a short trial on this machine
    2Tflops, 3e12flops          FLOPs of training, forward and backward, counted on a few batches
    5Mtokens                    tokens
    500steps, 3epochs           as they are
    300kparameters              the size of each model; combined with one of the others, or 5 epochs

The number of steps is saved in plan.json and not measured again when a comparison is resumed, repeated or moved to
another machine.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from regard.config.messages import muted
from regard.config.settings import Settings, TrainSettings, merge_settings, parse_duration
from regard.data.tokenizer import Tokenizer
from regard.errors import UserError
from regard.models.linear_text_model import FittableConfig
from regard.tasks.base import get_task
from regard.tasks.build_settings import build_settings, make_paths_absolute
from regard.tasks.train import build_model, build_objective
from regard.tasks.warm_start import adopt_settings
from regard.theory.cost.cost_card import SavedActivations
from regard.theory.cost.trace import Trace
from regard.training.loop import time_training
from regard.training.objective import Objective

UNITS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "b": 1e9, "t": 1e12}
KINDS = {"flops": "flops", "flop": "flops", "tokens": "tokens", "token": "tokens", "steps": "steps", "step": "steps"}
KINDS |= {"epochs": "epochs", "epoch": "epochs", "parameters": "parameters", "params": "parameters"}
NUM_EVALUATIONS = 10
MAX_EVALUATION_FRACTION = 0.2
"""The fraction of a budget in seconds that evaluations may take."""
CHEAP_OPS = {"bincount", "nll_loss_forward", "nll_loss_backward"}
"""Operators without a FLOPs rule that cost little."""
NUM_BATCHES = 4
"""The number of batches on which FLOPs and memory are counted."""


@dataclass(frozen=True)
class Budget:
    """An amount of seconds, FLOPs, tokens, steps or epochs for each run, and a number of parameters."""

    kind: str = "epochs"
    amount: float = 5
    parameters: int | None = None

    def __str__(self) -> str:
        length = f"{self.amount:g} s" if self.kind == "seconds" else f"{self.amount:,.0f} {self.kind}"
        return length + (f", {self.parameters:,} parameters" if self.parameters else "")


def parse_budget(texts: Sequence[str]) -> Budget:
    """Parse strings such as "2min" and "300kparameters": at most one length and one size."""
    amounts: dict[str, float] = {}
    for text in texts:
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?(?:e\d+)?)\s*([kmgbt]?)\s*-?([a-z]+)\s*", str(text).lower())
        if match and match[3] in KINDS:
            amounts[KINDS[match[3]]] = float(match[1]) * UNITS[match[2]]
        else:
            try:
                amounts["seconds"] = float(parse_duration(text) or 0)
            except UserError:
                raise UserError(
                    f"cannot parse the budget {text!r}; expected 2min, 2Tflops, 5Mtokens, 500steps, 3epochs or "
                    "300kparameters"
                ) from None
    parameters = amounts.pop("parameters", None)
    if len(amounts) > 1:
        raise UserError(f"give one budget for the length of a run, not {' and '.join(amounts)}")
    if any(amount <= 0 for amount in amounts.values()) or parameters == 0:
        raise UserError(f"a budget must be greater than 0, not {', '.join(map(str, texts))}")
    kind, amount = next(iter(amounts.items()), ("epochs", 5.0))
    return Budget(kind, amount, None if parameters is None else round(parameters))


@dataclass(frozen=True)
class DesignCost:
    """What a design costs, measured before it is trained.

    Args:
        flops_per_step: FLOPs of a training step, forward and backward.
        flops_per_item: FLOPs of a forward pass for one item.
        memory: Bytes of weights, gradients, optimizer state and saved activations.
        steps_per_epoch: Training steps of an epoch.
        unknown_ops: Operators without a FLOPs rule.
        fitted: Whether the model is fitted (bag of words) and not trained in steps.
    """

    parameters: int = 0
    flops_per_step: float = 0.0
    flops_per_item: float = 0.0
    tokens_per_step: float = 0.0
    memory: int = 0
    steps_per_epoch: int = 0
    seconds_per_step: float = 0.0
    seconds_per_evaluation: float = 0.0
    unknown_ops: tuple[str, ...] = ()
    fitted: bool = False


def measure_cost(task: str, settings_tree: dict[str, Any], budget: Budget, folder: Path) -> DesignCost:
    """Build a design on its data and measure its cost. `folder` is for temporary files of reading the data."""
    if settings_tree.get("warm_start"):
        settings_tree = adopt_settings(task, settings_tree)
    settings = make_paths_absolute(build_settings(task, settings_tree))
    if isinstance(settings.model, FittableConfig):
        return DesignCost(fitted=True)
    return measure_model(*build_training(task, settings, folder), settings.train, budget, folder)


def measure_model(
    model: nn.Module, objective: Objective, train: TrainSettings, budget: Budget, folder: Path
) -> DesignCost:
    """Count FLOPs, tokens and memory of a model on some batches, and time its training."""
    parameters = sum(p.numel() for p in model.parameters())
    model.train()
    plan = objective.plan(0)
    tokens = [objective.batch(indices, 0).tokens for indices in _spaced_batches(plan, 50)]
    step_flops = forward_flops = activation_bytes = 0.0
    num_items, unknown_ops = 0, set()
    for indices in _spaced_batches(plan, NUM_BATCHES):
        batch = objective.batch(indices, 0)
        with Trace() as forward, SavedActivations(model, []) as saved:
            loss = sum((t.sum * t.weight for t in objective.loss(model, batch).values()), torch.zeros(()))
        with Trace() as backward:
            loss.backward()
        model.zero_grad(set_to_none=True)
        step_flops += forward.flops + backward.flops
        forward_flops += forward.flops
        num_items += len(indices)
        activation_bytes = max(activation_bytes, saved.bytes)
        unknown_ops |= {*forward.unknown_ops, *backward.unknown_ops}
    num_batches = min(NUM_BATCHES, len(plan))
    trial_seconds = budget.amount if budget.kind == "seconds" else 1.0
    trial = dataclasses.replace(train, epochs=None, steps=None, budget=trial_seconds)
    seconds_per_step, seconds_per_evaluation = time_training(model, objective, trial, folder, seed=0)
    return DesignCost(
        parameters=parameters,
        flops_per_step=step_flops / num_batches,
        flops_per_item=forward_flops / num_items,
        tokens_per_step=float(np.mean(tokens)),
        memory=int(4 * 4 * parameters + activation_bytes),  # weights, gradients, two moments
        steps_per_epoch=len(plan),
        seconds_per_step=seconds_per_step,
        seconds_per_evaluation=seconds_per_evaluation,
        unknown_ops=tuple(sorted(unknown_ops - CHEAP_OPS)),
    )


def build_training(task: str, settings: Settings, folder: Path) -> tuple[nn.Module, Objective]:
    """Return the model and the objective as they are at the first training step."""
    task_object = get_task(task)
    with muted():
        dataset = task_object.read_dataset(settings, None)
    if settings.warm_start is None:
        tokenizer = task_object.build_tokenizer(settings, dataset)
    else:
        tokenizer = Tokenizer.load(settings.warm_start)
    torch.manual_seed(settings.seed)
    entries = {**task_object.config_entries(dataset), "vocab_size": tokenizer.vocab_size}
    model = build_model(task_object, settings, entries, tokenizer)
    with muted():
        objective, _ = build_objective(task_object, settings, dataset, tokenizer, model, folder)
    return model, objective


def count_steps(budget: Budget, cost: DesignCost) -> tuple[int, int]:
    """Return the number of steps, and the number of steps between evaluations.

    There are ten evaluations, or fewer if they would take more than a fifth of a budget in seconds.
    """
    if cost.fitted:
        return 0, 0
    if budget.kind == "seconds":
        evaluation = max(cost.seconds_per_evaluation, 1e-9)
        evaluations = int(np.clip(MAX_EVALUATION_FRACTION * budget.amount / evaluation, 1, NUM_EVALUATIONS))
        steps = max(1, int((budget.amount - (evaluations + 1) * evaluation) / max(cost.seconds_per_step, 1e-9)))
    else:
        per_step = {
            "flops": cost.flops_per_step,
            "tokens": cost.tokens_per_step,
            "steps": 1.0,
            "epochs": 1 / max(cost.steps_per_epoch, 1),
        }
        steps, evaluations = max(1, round(budget.amount / max(per_step[budget.kind], 1e-12))), NUM_EVALUATIONS
    return steps, max(1, -(-steps // evaluations))


def expected_seconds(cost: DesignCost, steps: int, evaluate_every: int) -> float:
    """Return how long a run will take on this machine."""
    evaluations = steps / evaluate_every if evaluate_every else 0
    return steps * cost.seconds_per_step + evaluations * cost.seconds_per_evaluation


def limit_steps(settings: dict[str, Any], steps: int, evaluate_every: int, threads: int | None) -> dict[str, Any]:
    """Return the settings of a run with this number of steps; unchanged for a fitted model (0 steps)."""
    if not steps:
        return settings
    train = {"steps": steps, "epochs": None, "budget": None, "threads": threads}
    if not (settings.get("train") or {}).get("evaluate_every"):
        train["evaluate_every"] = evaluate_every
    return merge_settings(settings, {"train": train})


def _spaced_batches(plan: list[np.ndarray], count: int) -> list[np.ndarray]:
    """Return evenly spaced batches of an epoch."""
    indices = np.linspace(0, len(plan) - 1, min(count, len(plan))).round().astype(int)
    return [plan[i] for i in indices]
