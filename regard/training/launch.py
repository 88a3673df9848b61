"""Start Fabric: check the settings, find the processes of the run, choose the precision."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import warnings
from collections.abc import Iterator
from typing import Any

from lightning_fabric import Fabric

from regard.config.settings import LENGTH_SETTINGS, TrainSettings
from regard.errors import UserError, did_you_mean
from regard.training import optim, precision


def check_settings(settings: TrainSettings) -> None:
    """Raise if a setting is invalid."""
    lengths = {name: getattr(settings, name) for name in LENGTH_SETTINGS}
    names = [name for name, value in lengths.items() if value is not None]
    if len(names) != 1:
        given = " and ".join(f"--{name}" for name in names) or "none"
        raise UserError(f"the length of training must be one of --epochs, --steps and --budget, got {given}")
    conditions = {
        names[0]: lengths[names[0]] > 0,
        "lr": settings.lr > 0,
        "grad_accumulation": settings.grad_accumulation >= 1,
        "num_devices": settings.num_devices >= 1,
        "num_nodes": settings.num_nodes >= 1,
        "evaluate_every": settings.evaluate_every is None or settings.evaluate_every >= 1,
        "patience": settings.patience is None or settings.patience >= 1,
        "threads": settings.threads is None or settings.threads >= 1,
    }
    for name, holds in conditions.items():
        if not holds:
            raise UserError(f"train.{name} must be greater than 0, got {getattr(settings, name)}")
    if not 0 <= settings.warmup <= 1:
        raise UserError(f"train.warmup is a fraction of the steps between 0 and 1, got {settings.warmup}")
    if settings.ema_decay is not None and not 0 < settings.ema_decay < 1:
        raise UserError(f"train.ema_decay must be between 0 and 1, such as 0.999, not {settings.ema_decay}")
    for name in ("weight_decay", "clip", "checkpoint_seconds"):
        if getattr(settings, name) < 0:
            raise UserError(f"train.{name} must be at least 0, got {getattr(settings, name)}")
    for name, choices in (
        ("optimizer", optim.OPTIMIZERS),
        ("decay", optim.DECAYS),
        ("precision", precision.PRECISIONS),
    ):
        if getattr(settings, name) not in choices:
            value = getattr(settings, name)
            raise UserError(f"unknown {name} {value!r}; {did_you_mean(value, choices)}")


def resolve_settings(settings: TrainSettings) -> TrainSettings:
    """Check the settings before anything is written, and replace precision `auto` by its choice on this machine."""
    check_settings(settings)
    _fabric(apply_torchrun(settings))
    if settings.precision != "auto":
        return settings
    return dataclasses.replace(settings, precision=precision.choose_precision("auto").removesuffix("-true"))


def launch_fabric(settings: TrainSettings) -> Fabric:
    """A launched Fabric, with the processes of `torchrun`, or else those of the settings."""
    check_settings(settings)
    settings = apply_torchrun(settings)
    fabric = _fabric(settings)
    with _explain_fabric_errors(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*interactive environment.*")
        fabric.launch()
    return fabric


def _fabric(settings: TrainSettings) -> Fabric:
    fabric_precision: Any = precision.choose_precision(settings.precision)
    with _explain_fabric_errors(settings):
        return Fabric(
            accelerator="auto",
            devices=settings.num_devices,
            num_nodes=settings.num_nodes,
            strategy=settings.strategy,
            precision=fabric_precision,
        )


@contextlib.contextmanager
def _explain_fabric_errors(settings: TrainSettings) -> Iterator[None]:
    """Convert Fabric's errors to messages about the settings."""
    try:
        yield
    except (ValueError, RuntimeError) as problem:
        raise UserError(
            f"cannot start with {settings.num_devices} devices, strategy {settings.strategy!r} and precision "
            f"{settings.precision!r}: {problem}"
        ) from None


def apply_torchrun(settings: TrainSettings) -> TrainSettings:
    """Under `torchrun` the number of processes is that of `torchrun`."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return settings
    world, local = int(os.environ["WORLD_SIZE"]), int(os.environ["LOCAL_WORLD_SIZE"])
    strategy = "ddp" if settings.strategy == "auto" and world > 1 else settings.strategy
    return dataclasses.replace(settings, num_devices=local, num_nodes=world // local, strategy=strategy)
