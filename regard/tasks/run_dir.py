"""The run folder. Its config.json holds everything that is needed to rebuild the model and to repeat the run."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from regard.config.registry import missing_sources
from regard.config.settings import Settings
from regard.errors import UserError
from regard.tasks.base import get_task
from regard.tasks.build_settings import build_settings
from regard.training import atomic_write

FORMAT = 2
PACKAGES = ("regard", "torch", "lightning-fabric", "numpy", "polars", "tokenizers", "safetensors", "scikit-learn")


def package_versions() -> dict[str, str]:
    """Versions of Python and of the packages that matter for the results."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


def write_config(folder: Path, config: dict[str, Any]) -> None:
    """Write config.json in one step, so that it is never incomplete."""
    content = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
    with atomic_write.explain_full_disk(folder, len(content)):
        atomic_write.replace_file(folder / "config.json", content.encode())


def read_config(folder: str | Path) -> dict[str, Any]:
    """Read config.json of a run folder. Raises UserError if there is none that this version can read."""
    folder = Path(folder)
    file = folder / "config.json"
    if not folder.exists():
        raise UserError(f"no such run folder: {str(folder)!r}")
    if not folder.is_dir() or not file.is_file():
        raise UserError(f"{str(folder)!r} is not a run folder: it has no config.json. `regard train` creates one")
    not_a_run = UserError(f"{file} is not the config.json of a regard run")
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
        run_format = config["format"]
    except (ValueError, KeyError, TypeError):
        raise not_a_run from None
    if "imported" in config:
        raise UserError(f"{folder} holds a model of `regard import`, not a run of `regard train`")
    if run_format != FORMAT:
        age = "an older" if isinstance(run_format, int) and run_format < FORMAT else "a newer"
        fix = "train it again" if age == "an older" else "update regard"
        raise UserError(f"{folder} was written by {age} version of regard (format {run_format}, not {FORMAT}); {fix}")
    check_imports(folder, config)
    try:
        _ = config["settings"]["model"]["name"], config["vocab_size"], config["data"]["train"], config["data"]["valid"]
        get_task(config["settings"]["task"]).check_config(config)
    except (KeyError, IndexError, TypeError):
        raise not_a_run from None
    return config


def check_imports(folder: Path, config: Mapping[str, Any]) -> None:
    """Raise UserError if the run uses a class of a user's file or package that was not imported in this process.

    Opening a run never runs such a file: the user has to ask for it.
    """
    missing = missing_sources(config.get("imports", {}))
    if not missing:
        return
    classes = ", ".join(name for source in missing for name in config["imports"][source])
    files = [source for source in missing if source.endswith(".py")]
    packages = [source for source in missing if source not in files]
    fixes = []
    if files:
        options = " ".join(f"--import {file}" for file in files)
        calls = "; ".join(f"regard.import_file({file!r})" for file in files)
        fixes.append(f"add {options} to the command, or call {calls} first")
    if packages:
        fixes.append(f"import {', '.join(packages)} first")
    raise UserError(
        f"{folder} uses {classes}, which {' and '.join(missing)} defined when it was trained. Opening a run does not "
        f"run that code: {'; '.join(fixes)}"
    )


def settings_from_config(config: Mapping[str, Any]) -> Settings:
    """The settings in a config.json."""
    tree = dict(config["settings"])
    return build_settings(tree.pop("task"), tree)
