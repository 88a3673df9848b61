"""Train: from a file and settings to a run folder, or on from where one stopped. What hangs on the task is asked of its
kind."""

from __future__ import annotations

import dataclasses
import logging
import os
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.config.messages import mute, muted, show_messages
from regard.config.settings import Settings, listed, load, merge, seconds, spelled_out
from regard.data.read_table import Table
from regard.data.text_column import find_text_column
from regard.data.tokenizer import Tokenizer
from regard.errors import UserError
from regard.models.data_hooks import ProvidesTrainingData, UsesTrainingData, UsesVocabulary
from regard.models.linear_text_model import FittableConfig
from regard.tasks import warm_start as origins
from regard.tasks.base import Kind, kind
from regard.tasks.base_run import Run
from regard.tasks.build_settings import absolute, as_tree, differences, resolve
from regard.tasks.model_card import card
from regard.tasks.run_dir import FORMAT, read_config, versions, write_config
from regard.training import atomic_write, checkpoint, environment, launch
from regard.training.interrupts import Interrupted
from regard.training.loop import fit

logger = logging.getLogger(__name__)

BEGUN = {"tokenizer.json", "tokenizer.json.tmp", "config.json.tmp", "state", "logs", "corpus"}
"""What a run that was killed before its config.json was there can leave behind."""
_TOLD = "REGARD_RUN_FOLDER"


def train(
    task: str,
    data: str | Path | Sequence[str | Path] | Table | None = None,
    *,
    model: str | None = None,
    objective: str | None = None,
    origin: str | Path | None = None,
    out: str | Path | None = None,
    text: str | None = None,
    label: str | None = None,
    valid: str | Path | Sequence[str | Path] | None = None,
    epochs: int | None = None,
    steps: int | None = None,
    budget: str | float | None = None,
    seed: int | None = None,
    settings: Mapping[str, Any] | None = None,
    resume: bool = False,
    overwrite: bool = False,
    progress: bool = True,
) -> Any:
    """Train a model on a file and return the run, of the class that its task has: a Classifier, for example.

    >>> run = regard.train("classify", "reviews.csv", text="review", label="sentiment", model="han", budget="2min")
    >>> run.predict("A film to forget.")

    >>> run = regard.train("language", ["books/", "more.txt"], objective="masked", steps=1000)
    >>> run = regard.train("classify", "reviews.csv", origin=run.folder)  # starts from what that one learnt

    `settings` is a nested mapping for everything else, such as {"train": {"lr": 3e-4}, "model": {"hidden": 100}}.
    """
    show_messages()
    if environment.rank() != 0:
        mute()
    tree: dict[str, Any] = spelled_out(settings or {})
    table = data if isinstance(data, Table) else None
    given = {
        "seed": seed,
        "model": {"name": model},
        "objective": objective,
        "origin": None if origin is None else str(origin),
        "data": {"train": None if table else _paths(data), "text": text, "label": label},
        "train": {"epochs": epochs, "steps": steps, "budget": seconds(budget)},
    }
    given["data"]["valid"] = _paths(valid)
    tree = merge(tree, _without_none(given))
    made_by = origins.recipe(tree["origin"]) if tree.get("origin") is not None else None
    if resume and out is None:
        raise UserError("which run is to be resumed? name its folder: --resume --out RUN")
    if resume and (Path(str(out)) / "config.json").is_file():
        tree = tree if made_by is None else {**tree, "origin": str(origins.place(made_by))}
        return _resume(task, tree, Path(str(out)), table, progress)
    if made_by is not None:
        _look_ahead(tree, out, overwrite)
        _train_first(made_by, progress)
    if tree.get("origin") is not None:
        tree = origins.adopt(task, tree)
    made = kind(task)
    chosen = absolute(resolve(task, tree))
    if table is None and not chosen.data.train:
        if resume:
            read_config(str(out))  # says what is there instead
        raise UserError(f"no data was given: regard train {task} FILE")
    if isinstance(chosen.model, FittableConfig):
        unused = [f"{part}.{key}" for part in ("train", "tokenizer") for key in tree.get(part) or {}]
        unused += [f"data.{key}" for key in ("max_tokens", "batch_tokens") if key in (tree.get("data") or {})]
        if unused:
            logger.info(f"{chosen.model_name} is fitted to all texts at once: {', '.join(unused)} not used")
    else:
        chosen = dataclasses.replace(chosen, train=launch.settled(chosen.train))
    folder = _folder(chosen, out, overwrite)
    begun = time.perf_counter()
    found = made.read(chosen, table)
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "format": FORMAT,
        "settings": as_tree(chosen),
        **made.facts(found),
        "vocab": 0,
        "data": found.info,
        "versions": versions(),
        "machine": environment.describe(),
    }
    if isinstance(chosen.model, FittableConfig):
        return _fit_at_once(made, chosen, config, found, folder, begun)
    words = made.words(chosen, found) if chosen.origin is None else origins.tokenizer(chosen)
    config["vocab"] = words.vocab_size
    if environment.rank() == 0:
        words.save(folder)
    return _fit(made, chosen, config, found, words, folder, begun, progress, resume=False)


