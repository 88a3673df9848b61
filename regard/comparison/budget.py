"""One budget for all: time, FLOPs, tokens, steps or epochs become a number of steps, and parameters a width.

    2min, 90s                   seconds of training, by a trial on this machine
    2Tflops, 3e12flops          work of training, forward and backward, counted on some batches
    5Mtokens                    tokens read
    500steps, 3epochs           as they are
    300kparameters              the size of each model; with one of the others, or 5 epochs

What is found is written down, and the numbers of steps are what a comparison is made of: resumed, repeated or on other
machines, they are not looked for again.
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
from regard.theory.cost.cost_card import Kept
from regard.theory.cost.trace import Trace
from regard.training.loop import time_training
from regard.training.objective import Objective

SIZES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "b": 1e9, "t": 1e12}
KINDS = {"flops": "flops", "flop": "flops", "tokens": "tokens", "token": "tokens", "steps": "steps", "step": "steps"}
KINDS |= {"epochs": "epochs", "epoch": "epochs", "parameters": "parameters", "params": "parameters"}
EVALUATIONS = 10
EVALUATING = 0.2
"""The share of a budget in seconds that evaluations may take."""
LIGHT = {"bincount", "nll_loss_forward", "nll_loss_backward"}
"""Operators without a rule for their FLOPs, which are few."""
BATCHES = 4
"""On so many batches FLOPs and memory are counted."""


@dataclass(frozen=True)
class Budget:
    """The length, of one kind, and the size."""

    kind: str = "epochs"
    amount: float = 5
    parameters: int | None = None

    def __str__(self) -> str:
        length = f"{self.amount:g} s" if self.kind == "seconds" else f"{self.amount:,.0f} {self.kind}"
        return length + (f", {self.parameters:,} parameters" if self.parameters else "")


def parse(given: Sequence[str]) -> Budget:
    """At most one length and one size."""
    found: dict[str, float] = {}
    for text in given:
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?(?:e\d+)?)\s*([kmgbt]?)\s*-?([a-z]+)\s*", str(text).lower())
        if match and match[3] in KINDS:
            found[KINDS[match[3]]] = float(match[1]) * SIZES[match[2]]
        else:
            try:
                found["seconds"] = float(parse_duration(text) or 0)
            except UserError:
                raise UserError(
                    f"a budget such as 2min, 2Tflops, 5Mtokens, 500steps, 3epochs or 300kparameters is wanted, and was "
                    f"given {text!r}"
                ) from None
    size = found.pop("parameters", None)
    if len(found) > 1:
        raise UserError(f"one budget for the length is wanted, and {' and '.join(found)} were given")
    if any(amount <= 0 for amount in found.values()) or size == 0:
        raise UserError(f"a budget must be greater than 0, and was given {', '.join(map(str, given))}")
    kind_, amount = next(iter(found.items()), ("epochs", 5.0))
    return Budget(kind_, amount, None if size is None else round(size))


@dataclass(frozen=True)
class Survey:
    """What a design costs, found out before it is trained: its parameters, FLOPs of a step and of a forward pass for
    one item, tokens of a step, bytes that training holds, steps of an epoch, and seconds of a step and of an
    evaluation on this machine."""

    parameters: int = 0
    flops_step: float = 0.0
    flops_item: float = 0.0
    tokens_step: float = 0.0
    memory: int = 0
    epoch: int = 0
    seconds_step: float = 0.0
    seconds_evaluation: float = 0.0
    unknown: tuple[str, ...] = ()
    fitted: bool = False


def survey(task: str, tree: dict[str, Any], budget: Budget, folder: Path) -> Survey:
    """Build the design once on the real data, and look. `folder` is for what reading the data leaves behind."""
    settings = make_paths_absolute(build_settings(task, adopt_settings(task, tree) if tree.get("warm_start") else tree))
    if isinstance(settings.model, FittableConfig):
        return Survey(fitted=True)
    return counted(*ready(task, settings, folder), settings.train, budget, folder)


def counted(net: nn.Module, job: Objective, train: TrainSettings, budget: Budget, folder: Path) -> Survey:
    """Count and time a net on its task."""
    parameters = sum(p.numel() for p in net.parameters())
    net.train()
    tokens, plan = [], job.plan(0)
    for indices in _spread(plan, 50):
        tokens.append(job.batch(indices, 0).tokens)
    step = forward = kept = 0.0
    items, unknown = 0, set()
    for indices in _spread(plan, BATCHES):
        batch = job.batch(indices, 0)
        with Trace() as seen, Kept(net, []) as held:
            loss = sum((t.sum * t.weight for t in job.loss(net, batch).values()), torch.zeros(()))
        with Trace() as back:
            loss.backward()
        net.zero_grad(set_to_none=True)
        step, forward, items = step + seen.flops + back.flops, forward + seen.flops, items + len(indices)
        kept = max(kept, held.bytes)
        unknown |= {*seen.unknown, *back.unknown}
    count = min(BATCHES, len(plan))
    trial = budget.amount if budget.kind == "seconds" else 1.0
    times = time_training(net, job, dataclasses.replace(train, epochs=None, steps=None, budget=trial), folder, seed=0)
    return Survey(
        parameters=parameters,
        flops_step=step / count,
        flops_item=forward / items,
        tokens_step=float(np.mean(tokens)),
        memory=int(4 * 4 * parameters + kept),  # weights, gradients, two moments
        epoch=len(plan),
        seconds_step=times[0],
        seconds_evaluation=times[1],
        unknown=tuple(sorted(unknown - LIGHT)),
    )


def ready(task: str, settings: Settings, folder: Path) -> tuple[nn.Module, Objective]:
    """Net and task as training has them at its first step."""
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


def steps_of(budget: Budget, seen: Survey) -> tuple[int, int]:
    """The number of steps, and after how many of them it is evaluated: ten times, or less often where that would take
    more than a fifth of the time."""
    if seen.fitted:
        return 0, 0
    if budget.kind == "seconds":
        evaluation = max(seen.seconds_evaluation, 1e-9)
        times = int(np.clip(EVALUATING * budget.amount / evaluation, 1, EVALUATIONS))
        steps = max(1, int((budget.amount - (times + 1) * evaluation) / max(seen.seconds_step, 1e-9)))
    else:
        each = {"flops": seen.flops_step, "tokens": seen.tokens_step, "steps": 1.0, "epochs": 1 / max(seen.epoch, 1)}
        steps, times = max(1, round(budget.amount / max(each[budget.kind], 1e-12))), EVALUATIONS
    return steps, max(1, -(-steps // times))


def expected(seen: Survey, steps: int, every: int) -> float:
    """Seconds that a run will take on this machine."""
    return steps * seen.seconds_step + (steps / every if every else 0) * seen.seconds_evaluation


def tree_of(tree: dict[str, Any], steps: int, every: int, threads: int | None) -> dict[str, Any]:
    """The settings of a run of so many steps."""
    if not steps:
        return tree
    given = {"train": {"steps": steps, "epochs": None, "budget": None, "threads": threads}}
    if not (tree.get("train") or {}).get("evaluate_every"):
        given["train"]["evaluate_every"] = every
    return merge_settings(tree, given)


def _spread(plan: list[np.ndarray], count: int) -> list[np.ndarray]:
    """So many batches from all over an epoch."""
    places = np.linspace(0, len(plan) - 1, min(count, len(plan))).round().astype(int)
    return [plan[i] for i in places]
