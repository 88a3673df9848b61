"""Train the runs of a comparison one after the other, then evaluate each on the test part once.

    OUT/plan.json       request, designs, their steps            OUT/parts/      the three parts of the data
    OUT/runs/D/seed-S   run folders of `regard train`            OUT/scores/D/   scores of each run on each test item
    OUT/failures/D/     why a run failed                         OUT/results.*   the results; OUT/report.html

Everything is saved when it is finished, so that the same command resumes.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import traceback
from pathlib import Path
from typing import Any

from regard.comparison import hf_finetuned, hf_frozen
from regard.comparison.budget import limit_steps
from regard.comparison.designs import FINETUNED, FROZEN, has_setting, setting_path
from regard.comparison.plan import Plan, PlannedDesign, design_settings, failure_file, run_folder, save_plan, score_file
from regard.comparison.score_run import load_run, score_run
from regard.config.settings import merge_settings, nest_value
from regard.errors import UserError
from regard.tasks.run_dir import read_config
from regard.tasks.train import train
from regard.training import checkpoint
from regard.training.interrupts import Interrupted
from regard.training.progress import format_duration

logger = logging.getLogger(__name__)

SEARCH_FRACTION = 0.3
"""The fraction of the steps that a search of settings takes, for all values together."""


def is_finished(folder: Path) -> bool:
    if (folder / "config.json").is_file():
        return bool(read_config(folder).get("finished"))
    return hf_frozen.is_finished(folder) or hf_finetuned.is_finished(folder)


def train_all(plan: Plan, out: Path, progress: bool = True) -> Plan:
    """Train the runs that are not finished yet, one at a time.

    A run that fails is recorded and the others continue. Interrupts are raised; finished work is kept.
    """
    plan = dataclasses.replace(plan, designs=search_settings(plan, out, progress))
    for number, (planned, seed) in enumerate(plan.runs, 1):
        folder, failure = run_folder(out, planned.design, seed), failure_file(out, planned.design, seed)
        if is_finished(folder):
            continue
        remaining = sum(
            other.expected_seconds()
            for other, other_seed in plan.runs[number - 1 :]
            if not is_finished(run_folder(out, other.design, other_seed))
        )
        run = f"[{number}/{len(plan.runs)}] {planned.name}, seed {seed}"
        logger.info(f"{run}; about {format_duration(remaining)} left in total")
        try:
            train_run(plan, planned, seed, out, folder, progress)
            failure.unlink(missing_ok=True)
        except (Interrupted, KeyboardInterrupt):
            raise
        except Exception as problem:
            save_failure(failure, problem)
            logger.error(f"failed: {planned.name}, seed {seed}: {problem}; the other runs continue")
    return plan


def train_run(plan: Plan, planned: PlannedDesign, seed: int, out: Path, folder: Path, progress: bool) -> None:
    """Train or resume one run, for the planned number of steps."""
    parts, design = out / "parts", planned.design
    if design.model == FROZEN:
        return hf_frozen.fit(design.settings["model"], parts, folder, seed)
    settings = run_settings(plan, planned, out)
    if design.model == FINETUNED:
        hf_finetuned.fit(settings, parts, folder, seed, progress)
    else:
        train(plan.request.task, settings=settings, seed=seed, out=folder, resume=True, progress=progress)
    checkpoint.remove_newer_checkpoints(folder, -1)  # finished: checkpoints are not needed any more


def run_settings(plan: Plan, planned: PlannedDesign, out: Path) -> dict[str, Any]:
    """Return the settings of a run, with the values that a search has chosen and the planned number of steps."""
    settings = design_settings(plan, planned.design, out)
    for key, value in planned.search_choice.items():
        settings = merge_settings(settings, nest_value(setting_path(key), value))
    return limit_steps(settings, planned.steps, planned.evaluate_every, plan.threads)


def search_settings(plan: Plan, out: Path, progress: bool) -> list[PlannedDesign]:
    """Return the designs with the best values of the searched settings.

    Each design trains each value with seed 0, for an equal part of SEARCH_FRACTION of its steps. The value with the
    best validation metric is chosen, and all runs of the design get that many steps less.
    """
    search = plan.request.search
    if not search:
        return plan.designs
    results: list[PlannedDesign] = []
    for planned in plan.designs:
        keys = [key for key in search if has_setting(plan.request.task, planned.design.settings, setting_path(key))]
        if planned.cost.fitted or planned.search_choice or not keys:
            results.append(planned)
            continue
        choice: dict[str, str] = {}
        num_trials = sum(len(search[key]) for key in keys)
        trial_steps = max(1, int(SEARCH_FRACTION * planned.steps / num_trials))
        for key in keys:
            metrics: dict[str, float] = {}
            for value in search[key]:
                trial = dataclasses.replace(
                    planned, steps=trial_steps, evaluate_every=trial_steps, search_choice={**choice, key: value}
                )
                folder = out / "search" / planned.design.slug / f"{key}={value}".replace("/", "-")
                logger.info(f"search: {planned.name} with {key}={value}, {trial_steps:,} steps")
                try:
                    if not is_finished(folder):
                        train_run(plan, trial, 0, out, folder, progress)
                    metrics[value] = validation_metric(folder)
                except (Interrupted, KeyboardInterrupt):
                    raise
                except Exception as problem:  # one bad value must not stop the search
                    logger.info(f"{key}={value} fails: {problem}")
            if metrics:
                choice[key] = max(metrics, key=metrics.__getitem__)
                logger.info(f"{planned.name}: {key}={choice[key]}")
        steps = max(1, planned.steps - trial_steps * num_trials) if choice else planned.steps
        results.append(dataclasses.replace(planned, steps=steps, search_choice=choice))
        save_plan(plan, results, out)
    return results


def validation_metric(folder: Path) -> float:
    """Return the best validation metric of a run; higher is better."""
    metrics = load_run(folder).config["metrics"]
    for name in ("bleu_lc", "bleu", "exact", "accuracy", "micro_f1", "loss"):
        if name in metrics:
            return -metrics[name] if name == "loss" else metrics[name]
    raise UserError(f"none of the validation metrics can be searched by: {', '.join(metrics)}")


def score_all(plan: Plan, out: Path) -> None:
    """Evaluate each finished run on the test part, once. Existing scores are never computed again."""
    for planned, seed in plan.runs:
        folder, file = run_folder(out, planned.design, seed), score_file(out, planned.design, seed)
        if file.is_file() or not is_finished(folder):
            continue
        try:
            score_run(plan, folder, out / "parts", file)
            logger.info(f"evaluated: {planned.name}, seed {seed}")
        except (Interrupted, KeyboardInterrupt):
            raise
        except Exception as problem:
            save_failure(failure_file(out, planned.design, seed), problem)
            logger.error(f"failed: {planned.name}, seed {seed} cannot be evaluated: {problem}")


def save_failure(file: Path, problem: BaseException) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "error": str(problem) or type(problem).__name__,
        "kind": type(problem).__name__,
        "trace": traceback.format_exception(problem),
    }
    file.write_text(json.dumps(content, indent=1), encoding="utf-8")