def _look_ahead(tree: Mapping[str, Any], out: str | Path | None, overwrite: bool) -> None:
    """What would stop the second run is said before the first takes its time: a missing file, a folder in use."""
    data = tree.get("data") or {}
    for part in ("train", "valid"):
        given = data.get(part) or ()
        for name in map(Path, listed(given) if isinstance(given, str) else given):
            if not name.exists() and find_text_column(name) is None:
                raise UserError(f"no such file: {str(name)!r}")
    if out is not None:
        _usable(Path(out), overwrite)


def _train_first(recipe: Path, progress: bool) -> None:
    """The run that training starts from, as its settings say; where it stopped before, it goes on."""
    settings, folder = load(recipe), origins.place(recipe)
    task = settings.pop("task", None)
    if task is None:
        raise UserError(f"{recipe} does not say which task it is for, so what it makes cannot be trained first")
    if not origins.finished(folder):
        if environment.rank() or environment.siblings():
            return  # not by several processes at once: what adopts it says so
        logger.info(f"{folder} comes first, as {recipe} says")
    try:
        train(task, settings=settings, out=folder, resume=True, progress=progress)
    except Interrupted as stop:
        stop.first = True
        raise


def _resume(task: str, tree: dict[str, Any], folder: Path, table: Table | None, progress: bool) -> Run:
    """Go on with what config.json says; settings given again must be the same, but the files may have moved."""
    config = read_config(folder)
    then = config["settings"]
    if task != then["task"]:
        raise UserError(f"{folder} is a run of {then['task']!r}, not of {task!r}")
    again = tree.get("train")
    if isinstance(again, Mapping) and again.get("precision") == "auto":  # what that was stands in config.json
        tree = merge(tree, {"train": {"precision": then["train"]["precision"]}})
    settings = absolute(resolve(task, merge({k: v for k, v in then.items() if k != "task"}, tree)))
    now = as_tree(settings)
    files = {part: now["data"][part] for part in ("train", "valid")}
    changed = differences(merge(then, {"data": files}), now)
    if changed:
        raise UserError(
            f"{folder} was started with other settings: {'; '.join(changed)}. Leave them out, or start anew"
        )
    if config.get("finished"):
        logger.info(f"{folder} is finished already")
        return Run.load(folder)
    made = kind(task)
    with muted():  # the first start has shown what there is to say about the data
        found = made.read(settings, table)
    for part in ("train", "valid"):
        if found.info[part].get("fingerprint") != config["data"][part].get("fingerprint"):
            raise UserError(f"the {part} data changed since {folder} was started; a run resumes on the same data only")
    begun = time.perf_counter()
    if isinstance(settings.model, FittableConfig):
        return _fit_at_once(made, settings, config, found, folder, begun)
    words = Tokenizer.load(folder)
    return _fit(made, settings, config, found, words, folder, begun, progress, resume=True)


def _fit(
    made: Kind,
    settings: Settings,
    config: dict[str, Any],
    found: Any,
    words: Tokenizer,
    folder: Path,
    begun: float,
    progress: bool,
    *,
    resume: bool,
) -> Run:
    torch.manual_seed(settings.seed)
    net = _net(made, settings, config)
    if isinstance(net, UsesVocabulary):
        net.set_vocabulary(words.token_strings())
    if settings.origin is not None and not (resume and checkpoint.latest(folder)):
        account = origins.transfer(net, settings)
        logger.info(str(account))
        config["origin"] = dataclasses.asdict(account)
    config["parameters"] = sum(p.numel() for p in net.parameters())
    job, holds = made.task(settings, found, words, folder, progress and environment.rank() == 0)
    if isinstance(net, UsesTrainingData) and isinstance(job, ProvidesTrainingData):
        net.fit_training_data(*job.training_data())
    if environment.rank() == 0 and not resume:
        write_config(folder, config)
    prepared = time.perf_counter() - begun
    logger.info(f"{settings.model_name}: {config['parameters']:,} parameters, {holds} -> {folder}")
    result = fit(net, job, settings.train, folder, seed=settings.seed, resume=resume, progress=progress)
    config |= {"finished": True, "metrics": result.metrics, "steps": result.steps, "seconds": result.seconds}
    config["prepare_seconds"] = prepared
    if environment.rank() == 0:
        _finish(folder, config)
    run = made.RUN(folder, config, net.cpu(), words)  # where `Run.load` puts it too
    if environment.rank() == 0 and (after := getattr(made, "after", None)):  # what a kind does with the trained run
        after(run)
    return run


