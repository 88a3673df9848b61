"""An imported model as a folder of ours: config.json, model.safetensors under regard's names, tokenizer.json."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_model, save_model
from torch import nn

from regard.errors import UserError
from regard.hub.hf_folder import FAMILIES, Info, describe, load_folder, save_folder

FORMAT = 1
SIDE = "source"
"""Files beside the weights that regard has no use for and gives back: vocabularies, generation settings."""


def side_files(folder: Path) -> list[Path]:
    """Small plain files, no weights and nothing that is written anew."""
    if not folder.is_dir():
        return []
    ours = {"config.json", "tokenizer.json", "model.safetensors.index.json"}
    plain = [f for f in folder.iterdir() if f.suffix in (".json", ".txt", ".spm", ".model", ".md") and f.is_file()]
    return sorted(f for f in plain if f.name not in ours and f.stat().st_size < 50_000_000)


def save(source: str | Path, out: str | Path) -> str:
    """Import a Hugging Face folder into `out`; what was loaded, skipped and new, in words."""
    model, tokenizer, info = load_folder(source)
    out = Path(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} is there already and not an empty folder; give another name")
    out.mkdir(parents=True, exist_ok=True)
    save_model(model, str(out / "model.safetensors"))  # tied weights stand once
    config = {"imported": {"format": FORMAT, **describe(model), "info": asdict(info)}}
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    if tokenizer is not None:
        shutil.copyfile(tokenizer, out / "tokenizer.json")
    for file in side_files(Path(source)):
        (out / SIDE).mkdir(exist_ok=True)
        shutil.copyfile(file, out / SIDE / file.name)
    parameters = sum(p.numel() for p in model.parameters())
    return f"{info}\n{parameters:,} parameters -> {out}"


def load(folder: str | Path) -> tuple[nn.Module, Info]:
    """The model of a folder that `save` wrote."""
    folder = Path(folder)
    file = folder / "model.safetensors"
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))["imported"]
        if config["format"] != FORMAT:
            raise ValueError
        family, info = FAMILIES[config["family"]], Info(**config["info"])
        model = family.MODEL(family.Config(**config["config"]))
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(f"{folder} is not a folder that this `regard import` wrote") from None
    try:
        load_model(model, file, strict=True)
    except (OSError, SafetensorError) as problem:
        raise UserError(f"{file} cannot be read: {problem}") from None
    except RuntimeError:  # of torch, a line for each tensor
        raise UserError(f"{file} does not fit the config.json beside it; import the folder again") from None
    return model.eval(), info


def export(folder: str | Path, out: str | Path) -> str:
    """Write an imported model back as a Hugging Face folder with the same weights."""
    model, info = load(folder)
    tokenizer = Path(folder) / "tokenizer.json"
    save_folder(model, out, info=info, tokenizer=tokenizer if tokenizer.is_file() else None)
    for file in side_files(Path(folder) / SIDE):
        shutil.copyfile(file, Path(out) / file.name)
    return f"{info.family}: {len(info.loaded)} tensors -> {out}"
