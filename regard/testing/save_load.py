"""Weights through a file and back."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from safetensors.torch import load_model, save_model
from torch import nn


def through_a_file(source: nn.Module, target: nn.Module) -> None:
    """Write the weights of one module as safetensors and read them into another; every name must be met."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "model.safetensors"
        save_model(source, str(file))
        load_model(target, str(file), strict=True)
