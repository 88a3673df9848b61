"""Save and load the weights of a module, for checks."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from safetensors.torch import load_model, save_model
from torch import nn


def copy_through_file(source: nn.Module, target: nn.Module) -> None:
    """Write the weights of one module as safetensors and load them into another. All names must match."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "model.safetensors"
        save_model(source, str(file))
        load_model(target, str(file), strict=True)
