"""Before anything is trained: cut the data, survey each design, count its steps, and write it all to plan.json."""

from __future__ import annotations

import dataclasses
import json
import logging
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from regard.comparison import budget as budgets
from regard.comparison import hf_finetuned, hf_frozen
from regard.comparison.budget import Budget, Survey
from regard.comparison.designs import FROZEN, IMPORTED, TUNED, Asked, Design, designs
from regard.comparison.param_budget import sized
from regard.config.messages import muted
from regard.config.settings import merge_settings
from regard.errors import UserError
from regard.tasks.base import get_task
from regard.tasks.build_settings import build_settings
from regard.tasks.comparison import get_comparison
from regard.tasks.run_dir import package_versions
from regard.training import atomic_write, environment
from regard.training.interrupts import Interrupted

logger = logging.getLogger(__name__)

FORMAT = 1


@dataclass(frozen=True)
class Entry:
    """A design with what was found out about it. `steps` is recorded here and nowhere else."""

    design: Design
    survey: Survey
    steps: int
    every: int
    given: dict[str, Any] = field(default_factory=dict)
    """The settings as they were asked for, before the design was sized."""
    chosen: dict[str, str] = field(default_factory=dict)
    """What a search of settings chose."""


@dataclass(frozen=True)
class Plan:
    """`left_out` says why a combination takes no part."""

    asked: Asked
    budget: Budget
    facts: dict[str, Any]
    entries: list[Entry]
    left_out: dict[str, str]
    threads: int
    made: dict[str, Any] = field(default_factory=dict)

    @property
    def seeds(self) -> range:
        return range(self.asked.seeds)

    @property
    def runs(self) -> list[tuple[Entry, int]]:
        """Seed by seed, so that what is done at any time covers all designs."""
        return [(entry, seed) for seed in self.seeds for entry in self.entries]

    def seconds(self) -> float:
        """That the training is expected to take."""
        each = [budgets.expected(e.survey, e.steps, e.every) for e in self.entries]
        return sum(each) * self.asked.seeds

    def disk(self) -> int:
        """Bytes that the runs will take: the weights of each, and while one trains two checkpoints of it. The parts of
        the data are there already."""
        sizes = [4 * e.survey.parameters for e in self.entries]
        return sum(sizes) * self.asked.seeds + 8 * max(sizes, default=0)


def prepare(asked: Asked, out: Path) -> Plan:
    """The plan that is in `out`, made to hold all that is asked, or a new one."""
    file = out / "plan.json"
    if out.is_file() or (
        out.is_dir() and not file.is_file() and any(p.name not in ("parts", "generated") for p in out.iterdir())
    ):
        raise UserError(f"{out} is there already and no comparison; name another folder for --out")
    train = asked.settings.get("train") or {}
    if any(int(train.get(key) or 1) > 1 for key in ("devices", "nodes")):
        raise UserError("runs are compared on one process each; a single large run: regard train under torchrun")
    before = _read(file) if file.is_file() else None
    if before is not None:
        _same(before["asked"], asked, out)
    out.mkdir(parents=True, exist_ok=True)
    wanted = designs(asked)
    facts = before["facts"] if before else _deal(asked, wanted, out)
    for what, count in facts["repeated"].items():
        if count:
            logger.warning(f"{count:,} items of {what.replace(' in ', ' stand in ')} too")
    budget = budgets.parse(asked.budget)
    plan = Plan(
        asked,
        budget,
        facts,
        [_entry(e) for e in before["entries"]] if before else [],
        dict(before["left_out"]) if before else {},
        before["threads"] if before else torch.get_num_threads(),
        before["made"] if before else {"versions": package_versions(), "machine": environment.describe_machine()},
    )
    known = {entry.design.slug: entry for entry in plan.entries}
    entries = []
    for design in wanted:
        if design.slug in known:
            if known[design.slug].given != json.loads(json.dumps(design.tree)):
                raise UserError(f"{out} knows another {design.name!r}: {known[design.slug].given}; give it a new label")
            entries.append(known[design.slug])
            continue
        try:
            entries.append(_look(plan, design, out))
            plan.left_out.pop(design.name, None)
        except Interrupted:
            raise
        except Exception as problem:
            plan.left_out[design.name] = str(problem)
            logger.info(f"{design.name} takes no part: {problem}")
        write(dataclasses.replace(plan, entries=merged(plan.entries, entries)), out)
    if not entries:
        raise UserError("none of the designs can be built: " + "; ".join(f"{k}: {v}" for k, v in plan.left_out.items()))
    write(dataclasses.replace(plan, entries=merged(plan.entries, entries)), out)
    return dataclasses.replace(plan, entries=entries)


def replay(folder: Path, out: Path) -> Asked:
    """Take over the plan of another comparison, with its steps and its parts of the data: the same runs again."""
    found = _read(folder / "plan.json")
    if not (out / "plan.json").is_file():
        if out.exists() and any(out.iterdir()):
            raise UserError(f"{out} is there already and no comparison; name another folder for --out")
        out.mkdir(parents=True, exist_ok=True)
        shutil.copytree(folder / "parts", out / "parts")
        shutil.copyfile(folder / "plan.json", out / "plan.json")
    return Asked(**found["asked"])


