"""An imported model as a regard folder: config.json, model.safetensors with regard's names, tokenizer.json."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_model, save_model
from torch import nn

from regard.errors import UserError
from regard.hub.hf_folder import FAMILIES, ImportInfo, check_empty, describe_model, load_folder, save_folder
from regard.layers.cost_formulas import num_params

FORMAT = 2
SOURCE_FOLDER = "source"
"""Folder with the files that regard does not use and exports again: vocabularies, generation settings."""


def side_files(folder: Path) -> list[Path]:
    """Small text files that are neither weights nor written again."""
    if not folder.is_dir():
        return []
    written = {"config.json", "tokenizer.json", "model.safetensors.index.json"}
    files = [f for f in folder.iterdir() if f.suffix in (".json", ".txt", ".spm", ".model", ".md") and f.is_file()]
    return sorted(f for f in files if f.name not in written and f.stat().st_size < 50_000_000)


def import_folder(source: str | Path, out: str | Path) -> str:
    """Import a Hugging Face folder into the folder `out`; returns a summary."""
    model, tokenizer, info = load_folder(source)
    out = Path(out)
    check_empty(out)
    out.mkdir(parents=True, exist_ok=True)
    save_model(model, str(out / "model.safetensors"))  # tied weights are saved once
    config = {"imported": {"format": FORMAT, **describe_model(model), "info": asdict(info)}}
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    if tokenizer is not None:
        shutil.copyfile(tokenizer, out / "tokenizer.json")
    for file in side_files(Path(source)):
        (out / SOURCE_FOLDER).mkdir(exist_ok=True)
        shutil.copyfile(file, out / SOURCE_FOLDER / file.name)
    return f"{info}\n{num_params(model):,} parameters -> {out}"


def load_imported(folder: str | Path) -> tuple[nn.Module, ImportInfo]:
    """Load the model from a folder that `import_folder` wrote."""
    folder = Path(folder)
    file = folder / "model.safetensors"
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))["imported"]
        version = config["format"]
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(f"{folder} is not a folder that `regard import` wrote") from None
    if version != FORMAT:
        raise UserError(
            f"{folder} has format {version}, and this version of regard reads format {FORMAT}; import the Hugging Face "
            "folder again"
        )
    try:
        model_class, info = FAMILIES[config["family"]].model_class, ImportInfo(**config["info"])
        model = model_class(config["vocab_size"], config=model_class.config_class(**config["config"]))
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{folder}/config.json is damaged; import the Hugging Face folder again") from None
    try:
        load_model(model, file, strict=True)
    except (OSError, SafetensorError) as error:
        raise UserError(f"{file} cannot be read: {error}") from None
    except RuntimeError:  # torch's message has a line for each tensor
        raise UserError(f"{file} does not fit its config.json; import the folder again") from None
    return model.eval(), info


def export_folder(folder: str | Path, out: str | Path) -> str:
    """Write an imported model back as a Hugging Face folder with the same weights; returns a summary."""
    model, info = load_imported(folder)
    tokenizer = Path(folder) / "tokenizer.json"
    save_folder(model, out, info=info, tokenizer=tokenizer if tokenizer.is_file() else None)
    for file in side_files(Path(folder) / SOURCE_FOLDER):
        shutil.copyfile(file, Path(out) / file.name)
    return f"{info.family}: {len(info.loaded)} tensors -> {out}"
