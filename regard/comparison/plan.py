"""The plan of a comparison: split the data, measure the cost of each design, count its steps, save it as plan.json."""

from __future__ import annotations

import dataclasses
import json
import logging
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from regard.comparison import hf_finetuned, hf_frozen
from regard.comparison.budget import (
    Budget,
    DesignCost,
    count_steps,
    expected_seconds,
    measure_cost,
    measure_model,
    parse_budget,
)
from regard.comparison.designs import FINETUNED, FROZEN, IMPORTED, Design, build_designs
from regard.comparison.param_budget import scale_config
from regard.comparison.request import ComparisonRequest
from regard.config.messages import muted
from regard.config.owned_folders import check_claimable, check_inputs_outside, claim_folder, remove_files
from regard.config.settings import merge_settings
from regard.errors import UserError
from regard.tasks.base import get_task
from regard.tasks.build_settings import build_settings
from regard.tasks.comparison import get_comparison
from regard.tasks.run_dir import package_versions
from regard.training import atomic_write, environment
from regard.training.interrupts import Interrupted

logger = logging.getLogger(__name__)

FORMAT = 2
PART_FILES = ("train.*", "valid.*", "test.*", "facts.txt", "images.json", "tokens/*", "tokens/valid/*")
"""What splitting the data writes into the folder `parts`."""


@dataclass(frozen=True)
class PlannedDesign:
    """A design with its cost and its number of steps.

    Args:
        evaluate_every: The number of steps between evaluations.
        requested_settings: The settings before the design was scaled to a number of parameters.
        search_choice: The values that a search has chosen.
    """

    design: Design
    cost: DesignCost
    steps: int
    evaluate_every: int
    requested_settings: dict[str, Any] = field(default_factory=dict)
    search_choice: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.design.name

    def expected_seconds(self) -> float:
        return expected_seconds(self.cost, self.steps, self.evaluate_every)


@dataclass(frozen=True)
class Plan:
    """Everything that decides the runs of a comparison.

    Args:
        split: What the task reported about the split of the data: number of items, duplicates, evidence.
        skipped: The reason for each design that cannot be built.
        environment: Versions and machine that made the plan.
    """

    request: ComparisonRequest
    budget: Budget
    split: dict[str, Any]
    designs: list[PlannedDesign]
    skipped: dict[str, str]
    threads: int
    environment: dict[str, Any] = field(default_factory=dict)

    @property
    def seeds(self) -> range:
        return range(self.request.seeds)

    @property
    def runs(self) -> list[tuple[PlannedDesign, int]]:
        """Designs and seeds, seed by seed, so that the finished runs always cover all designs."""
        return [(planned, seed) for seed in self.seeds for planned in self.designs]

    def expected_seconds(self) -> float:
        return sum(planned.expected_seconds() for planned in self.designs) * self.request.seeds

    def expected_bytes(self) -> int:
        """Return the disk space of the runs: the weights of each, and two checkpoints of the one that trains."""
        sizes = [4 * planned.cost.parameters for planned in self.designs]
        return sum(sizes) * self.request.seeds + 8 * max(sizes, default=0)