def _deal(asked: Asked, wanted: list[Design], out: Path) -> dict[str, Any]:
    """Cut the data once, for all."""
    parts = out / "parts"
    shutil.rmtree(parts, ignore_errors=True)
    parts.mkdir()
    settings = build_settings(asked.task, merge_settings(_plain(asked, wanted), {"seed": 0}))
    if not settings.data.train:
        raise UserError(f"no data was given: regard compare {asked.task} FILE --models ...")
    return get_comparison(asked.task).split_data(settings, asked.test, asked.test_fraction, asked.split_seed, parts)


def _plain(asked: Asked, wanted: list[Design]) -> dict[str, Any]:
    """Settings of a design that is no imported one, for what all designs share."""
    tree = next((d.tree for d in wanted if d.model not in IMPORTED), {})
    return merge_settings(asked.settings, {k: v for k, v in tree.items() if k in ("model", "objective")})


def tree_of(plan: Plan, design: Design, out: Path) -> dict[str, Any]:
    """All settings of a design, on the parts of the data."""
    tree = merge_settings(plan.asked.settings, design.tree)
    return merge_settings(tree, {"data": get_comparison(plan.asked.task).data_settings(out / "parts", plan.facts)})


def _look(plan: Plan, design: Design, out: Path) -> Entry:
    """Survey a design, make it as large as the budget says, and count its steps."""
    task, tree, given = plan.asked.task, tree_of(plan, design, out), design.tree
    scratch = out / "parts" / "tokens"
    if design.model in IMPORTED:
        hf_frozen.check(task, design.tree["model"])
    if design.model == FROZEN:
        return Entry(design, Survey(fitted=True), 0, 0, design.tree)
    if plan.budget.parameters and design.model != TUNED:
        chosen = _sized(task, tree, plan.budget.parameters, scratch)
        design = Design(design.name, merge_settings(design.tree, {"model": chosen}))
        tree = tree_of(plan, design, out)
    tree = merge_settings(tree, {"train": {"threads": plan.threads}})
    if design.model == TUNED:
        net, job, _ = hf_finetuned.ready(design.tree["model"], out / "parts", 0)
        seen = budgets.counted(net, job, hf_finetuned.settings(tree), plan.budget, scratch)
    else:
        seen = budgets.survey(task, tree, plan.budget, scratch)
    steps, every = budgets.steps_of(plan.budget, seen)
    logger.info(
        f"{design.name}: fitted at once"
        if seen.fitted
        else f"{design.name}: {seen.parameters:,} parameters, {steps:,} steps of {seen.seconds_step * 1e3:.0f} ms"
    )
    return Entry(design, seen, steps, every, given)


def _sized(task: str, tree: dict[str, Any], wanted: int, folder: Path) -> dict[str, Any]:
    """The model's settings with its widths changed; a model that is fitted at once is as large as it is."""
    settings: Any = build_settings(task, tree)
    if not hasattr(settings.model, "build"):
        return {}
    task_object = get_task(task)
    with muted():
        dataset = task_object.read_dataset(settings, None)
    vocab_size = task_object.build_tokenizer(settings, dataset).vocab_size
    entries = {**task_object.config_entries(dataset), "vocab_size": vocab_size}

    def count(config: Any) -> int:
        with torch.device("meta"):
            model = task_object.build_model(dataclasses.replace(settings, model=config), entries)
        return sum(p.numel() for p in model.parameters())

    return asdict(sized(settings.model, wanted, count))


def folder_of(out: Path, design: Design, seed: int) -> Path:
    return out / "runs" / design.slug / f"seed-{seed}"


def score_of(out: Path, design: Design, seed: int) -> Path:
    return out / "scores" / design.slug / f"seed-{seed}.json"


def failure_of(out: Path, design: Design, seed: int) -> Path:
    return out / "failures" / design.slug / f"seed-{seed}.json"


def _same(before: dict[str, Any], asked: Asked, out: Path) -> None:
    """Models, combinations and seeds may be added; the rest must be as it was."""
    now = json.loads(json.dumps(asdict(asked)))
    free = ("models", "vary", "seeds", "measure")
    changed = [key for key in now if key not in free and now[key] != before.get(key)]
    if changed:
        told = "; ".join(f"{key} was {before.get(key)!r} and is now {now[key]!r}" for key in changed)
        raise UserError(f"{out} holds a comparison of other runs: {told}. Name another folder for --out")


def merged(before: list[Entry], now: list[Entry]) -> list[Entry]:
    """Entries that are known and not asked for now stay known."""
    fresh = {entry.design.slug for entry in now}
    return [*now, *(entry for entry in before if entry.design.slug not in fresh)]


def write(plan: Plan, out: Path) -> None:
    content = {
        "format": FORMAT,
        "asked": asdict(plan.asked),
        "budget": str(plan.budget),
        "facts": plan.facts,
        "entries": [asdict(entry) for entry in plan.entries],
        "left_out": plan.left_out,
        "threads": plan.threads,
        "made": plan.made,
    }
    atomic_write.replace_file(out / "plan.json", (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())


def _entry(tree: dict[str, Any]) -> Entry:
    survey = {**tree["survey"], "unknown": tuple(tree["survey"]["unknown"])}
    return Entry(
        Design(**tree["design"]), Survey(**survey), tree["steps"], tree["every"], tree["given"], tree["chosen"]
    )


def _read(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        if found["format"] != FORMAT:
            raise ValueError
        return found
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(f"{file} is not the plan of a comparison that this regard reads") from None
