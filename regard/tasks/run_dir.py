"""The run folder: config.json says all that is needed to rebuild the model and to repeat the run."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from regard.config.settings import Settings
from regard.errors import UserError
from regard.tasks.base import kind
from regard.tasks.build_settings import resolve
from regard.training import atomic_write

FORMAT = 1
PACKAGES = ("regard", "torch", "lightning-fabric", "numpy", "polars", "tokenizers", "safetensors", "scikit-learn")


def versions() -> dict[str, str]:
    """What the run was made with."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def write_config(folder: Path, config: dict[str, Any]) -> None:
    """Whole or not at all: a folder with a config.json is a run that was set up."""
    content = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
    with atomic_write.room(folder, len(content)):
        atomic_write.replace(folder / "config.json", content.encode())


def read_config(folder: str | Path) -> dict[str, Any]:
    """config.json of a run folder, or an error that says what was found instead."""
    folder = Path(folder)
    file = folder / "config.json"
    if not folder.exists():
        raise UserError(f"no such run folder: {str(folder)!r}")
    if not folder.is_dir() or not file.is_file():
        raise UserError(f"{str(folder)!r} is not a run folder: it holds no config.json. `regard train` makes one")
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
        found = config["format"]
        if "imported" in config:
            raise UserError(f"{folder} holds a model that `regard import` wrote, and no run of `regard train`")
        if found == FORMAT:
            _ = config["settings"]["model"]["name"]
            _ = config["vocab"], config["data"]["train"], config["data"]["valid"]
            kind(config["settings"]["task"]).check_config(config)
    except UserError:
        raise
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{file} is not the config.json of a regard run") from None
    if found != FORMAT:
        raise UserError(f"{file} has format {found}, and this regard reads format {FORMAT}; use the regard it names")
    return config


def settings_of(config: Mapping[str, Any]) -> Settings:
    """The settings that a config.json holds."""
    return resolve(config["settings"]["task"], {k: v for k, v in config["settings"].items() if k != "task"})
