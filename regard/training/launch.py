"""Start Fabric: check the settings, find the processes of the run, choose the precision."""

from __future__ import annotations

import dataclasses
import os
import warnings

from lightning_fabric import Fabric

from regard.errors import UserError
from regard.settings import TrainSettings
from regard.training import precision


def check(settings: TrainSettings) -> None:
    """Raise where the settings cannot be meant."""
    lengths = {name: getattr(settings, name) for name in ("epochs", "steps", "budget")}
    given = [name for name, value in lengths.items() if value is not None]
    if len(given) != 1:
        said = " and ".join(f"--{name}" for name in given) or "none"
        raise UserError(f"how long to train is one of --epochs, --steps and --budget, and was given {said}")
    wanted = {
        given[0]: lengths[given[0]] > 0,
        "lr": settings.lr > 0,
        "accumulate": settings.accumulate >= 1,
        "devices": settings.devices >= 1,
        "nodes": settings.nodes >= 1,
        "evaluate_every": settings.evaluate_every is None or settings.evaluate_every >= 1,
        "patience": settings.patience is None or settings.patience >= 1,
        "threads": settings.threads is None or settings.threads >= 1,
    }
    for name, holds in wanted.items():
        if not holds:
            raise UserError(f"train.{name} must be greater than 0, and was given {getattr(settings, name)}")
    if not 0 <= settings.warmup <= 1:
        raise UserError(f"train.warmup is a share of the steps between 0 and 1, and was given {settings.warmup}")
    for name in ("weight_decay", "clip", "checkpoint_seconds"):
        if getattr(settings, name) < 0:
            raise UserError(f"train.{name} must be 0 or greater, and was given {getattr(settings, name)}")


def start(settings: TrainSettings) -> Fabric:
    """Fabric, launched: under `torchrun` as that says, else with the devices, nodes and strategy of the settings."""
    check(settings)
    settings = under_torchrun(settings)
    chosen = precision.choose(settings.precision)
    try:
        fabric = Fabric(
            accelerator="auto",
            devices=settings.devices,
            num_nodes=settings.nodes,
            strategy=settings.strategy,
            precision=chosen,  # type: ignore[arg-type]
        )
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*interactive environment.*")
            fabric.launch()
    except (ValueError, RuntimeError) as problem:
        if isinstance(problem, UserError):
            raise
        raise UserError(
            f"cannot start with {settings.devices} devices, strategy {settings.strategy!r} and precision {chosen!r}: "
            f"{problem}"
        ) from None
    return fabric


def under_torchrun(settings: TrainSettings) -> TrainSettings:
    """Where `torchrun` made the processes, their number is its word, not the settings'."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return settings
    world, local = int(os.environ["WORLD_SIZE"]), int(os.environ["LOCAL_WORLD_SIZE"])
    strategy = "ddp" if settings.strategy == "auto" and world > 1 else settings.strategy
    return dataclasses.replace(settings, devices=local, nodes=world // local, strategy=strategy)
