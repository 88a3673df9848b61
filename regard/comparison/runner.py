"""Run a comparison: deal the data, survey the designs, train one run after the other, then touch the test part once.

    OUT/plan.json       what was asked, the designs, their steps    OUT/parts/      the three parts of the data
    OUT/runs/D/seed-S   run folders of `regard train`               OUT/scores/D/   what each run got of each item
    OUT/failures/D/     why a run failed                            OUT/results.*   the table; OUT/report.html

All that is done is on disk, so that the same command goes on where it stopped.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import shutil
import traceback
from pathlib import Path
from typing import Any

from regard.comparison import budget as budgets
from regard.comparison import hf_finetuned, hf_frozen
from regard.comparison.designs import FROZEN, TUNED, has, path_of
from regard.comparison.plan import Entry, Plan, failure_of, folder_of, merged, score_of, tree_of, write
from regard.comparison.scoring import opened, score_one
from regard.config.settings import merge_settings, nest
from regard.errors import UserError
from regard.tasks.run_dir import read_config
from regard.tasks.train import train
from regard.training.interrupts import Interrupted
from regard.training.progress import format_duration

logger = logging.getLogger(__name__)

SEARCHING = 0.3
"""The share of the steps that a search of settings takes, of all its values together."""


def finished(folder: Path) -> bool:
    if (folder / "config.json").is_file():
        return bool(read_config(folder).get("finished"))
    return hf_frozen.finished(folder) or hf_finetuned.finished(folder)


def run_all(plan: Plan, out: Path, progress: bool = True) -> Plan:
    """Train what is not trained yet, one at a time. A run that fails is noted and the rest goes on; an interrupt goes
    through, and loses nothing."""
    plan = dataclasses.replace(plan, entries=searched(plan, out, progress))
    for number, (entry, seed) in enumerate(plan.runs, 1):
        folder, note = folder_of(out, entry.design, seed), failure_of(out, entry.design, seed)
        if finished(folder):
            continue
        left = sum(
            budgets.expected(e.survey, e.steps, e.every)
            for e, s in plan.runs[number - 1 :]
            if not finished(folder_of(out, e.design, s))
        )
        logger.info(f"[{number}/{len(plan.runs)}] {entry.design.name}, seed {seed}; about {format_duration(left)} left in all")
        try:
            train_one(plan, entry, seed, out, folder, progress)
            note.unlink(missing_ok=True)
        except (Interrupted, KeyboardInterrupt):
            raise
        except Exception as problem:
            fail(note, problem)
            logger.error(f"failed: {entry.design.name}, seed {seed}: {problem}; the others go on")
    return plan


def train_one(plan: Plan, entry: Entry, seed: int, out: Path, folder: Path, progress: bool) -> None:
    """Train or go on with one run, for the steps that are recorded."""
    if entry.design.model == FROZEN:
        return hf_frozen.fit(plan.asked.task, entry.design.tree["model"], out / "parts", folder, seed)
    if entry.design.model == TUNED:
        hf_finetuned.fit(settings_of(plan, entry, out), out / "parts", folder, seed, progress)
    else:
        _train(plan, entry, seed, out, folder, progress)
    shutil.rmtree(folder / "state", ignore_errors=True)  # finished: nothing will go on from there


def _train(plan: Plan, entry: Entry, seed: int, out: Path, folder: Path, progress: bool) -> None:
    train(
        plan.asked.task,
        settings=settings_of(plan, entry, out),
        seed=seed,
        out=folder,
        resume=True,
        progress=progress,
    )


def settings_of(plan: Plan, entry: Entry, out: Path) -> dict[str, Any]:
    tree = tree_of(plan, entry.design, out)
    for key, value in entry.chosen.items():
        tree = merge_settings(tree, nest(path_of(key), value))
    return budgets.tree_of(tree, entry.steps, entry.every, plan.threads)


def searched(plan: Plan, out: Path, progress: bool) -> list[Entry]:
    """Where settings are to be searched: each design tries each value with seed 0 for an equal part of `SEARCHING` of
    its steps, the best on the validation part is kept, and all its runs have that many steps less."""
    if not plan.asked.search:
        return plan.entries
    made = []
    for entry in plan.entries:
        keys = [key for key in plan.asked.search if has(plan.asked.task, entry.design.tree, path_of(key))]
        if entry.survey.fitted or entry.chosen or not keys:
            made.append(entry)
            continue
        steps, chosen = entry.steps, {}
        count = sum(len(plan.asked.search[key]) for key in keys)
        part = max(1, int(SEARCHING * steps / count))
        for key in keys:
            reached: dict[str, float] = {}
            for value in plan.asked.search[key]:
                trial = dataclasses.replace(entry, steps=part, every=part, chosen={**chosen, key: value})
                folder = out / "search" / entry.design.slug / f"{key}={value}".replace("/", "-")
                logger.info(f"search: {entry.design.name} with {key}={value}, {part:,} steps")
                try:
                    if not finished(folder):
                        train_one(plan, trial, 0, out, folder, progress)
                    reached[value] = _validation(folder)
                except (Interrupted, KeyboardInterrupt):
                    raise
                except Exception as problem:  # a value that cannot be trained with is no reason to lose the others
                    logger.info(f"{key}={value} fails: {problem}")
            if reached:
                chosen[key] = max(reached, key=reached.__getitem__)
                logger.info(f"{entry.design.name}: {key}={chosen[key]}")
        made.append(dataclasses.replace(entry, steps=max(1, steps - part * count) if chosen else steps, chosen=chosen))
        write(dataclasses.replace(plan, entries=merged(plan.entries, made)), out)
    return made


def _validation(folder: Path) -> float:
    """The best validation number of a run, larger being better."""
    metrics = opened(folder).config["metrics"]
    for name in ("bleu_lc", "bleu", "exact", "accuracy", "micro_f1", "loss"):
        if name in metrics:
            return -metrics[name] if name == "loss" else metrics[name]
    raise UserError(f"the validation part says nothing to choose by: {', '.join(metrics)}")


def score_all(plan: Plan, out: Path) -> None:
    """The test part, once for each finished run: what stands in scores/ is never computed again."""
    for entry, seed in plan.runs:
        folder, file = folder_of(out, entry.design, seed), score_of(out, entry.design, seed)
        if file.is_file() or not finished(folder):
            continue
        try:
            score_one(plan, folder, out / "parts", file)
            logger.info(f"measured: {entry.design.name}, seed {seed}")
        except (Interrupted, KeyboardInterrupt):
            raise
        except Exception as problem:
            fail(failure_of(out, entry.design, seed), problem)
            logger.error(f"failed: {entry.design.name}, seed {seed} could not be measured: {problem}")


def fail(note: Path, problem: BaseException) -> None:
    note.parent.mkdir(parents=True, exist_ok=True)
    told = {"error": str(problem) or type(problem).__name__, "kind": type(problem).__name__}
    note.write_text(json.dumps({**told, "trace": traceback.format_exception(problem)}, indent=1), encoding="utf-8")