def prepare_plan(request: ComparisonRequest, out: Path) -> Plan:
    """Return the plan in the folder `out`, extended to all designs of the request, or a new one."""
    file = out / "plan.json"
    check_claimable(out, "comparison")
    train = request.settings.get("train") or {}
    if any(int(train.get(key) or 1) > 1 for key in ("num_devices", "num_nodes")):
        raise UserError("compare trains each run in one process; for a large run use regard train under torchrun")
    saved = _read_plan(file) if file.is_file() else None
    if saved is not None:
        _require_same_request(saved["request"], request, out)
    claim_folder(out, "comparison")
    designs = build_designs(request.task, request.models, request.vary)
    split = saved["split"] if saved else _split_data(request, designs, out)
    for parts, count in split["repeated"].items():
        if count:
            logger.warning(f"{count:,} items of {parts.replace(' in ', ' are also in ')}")
    plan = Plan(
        request,
        parse_budget(request.budget),
        split,
        [_planned_design(tree) for tree in saved["designs"]] if saved else [],
        dict(saved["skipped"]) if saved else {},
        saved["threads"] if saved else torch.get_num_threads(),
        saved["environment"] if saved else {"versions": package_versions(), "machine": environment.describe_machine()},
    )
    by_slug = {planned.design.slug: planned for planned in plan.designs}
    planned_designs: list[PlannedDesign] = []
    for design in designs:
        if design.slug in by_slug:
            planned = by_slug[design.slug]
            if planned.requested_settings != json.loads(json.dumps(design.settings)):
                raise UserError(
                    f"{out} has another {design.name!r}, with {planned.requested_settings}; give it a new label"
                )
            planned_designs.append(planned)
            continue
        try:
            planned_designs.append(_plan_design(plan, design, out))
            plan.skipped.pop(design.name, None)
        except Interrupted:
            raise
        except Exception as problem:
            plan.skipped[design.name] = str(problem)
            logger.info(f"{design.name} is skipped: {problem}")
        save_plan(plan, planned_designs, out)
    if not planned_designs:
        raise UserError("no design can be built: " + "; ".join(f"{k}: {v}" for k, v in plan.skipped.items()))
    save_plan(plan, planned_designs, out)
    return dataclasses.replace(plan, designs=planned_designs)


def copy_plan(folder: Path, out: Path) -> ComparisonRequest:
    """Copy the plan and the data of another comparison, to repeat its runs with the same number of steps."""
    saved = _read_plan(folder / "plan.json")
    if not (out / "plan.json").is_file():
        claim_folder(out, "comparison")
        shutil.copytree(folder / "parts", out / "parts")
        shutil.copyfile(folder / "plan.json", out / "plan.json")
    return ComparisonRequest(**saved["request"])


def _split_data(request: ComparisonRequest, designs: Sequence[Design], out: Path) -> dict[str, Any]:
    """Split the data once, for all runs."""
    parts = out / "parts"
    # Reading the data needs the settings of any design that is not an imported model.
    first = next((design.settings for design in designs if design.model not in IMPORTED), {})
    tree = merge_settings(request.settings, {k: v for k, v in first.items() if k in ("model", "objective")})
    settings = build_settings(request.task, merge_settings(tree, {"seed": 0}))
    if not settings.data.train:
        raise UserError(f"no data: regard compare {request.task} FILE --models ...")
    files = [settings.data.train] if isinstance(settings.data.train, str) else settings.data.train
    check_inputs_outside(parts, (*files, settings.data.valid, *(request.test or ())))
    remove_files(parts, PART_FILES)  # of a comparison that was stopped before its plan was written
    claim_folder(parts, "comparison")
    adapter = get_comparison(request.task)
    return adapter.split_data(settings, request.test, request.test_fraction, request.split_seed, parts)


def design_settings(plan: Plan, design: Design, out: Path) -> dict[str, Any]:
    """Return all settings of a design, on the parts of the data."""
    settings = merge_settings(plan.request.settings, design.settings)
    data = get_comparison(plan.request.task).data_settings(out / "parts", plan.split)
    return merge_settings(settings, {"data": data})


