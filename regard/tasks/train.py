"""`regard.train`: from data and settings to a run folder. Task-specific steps are implemented by the Task subclass."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.config.messages import mute, muted, show_messages
from regard.config.owned_folders import claim_folder, lock_output
from regard.config.registry import user_sources
from regard.config.settings import (
    Settings,
    expand_model_name,
    load_settings,
    merge_settings,
    parse_duration,
    split_list,
)
from regard.data.read_table import Table
from regard.data.text_column import find_text_column
from regard.data.tokenizer import Tokenizer
from regard.errors import UserError
from regard.models.data_hooks import ProvidesTrainingData, UsesTrainingData, UsesVocabulary
from regard.models.linear_text_model import FittableConfig
from regard.tasks import warm_start as warm_starts
from regard.tasks.base import FittableTask, Task, get_task
from regard.tasks.base_run import Run
from regard.tasks.build_settings import build_settings, list_differences, make_paths_absolute, settings_to_dict
from regard.tasks.model_card import format_model_card
from regard.tasks.output_folder import check_output_folder, choose_output_folder
from regard.tasks.run_dir import FORMAT, package_versions, read_config, write_config
from regard.training import atomic_write, checkpoint, environment, launch
from regard.training.interrupts import Interrupted
from regard.training.loop import fit
from regard.training.objective import Objective

logger = logging.getLogger(__name__)


def train(
    task: str,
    data: str | Path | Sequence[str | Path] | Table | None = None,
    *,
    model: str | None = None,
    objective: str | None = None,
    warm_start: str | Path | None = None,
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
    """Train a model and return the run.

        run = regard.train("classify", "reviews.csv", text="review", label="sentiment", model="han", budget="2min")
        run.predict("A film to forget.")

        run = regard.train("language", ["books/", "more.txt"], objective="masked", steps=1000)
        run = regard.train("classify", "reviews.csv", warm_start=run.folder)

    Args:
        task: "classify", "language", "translate", "recall", "caption", "images", or a registered task.
        data: The files that the task reads.
        model: Name of the model. Default: the task's.
        objective: For "language": "causal", "masked", "blank" or "span".
        warm_start: A run folder whose tokenizer and weights training starts from, or a settings file (.yaml), whose
            run is trained first.
        out: The run folder. Default: a new folder in runs/.
        text: Column with the text, for "classify".
        label: Column with the label, for "classify".
        valid: Files for validation. Default: a part of the training data is held out.
        epochs: Length of training; one of epochs, steps and budget.
        steps: Length in optimizer steps.
        budget: Length in time, such as "2min" or a number of seconds.
        seed: Seed of the random numbers.
        settings: All other settings, as a nested mapping, such as {"train": {"lr": 3e-4}, "model": {"hidden": 100}}.
        resume: Continue the run in `out` from its last checkpoint.
        overwrite: Replace the run in `out`.
        progress: Whether to show a progress bar.

    Returns:
        A run of the class of its task, such as a Classifier.
    """
    show_messages()
    if environment.get_rank() != 0:
        mute()
    table = data if isinstance(data, Table) else None
    arguments: dict[str, Any] = {
        "seed": seed,
        "model": {"name": model},
        "objective": objective,
        "warm_start": None if warm_start is None else str(warm_start),
        "data": {"train": None if table else _to_strings(data), "text": text, "label": label},
        "train": {"epochs": epochs, "steps": steps, "budget": parse_duration(budget)},
    }
    arguments["data"]["valid"] = _to_strings(valid)
    tree = merge_settings(expand_model_name(settings or {}), _without_none(arguments))
    recipe = warm_starts.recipe_file(tree["warm_start"]) if tree.get("warm_start") is not None else None
    if resume and out is None:
        raise UserError("name the folder of the run to resume: --resume --out RUN")
    if resume and (Path(str(out)) / "config.json").is_file():
        if recipe is not None:
            tree = {**tree, "warm_start": str(warm_starts.run_folder(recipe))}
        return _resume(task, tree, Path(str(out)), table, progress)
    if recipe is not None:
        _check_inputs(tree, out, overwrite)
        _train_recipe(recipe, progress)
    if tree.get("warm_start") is not None:
        tree = warm_starts.adopt_settings(task, tree)
    full_settings = make_paths_absolute(build_settings(task, tree))
    if table is None and not full_settings.data.train:
        if resume:
            read_config(str(out))  # its error says what is in the folder
        raise UserError(f"no data was given: regard train {task} FILE")
    if isinstance(full_settings.model, FittableConfig):
        _report_unused(full_settings.model_name, tree)
    else:
        full_settings = dataclasses.replace(full_settings, train=launch.resolve_settings(full_settings.train))
    folder = choose_output_folder(full_settings, out, overwrite)
    started, task_object = time.perf_counter(), get_task(task)
    dataset = task_object.read_dataset(full_settings, table)
    if environment.get_rank() == 0:
        claim_folder(folder, "run")
    settings_tree = settings_to_dict(full_settings)
    config = {
        "format": FORMAT,
        "settings": settings_tree,
        "imports": user_sources(settings_tree),
        **task_object.config_entries(dataset),
        "vocab_size": 0,
        "data": dataset.info,
        "versions": package_versions(),
        "machine": environment.describe_machine(),
    }
    return _Training(task_object, full_settings, config, dataset, folder, started, progress, resume=False).run()


def build_model(task: Task[Any, Any], settings: Settings, config: Mapping[str, Any], tokenizer: Tokenizer) -> nn.Module:
    """Build the untrained model of a run, as it is before a warm start."""
    try:
        model = task.build_model(settings, config)
    except UserError:
        raise
    except (ValueError, RuntimeError, ArithmeticError) as error:  # a width of 0, a dropout of 2
        raise UserError(f"{settings.model_name!r} cannot be built with {settings.model}: {error}") from None
    if isinstance(model, UsesVocabulary):
        model.set_vocabulary(tokenizer.token_strings())
    return model


def build_objective(
    task: Task[Any, Any],
    settings: Settings,
    dataset: Any,
    tokenizer: Tokenizer,
    model: nn.Module,
    folder: Path,
    progress: bool = False,
) -> tuple[Objective, str]:
    """Build the objective, and give the model the training data that it needs before the first step.

    Returns:
        The objective and a description of its data.
    """
    objective, description = task.build_objective(settings, dataset, tokenizer, folder, progress)
    if isinstance(model, UsesTrainingData) and isinstance(objective, ProvidesTrainingData):
        model.fit_training_data(*objective.training_data())
    return objective, description


@dataclass
class _Training:
    """One run that is about to be trained or resumed."""

    task: Task[Any, Any]
    settings: Settings
    config: dict[str, Any]
    dataset: Any
    folder: Path
    started: float
    progress: bool
    resume: bool

    def run(self) -> Run:
        with lock_output(self.folder) if environment.get_rank() == 0 else contextlib.nullcontext():
            return self._run()

    def _run(self) -> Run:
        if isinstance(self.settings.model, FittableConfig):
            return self._fit_model()
        if self.resume:
            tokenizer = Tokenizer.load(self.folder)
        elif self.settings.warm_start is not None:
            tokenizer = Tokenizer.load(self.settings.warm_start)
        else:
            tokenizer = self.task.build_tokenizer(self.settings, self.dataset)
        if not self.resume:
            self.config["vocab_size"] = tokenizer.vocab_size
            if environment.get_rank() == 0:
                tokenizer.save(self.folder)
        return self._train_model(tokenizer)

    def _train_model(self, tokenizer: Tokenizer) -> Run:
        settings, config, folder, main = self.settings, self.config, self.folder, environment.get_rank() == 0
        torch.manual_seed(settings.seed)
        model = build_model(self.task, settings, config, tokenizer)
        with muted():
            has_checkpoint = self.resume and checkpoint.find_latest_checkpoint(folder) is not None
        if settings.warm_start is not None and not has_checkpoint:
            transfer = warm_starts.transfer_weights(model, settings)
            logger.info(str(transfer))
            config["warm_start"] = dataclasses.asdict(transfer)
        config["parameters"] = sum(p.numel() for p in model.parameters())
        objective, description = build_objective(
            self.task, settings, self.dataset, tokenizer, model, folder, self.progress and main
        )
        if main and not self.resume:
            write_config(folder, config)
        prepare_seconds = time.perf_counter() - self.started
        logger.info(f"{settings.model_name}: {config['parameters']:,} parameters, {description} -> {folder}")
        result = fit(
            model, objective, settings.train, folder, seed=settings.seed, resume=self.resume, progress=self.progress
        )
        config |= {"finished": True, "metrics": result.metrics, "steps": result.steps, "seconds": result.seconds}
        config["prepare_seconds"] = prepare_seconds
        if main:
            _write_results(folder, config)
        run = self.task.run_class(folder, config, model.cpu(), tokenizer)  # as `Run.load` does
        if main:
            self.task.after_training(run)
        return run

    def _fit_model(self) -> Run:
        config, folder, main = self.config, self.folder, environment.get_rank() == 0
        assert isinstance(self.task, FittableTask)
        model, metrics = self.task.fit_model(self.settings, self.dataset)
        if main:
            write_config(folder, config)  # first, so that an incomplete folder is recognized as a run
            for name, content in model.files().items():
                atomic_write.replace_file(folder / name, content)
        config |= {"vocab_size": model.weight.shape[1], "parameters": model.num_params(), "finished": True}
        config |= {"metrics": metrics, "steps": 0, "seconds": time.perf_counter() - self.started}
        if main:
            _write_results(folder, config)
        name, value = next(iter(metrics.items()))
        logger.info(f"{self.settings.model_name}: {model.num_params():,} parameters, {name} {value:.2%} -> {folder}")
        return self.task.run_class(folder, config, model, None)


def _resume(task: str, tree: dict[str, Any], folder: Path, table: Table | None, progress: bool) -> Run:
    """Continue a run. Settings may be given again if they are the same; the data files may have moved."""
    config = read_config(folder)
    before = config["settings"]
    if task != before["task"]:
        raise UserError(f"{folder} is a run of {before['task']!r}, not of {task!r}")
    train_settings = tree.get("train")
    if isinstance(train_settings, Mapping) and train_settings.get("precision") == "auto":  # config.json has the choice
        tree = merge_settings(tree, {"train": {"precision": before["train"]["precision"]}})
    settings_before = {key: value for key, value in before.items() if key != "task"}
    settings = make_paths_absolute(build_settings(task, merge_settings(settings_before, tree)))
    now = settings_to_dict(settings)
    files = {part: now["data"][part] for part in ("train", "valid")}
    changes = list_differences(merge_settings(before, {"data": files}), now)
    if changes:
        raise UserError(
            f"cannot resume {folder} with other settings: {'; '.join(changes)}. Leave them out, or train into another "
            "folder"
        )
    if config.get("finished"):
        logger.info(f"{folder} is already finished")
        return Run.load(folder)
    task_object = get_task(task)
    with muted():  # the messages about the data were shown at the first start
        dataset = task_object.read_dataset(settings, table)
    for part in ("train", "valid"):
        then, now = config["data"][part].get("fingerprint"), dataset.info[part].get("fingerprint")
        if then != now:
            raise UserError(
                f"cannot resume {folder}: its {part} data have changed (fingerprint {str(then)[:8]} then, "
                f"{str(now)[:8]} now). Restore the file, or train into a new folder with --out"
            )
    started = time.perf_counter()
    return _Training(task_object, settings, config, dataset, folder, started, progress, resume=True).run()


def _check_inputs(tree: Mapping[str, Any], out: str | Path | None, overwrite: bool) -> None:
    """Raise UserError for a missing file or a folder in use, before the run for the warm start is trained."""
    data = tree.get("data") or {}
    for part in ("train", "valid"):
        files = data.get(part) or ()
        for file in map(Path, split_list(files) if isinstance(files, str) else files):
            if not file.exists() and find_text_column(file) is None:
                raise UserError(f"no such file: {str(file)!r}")
    if out is not None:
        check_output_folder(Path(out), overwrite)


def _train_recipe(recipe: Path, progress: bool) -> None:
    """Train, or resume, the run of a settings file, for a warm start from it."""
    settings, folder = load_settings(recipe), warm_starts.run_folder(recipe)
    task = settings.pop("task", None)
    if task is None:
        raise UserError(f"{recipe} has no task, so its run cannot be trained first; add a line such as task: language")
    if not warm_starts.is_finished(folder):
        if environment.get_rank() or environment.is_torchrun_worker():
            return  # several processes must not train it together; `adopt_settings` raises
        logger.info(f"training {folder} first, for the warm start from {recipe}")
    try:
        train(task, settings=settings, out=folder, resume=True, progress=progress)
    except Interrupted as stop:
        stop.in_warm_start = True
        raise


def _report_unused(model_name: str, tree: Mapping[str, Any]) -> None:
    """Log the settings that a fitted model does not use."""
    unused = [f"{part}.{key}" for part in ("train", "tokenizer") for key in tree.get(part) or {}]
    unused += [f"data.{key}" for key in ("max_tokens", "batch_tokens") if key in (tree.get("data") or {})]
    if unused:
        logger.info(f"{model_name} is fitted to all texts in one call and does not use {', '.join(unused)}")


def _write_results(folder: Path, config: dict[str, Any]) -> None:
    write_config(folder, config)
    atomic_write.replace_file(folder / "README.md", format_model_card(config).encode())


def _to_strings(paths: Any) -> str | list[str] | None:
    if isinstance(paths, (list, tuple)):
        return [str(path) for path in paths]
    return None if paths is None else str(paths)


def _without_none(tree: Mapping[str, Any]) -> dict[str, Any]:
    return {k: _without_none(v) if isinstance(v, Mapping) else v for k, v in tree.items() if v is not None and v != {}}