def _net(made: Kind, settings: Settings, config: dict[str, Any]) -> nn.Module:
    try:
        return made.net(settings, config)
    except UserError:
        raise
    except (ValueError, RuntimeError, ArithmeticError) as problem:  # a width of 0, a dropout of 2
        raise UserError(f"{settings.model_name!r} cannot be built with {settings.model}: {problem}") from None


def _fit_at_once(
    made: Kind,
    settings: Settings,
    config: dict[str, Any],
    found: Any,
    folder: Path,
    begun: float,
) -> Run:
    bag, measured = made.fit(settings, found)
    if environment.rank() == 0:
        write_config(folder, config)  # first, so that what a kill leaves behind is known for a run
        for name, content in bag.files().items():
            atomic_write.replace(folder / name, content)
    config |= {"vocab": bag.weight.shape[1], "parameters": bag.params(), "finished": True, "metrics": measured}
    config |= {"steps": 0, "seconds": time.perf_counter() - begun}
    if environment.rank() == 0:
        _finish(folder, config)
    first = next(iter(measured))
    logger.info(f"{settings.model_name}: {bag.params():,} parameters, {first} {measured[first]:.2%} -> {folder}")
    return made.RUN(folder, config, bag, None)


def _finish(folder: Path, config: dict[str, Any]) -> None:
    write_config(folder, config)
    text = card(config)
    atomic_write.replace(folder / "README.md", text.encode())


def _folder(settings: Settings, out: str | Path | None, overwrite: bool) -> Path:
    """Where the run goes: the folder named, or the next free one under runs/."""
    if out is None:
        return _free_folder(settings)
    folder = Path(out)
    if not environment.rank() and _usable(
        folder, overwrite
    ):  # the first process looks for all, and may be writing already
        _clear(folder)
    return folder


def _usable(folder: Path, overwrite: bool) -> bool:
    """Whether there is a run in the folder that may go; an error where the folder cannot be written to."""
    if folder.is_file():
        raise UserError(f"{folder} is a file; --out wants a folder")
    if (folder / "config.json").exists():
        try:
            read_config(folder)
        except UserError as problem:
            raise UserError(f"{problem}; name another folder for --out") from None
        if not overwrite:
            raise UserError(f"{folder} holds a run already: --resume goes on with it, --overwrite starts anew")
        return True
    if folder.is_dir() and any(p.name not in BEGUN for p in folder.iterdir()):
        raise UserError(f"{folder} is not empty and not a run; name another folder for --out")
    return False


def _free_folder(settings: Settings) -> Path:
    """The next free folder under runs/, chosen by the first process; those that it starts are told."""
    if environment.rank() or environment.siblings():
        if _TOLD not in os.environ:
            raise UserError("several processes must write to one run folder: name it with --out")
        return Path(os.environ.pop(_TOLD))
    stem = re.sub(r"[^\w-]+", "-", Path(_first(settings.data.train) or "table").name.split(".")[0]).strip("-") or "data"
    number, folder = 1, Path("runs") / f"{stem}-{settings.model_name}"
    while folder.exists():
        number += 1
        folder = Path("runs") / f"{stem}-{settings.model_name}-{number}"
    os.environ[_TOLD] = str(folder)
    return folder


def _paths(data: Any) -> str | list[str] | None:
    if isinstance(data, (list, tuple)):
        return [str(path) for path in data]
    return None if data is None else str(data)


def _first(train: str | tuple[str, ...]) -> str:
    return train if isinstance(train, str) else next(iter(train), "")


def _clear(folder: Path) -> None:
    """Remove what a run writes, and nothing else."""
    for name in ("config.json", "model.safetensors", "tokenizer.json", "metrics.jsonl", "README.md"):
        (folder / name).unlink(missing_ok=True)
    for name in ("state", "logs", "corpus"):
        shutil.rmtree(folder / name, ignore_errors=True)


def _without_none(tree: Mapping[str, Any]) -> dict[str, Any]:
    return {k: _without_none(v) if isinstance(v, Mapping) else v for k, v in tree.items() if v is not None and v != {}}
