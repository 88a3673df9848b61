"""The loop: takes a model and a task, and trains. It knows neither what the model is nor what the data are.

What a run does is a function of its seed and settings alone: stopped at any moment and resumed, it ends with the same
bytes. Nothing that hangs on the clock may steer it, except when checkpoints are written and the screen is drawn.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric
from torch import Tensor, nn
from torch.optim import Optimizer

from regard.config.messages import muted
from regard.config.settings import TrainSettings
from regard.errors import UserError, did_you_mean
from regard.training import checkpoint, environment, fsdp, optim, rng, time_budget
from regard.training.ema import EMA
from regard.training.interrupts import Interrupted, InterruptHandler
from regard.training.launch import launch_fabric
from regard.training.metrics_log import MetricsLog, log_interval
from regard.training.objective import Objective
from regard.training.progress import ProgressBar
from regard.training.training_step import StepResult, TrainingStep

FETCH_SECONDS = 1.0
"""How often the losses are fetched from the device, looked at and shown."""


@dataclass(frozen=True)
class TrainResult:
    """How a run ended. `metrics` are those of the best model, which is the one in the folder and in the model given."""

    folder: Path
    steps: int
    epochs: int
    tokens: int
    seconds: float
    best: float | None
    best_step: int
    metrics: dict[str, float]
    stopped_early: bool


@dataclass
class TrainState:
    """Where a run stands: the numbers of a checkpoint. `epoch` and `batch` are those of the next step."""

    total_steps: int = 0
    step: int = 0
    epoch: int = 0
    batch: int = 0
    tokens: int = 0
    best: float | None = None
    best_step: int = 0
    metrics: dict[str, float] = field(default_factory=dict)
    waited: int = 0
    evaluated: int = -1
    pending: list[list[float]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    precision: dict[str, Any] = field(default_factory=dict)
    averaged: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class _Step:
    """A step that was done, whose losses may still be on the device."""

    step: int
    epoch: int
    batch: int
    lr: float
    tokens: int
    values: Tensor


def fit(
    model: nn.Module,
    task: Objective,
    settings: TrainSettings,
    folder: Path,
    *,
    seed: int,
    resume: bool = False,
    progress: bool = True,
) -> TrainResult:
    """Train a model on a task into a run folder: model.safetensors (best), metrics.jsonl, state/ and logs/.

    The length is one of `settings.epochs`, `steps` and `budget`. At the end the model holds the best weights, in
    evaluation mode. `resume` goes on from the newest whole checkpoint, or starts where none was written yet.
    Raises `Interrupted` after Ctrl-C or SIGTERM, and `UserError` where the loss is no longer a number.
    """
    with environment.process_environment(settings.threads):
        return _fit(model, task, settings, Path(folder), seed, resume, progress)


def _fit(
    model: nn.Module,
    task: Objective,
    settings: TrainSettings,
    folder: Path,
    seed: int,
    resume: bool,
    progress: bool,
) -> TrainResult:
    fabric = launch_fabric(settings)
    with muted(not fabric.is_global_zero):
        saved = _find(fabric, folder, resume)
        with _loop(fabric, model, task, settings, folder, seed) as loop, ProgressBar(progress and loop.first) as bar:
            return loop.run(seed, saved, bar)


def time_training(
    model: nn.Module, task: Objective, settings: TrainSettings, folder: Path, *, seed: int
) -> tuple[float, float]:
    """Seconds of a step and of an evaluation, on this machine; `settings.budget` says how long it may try. Nothing is
    written, and the model is left as it was."""
    with environment.process_environment(settings.threads), _loop(launch_fabric(settings), model, task, settings, folder, seed) as loop:
        return time_budget.time_step_and_evaluation(loop, seed)


@contextlib.contextmanager
def _loop(
    fabric: Fabric, model: nn.Module, task: Objective, settings: TrainSettings, folder: Path, seed: int
) -> Iterator[Loop]:
    named = optim.group_parameters(model, settings.optimizer)
    if fsdp.is_sharded(fabric) and "muon" in named.values():
        raise UserError(f"muon needs whole matrices, which {settings.strategy} cuts; use --optimizer adamw or ddp")
    wrapped = fabric.setup_module(model)
    scaled = settings.precision == "16-mixed"  # its scaler and a fused step cannot both undo the scale
    optimizers = optim.build_optimizers(model, settings, fused=not scaled, named=named)
    ready: list[Any] = [fabric.setup_optimizers(optimizer) for optimizer in optimizers]
    torch.manual_seed(seed + fabric.global_rank)
    with rng.deterministic_algorithms(fabric), InterruptHandler() as interrupts:
        yield Loop(fabric, model, wrapped, ready, task, settings, folder, interrupts)


def _find(fabric: Fabric, folder: Path, resume: bool) -> checkpoint.Checkpoint | None:
    """The checkpoint to go on from, or None to start."""
    folder.mkdir(parents=True, exist_ok=True)
    path = checkpoint.find_latest_checkpoint(folder)
    if path is not None and not resume:
        raise UserError(f"{folder} holds a run already; go on with it with --resume, or name another folder with --out")
    saved = None if path is None else checkpoint.load_checkpoint(path)
    fabric.barrier()  # all have looked before the first one writes
    if fabric.is_global_zero:
        checkpoint.remove_newer_checkpoints(folder, saved.state["step"] if saved else -1)
    return saved


class Loop:
    """One run of `fit`, from its start or from a checkpoint to its end."""

    def __init__(
        self,
        fabric: Fabric,
        model: nn.Module,
        wrapped: nn.Module,
        optimizers: Sequence[Optimizer],
        task: Objective,
        settings: TrainSettings,
        folder: Path,
        interrupts: InterruptHandler,
    ) -> None:
        self.fabric, self.model, self.wrapped, self.optimizers = fabric, model, wrapped, optimizers
        self.task, self.settings, self.folder, self.interrupts = task, settings, folder, interrupts
        self.world, self.first = fabric.world_size, fabric.is_global_zero
        self.update = TrainingStep(fabric, wrapped, optimizers, task, settings, self._wishes)
        self.average = None if settings.ema_decay is None else EMA(self.update.params, settings.ema_decay)
        self.state = TrainState()
        self.window: list[_Step] = []
        self.last: _Step | None = None
        self.shown = math.nan
        self.begun = self.fetched = self.written = time.perf_counter()
        self._planned: tuple[int, list[np.ndarray]] | None = None

    # The run --------------------------------------------------------------------------------------------------------

    def run(self, seed: int, saved: checkpoint.Checkpoint | None, bar: ProgressBar) -> TrainResult:
        """Train to the end."""
        self.wrapped.train()
        if saved is not None:
            self._restore(saved)
        self.state.total_steps = self._total(seed)
        state = self.state
        self.log = MetricsLog(self.folder, state.step, on=self.first)
        try:
            if saved is None and self.settings.budget is not None:
                self._checkpoint()  # from here on the number of steps is fixed
            bar.start(state.step, state.total_steps, state.tokens)
            self.written = self.fetched = time.perf_counter()
            while not self._over():
                self._after(self._train(), bar)
            if state.evaluated != state.step:  # resumed with fewer steps than were done
                self._evaluate()
                self._checkpoint()
            bar.update(state.step, self.shown, state.tokens, self._best_text(), last=True)
            self.log.flush()
        finally:
            self.log.close()
        return self._result()

    def plan(self, epoch: int) -> list[np.ndarray]:
        """The batches of an epoch; the last one asked for is kept."""
        if self._planned is None or self._planned[0] != epoch:
            self._planned = (epoch, self.task.plan(epoch))
            if not self._planned[1]:
                raise UserError("there is nothing to train on: the training part holds no examples")
        return self._planned[1]

    def _total(self, seed: int) -> int:
        """The number of steps: given, counted from the plans of the epochs, or found by a probe and then kept."""
        if self.settings.steps is not None:
            return self.settings.steps
        if self.settings.epochs is not None:
            return sum(len(self.plan(epoch)) for epoch in reversed(range(self.settings.epochs)))
        return self.state.total_steps or time_budget.count_steps_in_budget(self, seed)

    def _over(self) -> bool:
        return self.state.step >= self.state.total_steps or self._stopped_early()

    def _stopped_early(self) -> bool:
        patience = self.settings.patience
        return patience is not None and self.state.waited >= patience and self.state.step < self.state.total_steps

    def _train(self) -> tuple[bool, ...]:
        """Take the next batch and note where that leaves the run; what is wished after it."""
        state, settings = self.state, self.settings
        plan = self.plan(state.epoch)
        lr = settings.lr * optim.lr_multiplier(state.step, state.total_steps, settings.warmup, settings.decay)
        done = self.step(plan[state.batch], state.epoch, lr)
        state.tokens += done.tokens
        state.step += 1
        self.last = _Step(state.step, state.epoch, state.batch, lr, state.tokens, done.values)
        self.window.append(self.last)
        state.batch += 1
        if state.batch == len(plan):
            state.epoch, state.batch = state.epoch + 1, 0
        return done.requests

    def step(self, indices: np.ndarray, epoch: int, lr: float) -> StepResult:
        """One step, and the average with it."""
        done = self.update(indices, epoch, lr)
        if self.average is not None:
            self.average.update()
        return done

    def _kept(self) -> contextlib.AbstractContextManager[None]:
        """While entered, the model holds the weights that are evaluated and kept: its own, or their average."""
        return contextlib.nullcontext() if self.average is None else self.average.average_parameters()

    def _wishes(self) -> tuple[bool, ...]:
        """What this process wants done after the step: fetch and show, write a checkpoint, stop."""
        now = time.perf_counter()
        show = self.first and now - self.fetched >= FETCH_SECONDS
        keep = self.first and now - self.written >= self.settings.checkpoint_seconds
        return show, keep, bool(self.interrupts.signal_number)

    def _after(self, wishes: tuple[bool, ...], bar: ProgressBar) -> None:
        """Evaluate, write a checkpoint and show, as due after a step."""
        state, every = self.state, self.settings.evaluate_every
        show, keep, stop = wishes
        due = state.batch == 0 if every is None else state.step % every == 0
        if due or state.step >= state.total_steps:
            self._evaluate()
        if keep or stop or self._over():
            self._checkpoint()
        elif show:
            self._fetch()
        if show or keep:
            bar.update(state.step, self.shown, state.tokens, self._best_text())
        if stop and not self._over():
            raise Interrupted(self.folder, state.step, self.interrupts.signal_number or signal.SIGTERM)

    def _result(self) -> TrainResult:
        state, path = self.state, self.folder / "model.safetensors"
        self.fabric.barrier()
        if not fsdp.is_sharded(self.fabric) and path.exists():
            checkpoint.load_weights(self.model, path)
        self.wrapped.eval()
        return TrainResult(
            folder=self.folder,
            steps=state.step,
            epochs=state.epoch + (state.batch > 0),
            tokens=state.tokens,
            seconds=state.seconds,
            best=state.best,
            best_step=state.best_step,
            metrics=dict(state.metrics),
            stopped_early=self._stopped_early(),
        )

    # What is seen ---------------------------------------------------------------------------------------------------

    def _fetch(self) -> None:
        """Bring the losses of the last steps home, look whether they are numbers, and write the lines that are due."""
        self.fetched = time.perf_counter()
        if not self.window:
            return
        values: Any = torch.stack([done.values for done in self.window])
        if self.world > 1:
            values = self.fabric.all_reduce(values, reduce_op="sum")
        state = self.state
        state.names = self.update.names
        width = 1 + len(state.names)
        steps, self.window = self.window, []
        for done, row in zip(steps, values.tolist(), strict=True):
            if not all(map(math.isfinite, row)):
                what = "gradient" if all(map(math.isfinite, row[:width])) else "loss"
                raise UserError(self._broken(what, done))
            state.pending.append(row[:width])
            self.shown = row[0] if math.isnan(self.shown) else 0.9 * self.shown + 0.1 * row[0]
            if done.step % log_interval(state.total_steps) == 0 or done.step == state.total_steps:
                self._line(done)
        self.log.flush()

    def _line(self, done: _Step) -> None:
        """Write the mean of the losses since the line before."""
        state = self.state
        loss, *terms = (math.fsum(column) / len(state.pending) for column in zip(*state.pending, strict=True))
        state.pending = []
        self.log.log_training(
            {
                "step": done.step,
                "epoch": done.epoch + 1,
                "loss": loss,
                "terms": dict(zip(state.names, terms, strict=True)),
                "lr": done.lr,
                "tokens": done.tokens,
                "seconds": round(self._seconds(), 3),
            }
        )

    def _broken(self, what: str, done: _Step) -> str:
        items = self.plan(done.epoch)[done.batch].tolist()
        named = ", ".join(map(str, items[:5])) + (", ..." if len(items) > 5 else "")
        clip = "" if self.settings.clip else ", or --set train.clip=1"
        return (
            f"the {what} is no longer a number at step {done.step} (epoch {done.epoch + 1}, batch {done.batch + 1}, "
            f"of {len(items)} items: {named}); try a lower --lr than {self.settings.lr:g}{clip}, or check these "
            "items of the data; the weights that were kept are from before"
        )

    def _check_weights(self) -> None:
        """Refuse to write weights that are not numbers, as a step with a finite loss can leave them."""
        sums: list[Any] = [p.detach().sum() for p in self.update.params]
        bad: Any = (~torch.stack([s.full_tensor() if hasattr(s, "full_tensor") else s for s in sums]).isfinite()).sum()
        if self.world > 1:
            bad = self.fabric.all_reduce(bad.float(), reduce_op="sum")
        if bad.item():
            if self.last is None:
                raise UserError("the model has weights that are not numbers before the first step; build it anew")
            raise UserError(self._broken("value of the weights", self.last))

    def _evaluate(self) -> None:
        """Evaluate, and keep the model if it is the best so far."""
        state = self.state
        self._fetch()
        self._check_weights()
        metrics = self.metrics()
        state.evaluated = state.step
        better = not metrics  # without validation data the last is the best
        if metrics:
            if self.task.monitor not in metrics:
                known = did_you_mean(self.task.monitor, metrics)
                raise ValueError(f"the task watches {self.task.monitor!r}, which its evaluation does not give; {known}")
            value = metrics[self.task.monitor]
            sign = 1.0 if self.task.mode == "max" else -1.0
            better = math.isfinite(value) and (state.best is None or sign * value > sign * state.best)
            state.waited = 0 if better else state.waited + 1
            if better:
                state.best, state.best_step, state.metrics = value, state.step, metrics
        if better or (state.best is None and self._over()):
            with self._kept():
                weights = fsdp.full_weights(self.fabric, self.model)
                self._write(lambda: checkpoint.save_weights(self.folder / "model.safetensors", weights))
        if self._over() and state.pending and self.last is not None:
            self._line(self.last)
        if metrics:
            epoch = state.epoch if state.batch == 0 else state.epoch + 1
            line = {"step": state.step, "epoch": epoch, "valid": metrics, "best": better}
            self.log.log_validation({**line, "seconds": round(self._seconds(), 3)})

    def metrics(self) -> dict[str, float]:
        """The task's numbers. All processes compute them; the first one's count. Leaves the random state alone."""
        before = rng.get_rng_states(self.fabric)
        self.wrapped.eval()
        model = self.wrapped if fsdp.is_sharded(self.fabric) else self.model
        with self._kept(), torch.no_grad(), self.fabric.autocast():
            metrics = {name: float(value) for name, value in self.task.evaluate(model).items()}
        self.wrapped.train()
        rng.set_rng_states(self.fabric, before)
        return self.fabric.broadcast(metrics) if self.world > 1 else metrics

    def _best_text(self) -> str:
        return "" if self.state.best is None else f"best {self.task.monitor} {self.state.best:.4g}"

    def _seconds(self) -> float:
        return self.state.seconds + time.perf_counter() - self.begun

    # What is kept ---------------------------------------------------------------------------------------------------

    def _checkpoint(self) -> None:
        """Write all that is needed to go on from here."""
        self._fetch()
        self._check_weights()
        self.state.seconds, self.begun = self._seconds(), time.perf_counter()
        self.state.precision = self.fabric.strategy.precision.state_dict()
        self.state.averaged = 0 if self.average is None else self.average.num_updates
        saved = checkpoint.Checkpoint(
            model=fsdp.full_weights(self.fabric, self.model),
            optimizers=fsdp.full_optimizer_states(self.fabric, self.model, self.optimizers),
            rng=rng.gather_rng_states(self.fabric),
            state=dataclasses.asdict(self.state),
            ema=self._average(),
        )

        def write() -> None:
            self.log.flush(force=True)  # a checkpoint may not outlive the lines up to it
            checkpoint.save_checkpoint(self.folder, saved)

        self._write(write)
        self.written = time.perf_counter()

    def _average(self) -> dict[str, Tensor] | None:
        if self.average is None:
            return None
        with self.average.average_parameters():
            return {name: t.clone() for name, t in fsdp.full_weights(self.fabric, self.model).items()}

    def _write(self, write: Callable[[], None]) -> None:
        """Let the first process write; where it cannot, all stop with what it says, and none waits for ever."""
        trouble = ""
        if self.first:
            try:
                write()
            except UserError as error:
                trouble = str(error)
        if self.world > 1:
            trouble = self.fabric.broadcast(trouble)
        if trouble:
            raise UserError(trouble)

    def _restore(self, saved: checkpoint.Checkpoint) -> None:
        fsdp.restore_checkpoint(self.fabric, self.model, self.optimizers, saved)
        self.state = TrainState(**saved.state)
        self.update.names = self.state.names
        if self.average is not None and saved.ema is not None:
            self.average.num_updates = self.state.averaged
            with self.average.average_parameters():
                fsdp.load_full_weights(self.fabric, self.model, saved.ema)
        self.fabric.strategy.precision.load_state_dict(self.state.precision)
        if self.fabric.global_rank < len(saved.rng):
            rng.set_rng_states(self.fabric, saved.rng[self.fabric.global_rank])
