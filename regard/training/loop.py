"""The training loop. It knows neither the model nor the data format.

A run depends on its seed and settings only: stopped at any moment and resumed, it ends with the same bytes. The clock
must not influence it, except for when checkpoints are written and the progress is shown.
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
"""How often the losses are fetched from the device, checked and shown."""


@dataclass(frozen=True)
class TrainResult:
    """The result of a run.

    Attributes:
        best: The best value of the monitored metric.
        metrics: All metrics of the best model, which is in the folder and in the model that was trained.
        stopped_early: Whether `patience` ended the run.
    """

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
    """The state of a run in a checkpoint. `epoch` and `batch` are those of the next step."""

    total_steps: int = 0
    step: int = 0
    epoch: int = 0
    batch: int = 0
    tokens: int = 0
    best: float | None = None
    best_step: int = 0
    metrics: dict[str, float] = field(default_factory=dict)
    evaluations_without_improvement: int = 0
    last_evaluated_step: int = -1
    pending_losses: list[list[float]] = field(default_factory=list)
    term_names: list[str] = field(default_factory=list)
    precision: dict[str, Any] = field(default_factory=dict)
    ema_updates: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class _StepRecord:
    """A finished step, whose losses may still be on the device."""

    step: int
    epoch: int
    batch: int
    lr: float
    tokens: int
    values: Tensor


def fit(
    model: nn.Module,
    objective: Objective,
    settings: TrainSettings,
    folder: Path,
    *,
    seed: int,
    resume: bool = False,
    progress: bool = True,
) -> TrainResult:
    """Train a model into a run folder: model.safetensors (best), metrics.jsonl, state/ and logs/.

    At the end the model has the best weights and is in evaluation mode.

    Args:
        model: The model to train, in place.
        objective: Batches, loss and evaluation.
        settings: The length is one of `settings.epochs`, `settings.steps` and `settings.budget`.
        folder: The run folder.
        seed: Random seed.
        resume: Continue from the newest undamaged checkpoint, or start if there is none.
        progress: Show a progress bar.

    Raises:
        Interrupted: After Ctrl-C or SIGTERM, when a checkpoint was written.
        UserError: If the loss, the gradient or a weight is NaN or infinite.
    """
    with environment.process_environment(settings.threads):
        return _fit(model, objective, settings, Path(folder), seed, resume, progress)


def _fit(
    model: nn.Module,
    objective: Objective,
    settings: TrainSettings,
    folder: Path,
    seed: int,
    resume: bool,
    progress: bool,
) -> TrainResult:
    fabric = launch_fabric(settings)
    with muted(not fabric.is_global_zero):
        saved = _find_checkpoint(fabric, folder, resume)
        with (
            _prepare_loop(fabric, model, objective, settings, folder, seed) as loop,
            ProgressBar(progress and loop.is_first) as bar,
        ):
            return loop.run(seed, saved, bar)


def time_training(
    model: nn.Module, objective: Objective, settings: TrainSettings, folder: Path, *, seed: int
) -> tuple[float, float]:
    """Measure the seconds of a step and of an evaluation on this machine.

    `settings.budget` limits the time for it. Nothing is written, and the model is not changed.
    """
    with (
        environment.process_environment(settings.threads),
        _prepare_loop(launch_fabric(settings), model, objective, settings, folder, seed) as loop,
    ):
        return time_budget.time_step_and_evaluation(loop, seed)


@contextlib.contextmanager
def _prepare_loop(
    fabric: Fabric, model: nn.Module, objective: Objective, settings: TrainSettings, folder: Path, seed: int
) -> Iterator[Loop]:
    groups = optim.group_parameters(model, settings.optimizer)
    if fsdp.is_sharded(fabric) and "muon" in groups.values():
        raise UserError(f"muon needs whole matrices, which {settings.strategy} cuts; use --optimizer adamw or ddp")
    wrapped = fabric.setup_module(model)
    scaled = settings.precision == "16-mixed"  # its scaler and a fused step cannot both undo the scale
    optimizers = optim.build_optimizers(model, settings, fused=not scaled, groups=groups)
    wrapped_optimizers: list[Any] = [fabric.setup_optimizers(optimizer) for optimizer in optimizers]
    torch.manual_seed(seed + fabric.global_rank)
    with rng.deterministic_algorithms(fabric), InterruptHandler() as interrupts:
        yield Loop(fabric, model, wrapped, wrapped_optimizers, objective, settings, folder, interrupts)


def _find_checkpoint(fabric: Fabric, folder: Path, resume: bool) -> checkpoint.Checkpoint | None:
    """The checkpoint to resume from, or None to start."""
    folder.mkdir(parents=True, exist_ok=True)
    path = checkpoint.find_latest_checkpoint(folder)
    if path is not None and not resume:
        raise UserError(f"{folder} already has a run; continue it with --resume, or choose another folder with --out")
    saved = None if path is None else checkpoint.load_checkpoint(path)
    fabric.barrier()  # all processes have looked before the first one writes
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
        objective: Objective,
        settings: TrainSettings,
        folder: Path,
        interrupts: InterruptHandler,
    ) -> None:
        self.fabric, self.model, self.wrapped, self.optimizers = fabric, model, wrapped, optimizers
        self.objective, self.settings, self.folder, self.interrupts = objective, settings, folder, interrupts
        self.world_size, self.is_first = fabric.world_size, fabric.is_global_zero
        self.train_step = TrainingStep(fabric, wrapped, optimizers, objective, settings, self._requests)
        self.ema = None if settings.ema_decay is None else EMA(self.train_step.params, settings.ema_decay)
        self.state = TrainState()
        self.unfetched_steps: list[_StepRecord] = []
        self.last: _StepRecord | None = None
        self.smoothed_loss = math.nan
        self.start_time = self.fetch_time = self.checkpoint_time = time.perf_counter()
        self._epoch_plan: tuple[int, list[np.ndarray]] | None = None

    # The run --------------------------------------------------------------------------------------------------------

    def run(self, seed: int, saved: checkpoint.Checkpoint | None, bar: ProgressBar) -> TrainResult:
        """Train to the end."""
        self.wrapped.train()
        if saved is not None:
            self._restore(saved)
        self.state.total_steps = self._count_steps(seed)
        state = self.state
        self.log = MetricsLog(self.folder, state.step, enabled=self.is_first)
        try:
            if saved is None and self.settings.budget is not None:
                self._checkpoint()  # from here on the number of steps is fixed
            bar.start(state.step, state.total_steps, state.tokens)
            self.checkpoint_time = self.fetch_time = time.perf_counter()
            while not self._is_over():
                self._finish_step(self._train_step(), bar)
            if state.last_evaluated_step != state.step:  # resumed with fewer steps than were done
                self._evaluate()
                self._checkpoint()
            bar.update(state.step, self.smoothed_loss, state.tokens, self._best_text(), last=True)
            self.log.flush()
        finally:
            self.log.close()
        return self._result()

    def plan(self, epoch: int) -> list[np.ndarray]:
        """The batches of an epoch. The last plan is cached."""
        if self._epoch_plan is None or self._epoch_plan[0] != epoch:
            self._epoch_plan = (epoch, self.objective.plan(epoch))
            if not self._epoch_plan[1]:
                raise UserError("there is nothing to train on: the training part holds no examples")
        return self._epoch_plan[1]

    def _count_steps(self, seed: int) -> int:
        """The number of steps: from the settings, from the plans of the epochs, or measured for a time budget."""
        if self.settings.steps is not None:
            return self.settings.steps
        if self.settings.epochs is not None:
            return sum(len(self.plan(epoch)) for epoch in reversed(range(self.settings.epochs)))
        return self.state.total_steps or time_budget.count_steps_in_budget(self, seed)

    def _is_over(self) -> bool:
        return self.state.step >= self.state.total_steps or self._stopped_early()

    def _stopped_early(self) -> bool:
        patience = self.settings.patience
        return (
            patience is not None
            and self.state.evaluations_without_improvement >= patience
            and self.state.step < self.state.total_steps
        )

    def _train_step(self) -> tuple[bool, ...]:
        """Train on the next batch and advance the state. Returns the requests after the step."""
        state, settings = self.state, self.settings
        plan = self.plan(state.epoch)
        lr = settings.lr * optim.lr_multiplier(state.step, state.total_steps, settings.warmup, settings.decay)
        result = self.step(plan[state.batch], state.epoch, lr)
        state.tokens += result.tokens
        state.step += 1
        self.last = _StepRecord(state.step, state.epoch, state.batch, lr, state.tokens, result.values)
        self.unfetched_steps.append(self.last)
        state.batch += 1
        if state.batch == len(plan):
            state.epoch, state.batch = state.epoch + 1, 0
        return result.requests

    def step(self, indices: np.ndarray, epoch: int, lr: float) -> StepResult:
        """One training step, with its update of the EMA."""
        result = self.train_step(indices, epoch, lr)
        if self.ema is not None:
            self.ema.update()
        return result

    def _evaluated_weights(self) -> contextlib.AbstractContextManager[None]:
        """While entered, the model holds the weights that are evaluated and saved: its own or their EMA."""
        return contextlib.nullcontext() if self.ema is None else self.ema.average_parameters()

    def _requests(self) -> tuple[bool, ...]:
        """What this process wants after the step: fetch the losses, write a checkpoint, stop."""
        now = time.perf_counter()
        fetch = self.is_first and now - self.fetch_time >= FETCH_SECONDS
        save = self.is_first and now - self.checkpoint_time >= self.settings.checkpoint_seconds
        return fetch, save, bool(self.interrupts.signal_number)

    def _finish_step(self, requests: tuple[bool, ...], bar: ProgressBar) -> None:
        """Evaluate, write a checkpoint and show the progress, as due after a step."""
        state, interval = self.state, self.settings.evaluate_every
        fetch, save, stop = requests
        due = state.batch == 0 if interval is None else state.step % interval == 0
        if due or state.step >= state.total_steps:
            self._evaluate()
        if save or stop or self._is_over():
            self._checkpoint()
        elif fetch:
            self._fetch()
        if fetch or save:
            bar.update(state.step, self.smoothed_loss, state.tokens, self._best_text())
        if stop and not self._is_over():
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

    # Losses and metrics ---------------------------------------------------------------------------------------------

    def _fetch(self) -> None:
        """Fetch the losses of the last steps, raise if one is NaN, and write the lines that are due to the log."""
        self.fetch_time = time.perf_counter()
        if not self.unfetched_steps:
            return
        values: Any = torch.stack([record.values for record in self.unfetched_steps])
        if self.world_size > 1:
            values = self.fabric.all_reduce(values, reduce_op="sum")
        state = self.state
        state.term_names = self.train_step.names
        width = 1 + len(state.term_names)
        steps, self.unfetched_steps = self.unfetched_steps, []
        for record, row in zip(steps, values.tolist(), strict=True):
            if not all(map(math.isfinite, row)):
                what = "gradient" if all(map(math.isfinite, row[:width])) else "loss"
                raise UserError(self._nan_message(what, record))
            state.pending_losses.append(row[:width])
            self.smoothed_loss = row[0] if math.isnan(self.smoothed_loss) else 0.9 * self.smoothed_loss + 0.1 * row[0]
            if record.step % log_interval(state.total_steps) == 0 or record.step == state.total_steps:
                self._log_losses(record)
        self.log.flush()

    def _log_losses(self, record: _StepRecord) -> None:
        """Log the mean of the losses since the last line."""
        state = self.state
        loss, *terms = (
            math.fsum(column) / len(state.pending_losses) for column in zip(*state.pending_losses, strict=True)
        )
        state.pending_losses = []
        self.log.log_training(
            {
                "step": record.step,
                "epoch": record.epoch + 1,
                "loss": loss,
                "terms": dict(zip(state.term_names, terms, strict=True)),
                "lr": record.lr,
                "tokens": record.tokens,
                "seconds": round(self._seconds(), 3),
            }
        )

    def _nan_message(self, what: str, record: _StepRecord) -> str:
        items = self.plan(record.epoch)[record.batch].tolist()
        shown_items = ", ".join(map(str, items[:5])) + (", ..." if len(items) > 5 else "")
        clip = "" if self.settings.clip else ", or --set train.clip=1"
        return (
            f"{what} is NaN or infinite at step {record.step} (epoch {record.epoch + 1}, batch {record.batch + 1} with "
            f"{len(items)} items: {shown_items}). Try a lower --lr than {self.settings.lr:g}{clip}, or check these "
            "items of the data. The saved weights are from before that step"
        )

    def _check_weights(self) -> None:
        """Raise if a weight is NaN or infinite, which a step with a finite loss can cause."""
        sums: list[Any] = [p.detach().sum() for p in self.train_step.params]
        bad: Any = (~torch.stack([s.full_tensor() if hasattr(s, "full_tensor") else s for s in sums]).isfinite()).sum()
        if self.world_size > 1:
            bad = self.fabric.all_reduce(bad.float(), reduce_op="sum")
        if bad.item():
            if self.last is None:
                raise UserError("the model has NaN or infinite weights before the first step; build it again")
            raise UserError(self._nan_message("value of the weights", self.last))

    def _evaluate(self) -> None:
        """Evaluate, and save the weights if they are the best so far."""
        state = self.state
        self._fetch()
        self._check_weights()
        metrics = self.metrics()
        state.last_evaluated_step = state.step
        better = not metrics  # without validation data the last model is the best
        if metrics:
            if self.objective.monitor not in metrics:
                hint = did_you_mean(self.objective.monitor, metrics)
                raise ValueError(
                    f"the objective monitors {self.objective.monitor!r}, which evaluate() does not return; {hint}"
                )
            value = metrics[self.objective.monitor]
            sign = 1.0 if self.objective.mode == "max" else -1.0
            better = math.isfinite(value) and (state.best is None or sign * value > sign * state.best)
            state.evaluations_without_improvement = 0 if better else state.evaluations_without_improvement + 1
            if better:
                state.best, state.best_step, state.metrics = value, state.step, metrics
        if better or (state.best is None and self._is_over()):
            with self._evaluated_weights():
                weights = fsdp.full_weights(self.fabric, self.model)
                self._write(lambda: checkpoint.save_weights(self.folder / "model.safetensors", weights))
        if self._is_over() and state.pending_losses and self.last is not None:
            self._log_losses(self.last)
        if metrics:
            epoch = state.epoch if state.batch == 0 else state.epoch + 1
            line = {"step": state.step, "epoch": epoch, "valid": metrics, "best": better}
            self.log.log_validation({**line, "seconds": round(self._seconds(), 3)})

    def metrics(self) -> dict[str, float]:
        """The metrics of the objective. All processes compute them; those of rank 0 count. Keeps the random state."""
        rng_states = rng.get_rng_states(self.fabric)
        self.wrapped.eval()
        model = self.wrapped if fsdp.is_sharded(self.fabric) else self.model
        with self._evaluated_weights(), torch.no_grad(), self.fabric.autocast():
            metrics = {name: float(value) for name, value in self.objective.evaluate(model).items()}
        self.wrapped.train()
        rng.set_rng_states(self.fabric, rng_states)
        return self.fabric.broadcast(metrics) if self.world_size > 1 else metrics

    def _best_text(self) -> str:
        return "" if self.state.best is None else f"best {self.objective.monitor} {self.state.best:.4g}"

    def _seconds(self) -> float:
        return self.state.seconds + time.perf_counter() - self.start_time

    # Checkpoints ----------------------------------------------------------------------------------------------------

    def _checkpoint(self) -> None:
        """Write everything that is needed to resume from here."""
        self._fetch()
        self._check_weights()
        self.state.seconds, self.start_time = self._seconds(), time.perf_counter()
        self.state.precision = self.fabric.strategy.precision.state_dict()
        self.state.ema_updates = 0 if self.ema is None else self.ema.num_updates
        saved = checkpoint.Checkpoint(
            model=fsdp.full_weights(self.fabric, self.model),
            optimizers=fsdp.full_optimizer_states(self.fabric, self.model, self.optimizers),
            rng=rng.gather_rng_states(self.fabric),
            state=dataclasses.asdict(self.state),
            ema=self._ema_weights(),
        )

        def write() -> None:
            self.log.flush(force=True)  # the log must be on disk before the checkpoint
            checkpoint.save_checkpoint(self.folder, saved)

        self._write(write)
        self.checkpoint_time = time.perf_counter()

    def _ema_weights(self) -> dict[str, Tensor] | None:
        if self.ema is None:
            return None
        with self.ema.average_parameters():
            return {name: t.clone() for name, t in fsdp.full_weights(self.fabric, self.model).items()}

    def _write(self, write: Callable[[], None]) -> None:
        """Write in the first process. If it fails, all processes raise its error, so that none waits for ever."""
        error_message = ""
        if self.is_first:
            try:
                write()
            except UserError as error:
                error_message = str(error)
        if self.world_size > 1:
            error_message = self.fabric.broadcast(error_message)
        if error_message:
            raise UserError(error_message)

    def _restore(self, saved: checkpoint.Checkpoint) -> None:
        fsdp.restore_checkpoint(self.fabric, self.model, self.optimizers, saved)
        self.state = TrainState(**saved.state)
        self.train_step.names = self.state.term_names
        if self.ema is not None and saved.ema is not None:
            self.ema.num_updates = self.state.ema_updates
            with self.ema.average_parameters():
                fsdp.load_full_weights(self.fabric, self.model, saved.ema)
        self.fabric.strategy.precision.load_state_dict(self.state.precision)
        if self.fabric.global_rank < len(saved.rng):
            rng.set_rng_states(self.fabric, saved.rng[self.fabric.global_rank])