def _plan_design(plan: Plan, design: Design, out: Path) -> PlannedDesign:
    """Scale a design to the budget of parameters, measure its cost and count its steps."""
    task, settings, requested_settings = plan.request.task, design_settings(plan, design, out), design.settings
    scratch = out / "parts" / "tokens"
    if design.model in IMPORTED:
        hf_frozen.check_options(task, design.settings["model"])
    if design.model == FROZEN:
        return PlannedDesign(design, DesignCost(fitted=True), 0, 0, design.settings)
    if plan.budget.parameters and design.model != FINETUNED:
        model = _scale_model(task, settings, plan.budget.parameters)
        design = Design(design.name, merge_settings(design.settings, {"model": model}))
        settings = design_settings(plan, design, out)
    settings = merge_settings(settings, {"train": {"threads": plan.threads}})
    if design.model == FINETUNED:
        model, objective, _ = hf_finetuned.build_training(design.settings["model"], out / "parts", 0)
        cost = measure_model(model, objective, hf_finetuned.train_settings(settings), plan.budget, scratch)
    else:
        cost = measure_cost(task, settings, plan.budget, scratch)
    steps, evaluate_every = count_steps(plan.budget, cost)
    if cost.fitted:
        logger.info(f"{design.name}: fitted without training steps")
    else:
        seconds = f"{cost.seconds_per_step * 1e3:.0f} ms"
        logger.info(f"{design.name}: {cost.parameters:,} parameters, {steps:,} steps of {seconds}")
    return PlannedDesign(design, cost, steps, evaluate_every, requested_settings)


def _scale_model(task: str, settings_tree: dict[str, Any], max_params: int) -> dict[str, Any]:
    """Return the model settings with scaled widths; nothing for a model that is fitted."""
    settings: Any = build_settings(task, settings_tree)
    if not hasattr(settings.model, "build"):
        return {}
    task_object = get_task(task)
    with muted():
        dataset = task_object.read_dataset(settings, None)
    vocab_size = task_object.build_tokenizer(settings, dataset).vocab_size
    entries = {**task_object.config_entries(dataset), "vocab_size": vocab_size}

    def count_params(config: Any) -> int:
        with torch.device("meta"):
            model = task_object.build_model(dataclasses.replace(settings, model=config), entries)
        return sum(p.numel() for p in model.parameters())

    return asdict(scale_config(settings.model, max_params, count_params))


def run_folder(out: Path, design: Design, seed: int) -> Path:
    return out / "runs" / design.slug / f"seed-{seed}"


def score_file(out: Path, design: Design, seed: int) -> Path:
    return out / "scores" / design.slug / f"seed-{seed}.json"


def failure_file(out: Path, design: Design, seed: int) -> Path:
    return out / "failures" / design.slug / f"seed-{seed}.json"


def _require_same_request(saved: dict[str, Any], request: ComparisonRequest, out: Path) -> None:
    """Raise unless only models, combinations, seeds or the metric differ."""
    current = json.loads(json.dumps(asdict(request)))
    changeable = ("models", "vary", "seeds", "metric")
    changed = [key for key in current if key not in changeable and current[key] != saved.get(key)]
    if changed:
        changes = "; ".join(f"{key} was {saved.get(key)!r} and is now {current[key]!r}" for key in changed)
        raise UserError(f"{out} has another comparison: {changes}. Choose another folder with --out")


def save_plan(plan: Plan, designs: Sequence[PlannedDesign], out: Path) -> None:
    """Write plan.json with these designs, and with the saved ones that are not among them."""
    slugs = {planned.design.slug for planned in designs}
    designs = [*designs, *(planned for planned in plan.designs if planned.design.slug not in slugs)]
    content = {
        "format": FORMAT,
        "request": asdict(plan.request),
        "budget": str(plan.budget),
        "split": plan.split,
        "designs": [asdict(planned) for planned in designs],
        "skipped": plan.skipped,
        "threads": plan.threads,
        "environment": plan.environment,
    }
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    atomic_write.replace_file(out / "plan.json", text.encode())


def _planned_design(tree: dict[str, Any]) -> PlannedDesign:
    cost = {**tree["cost"], "unknown_ops": tuple(tree["cost"]["unknown_ops"])}
    return PlannedDesign(**{**tree, "design": Design(**tree["design"]), "cost": DesignCost(**cost)})


def _read_plan(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise ValueError
        return content
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(f"{file} is not a plan.json of this version of regard (format {FORMAT})") from None
