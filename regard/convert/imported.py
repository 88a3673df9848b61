"""An imported model as a folder of ours: config.json, model.safetensors under regard's names, tokenizer.json."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path

from safetensors.torch import load_file, save_file
from torch import nn

from regard.convert.folder import FAMILIES, Info, describe, load_folder, save_folder
from regard.errors import UserError

FORMAT = 1


def save(source: str | Path, out: str | Path) -> str:
    """Import a Hugging Face folder into `out`; what was loaded, skipped and new, in words."""
    model, tokenizer, info = load_folder(source)
    out = Path(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} is there already and not an empty folder; give another name")
    out.mkdir(parents=True, exist_ok=True)
    state = model.state_dict()
    kept, seen = {}, set()
    for name, tensor in state.items():  # tied weights stand once
        if tensor.data_ptr() not in seen:
            kept[name] = tensor.detach().contiguous().clone()
        seen.add(tensor.data_ptr())
    save_file(kept, out / "model.safetensors")
    config = {"format": FORMAT, "imported": {**describe(model), "info": asdict(info)}}
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    if tokenizer is not None:
        shutil.copyfile(tokenizer, out / "tokenizer.json")
    parameters = sum(p.numel() for p in model.parameters())
    return f"{info}\n{parameters:,} parameters -> {out}"


def load(folder: str | Path) -> tuple[nn.Module, Info]:
    """The model of a folder that `save` wrote."""
    folder = Path(folder)
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))["imported"]
        family = FAMILIES[config["family"]]
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(f"{folder} is not a folder that `regard import` wrote") from None
    model = family.MODEL(family.Config(**config["config"]))
    missing, strange = model.load_state_dict(load_file(folder / "model.safetensors"), strict=False)
    tied = {name for name, _ in model.named_parameters()}
    if strange or any(name in tied for name in missing):
        raise UserError(f"{folder}/model.safetensors does not fit its config.json")
    return model.eval(), Info(**config["info"])


def export(folder: str | Path, out: str | Path) -> str:
    """Write an imported model back as a Hugging Face folder with the same weights."""
    model, info = load(folder)
    tokenizer = Path(folder) / "tokenizer.json"
    save_folder(model, out, info=info, tokenizer=tokenizer if tokenizer.is_file() else None)
    return f"{info.family}: {len(info.loaded)} tensors -> {out}"
