"""A Hugging Face folder on this disk to a regard model, and back.

    model, tokenizer, info = load_folder("all-MiniLM-L6-v2")      # config.json + model.safetensors, also in shards
    save_folder(model, "copy", info=info)                         # the same weights, bit-identical

Nothing is downloaded and nothing is unpickled. `info` lists the tensors that were loaded, those that were not used, and
the parameters of the model that are not in the folder and keep their random initial values.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import safetensors
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from regard.errors import UserError, suggest_choices
from regard.hub.hf_bert import BERT_FAMILY
from regard.hub.hf_family import HFFamily
from regard.hub.hf_gpt2 import GPT2_FAMILY
from regard.hub.hf_marian import MARIAN_FAMILY
from regard.hub.hf_t5 import T5_FAMILY

FAMILIES: dict[str, HFFamily] = {
    "bert": BERT_FAMILY,
    "gpt2": GPT2_FAMILY,
    "marian": MARIAN_FAMILY,
    "t5": T5_FAMILY,
}
"""By Hugging Face's model_type."""

WEIGHTS_FILE, INDEX_FILE = "model.safetensors", "model.safetensors.index.json"


@dataclass(frozen=True)
class ImportInfo:
    """What was imported from a folder.

    Attributes:
        family: Hugging Face's model_type.
        config: The content of config.json.
        loaded: Names of the tensors that were loaded, as in the file.
        skipped: Names of the tensors that were not used, as in the file.
        new: Names of the model's parameters that are not in the file.
        dtypes: Data types of the tensors in the file.
        bare: Whether the file has the tensors of a model without a head.
    """

    family: str
    config: dict[str, Any]
    loaded: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    dtypes: list[str] = field(default_factory=list)
    bare: bool = False

    def __str__(self) -> str:
        lines = [f"{self.family}: {len(self.loaded)} tensors loaded"]
        if self.skipped:
            lines.append(f"{len(self.skipped)} not used: {_shorten(self.skipped)}")
        if self.new:
            lines.append(f"{len(self.new)} not in the folder, initialized at random: {_shorten(self.new)}")
        if self.dtypes != ["float32"]:
            lines.append(f"stored as {', '.join(self.dtypes)}, converted to float32")
        return "\n".join(lines)


def load_folder(path: str | Path) -> tuple[nn.Module, Path | None, ImportInfo]:
    """Load a Hugging Face folder.

    Returns:
        The model in evaluation mode, the path of its tokenizer.json if there is one, and what was loaded.
    """
    path = Path(path)
    hf_config = _read_config(path)
    model_type = hf_config.get("model_type")
    if not isinstance(model_type, str) or model_type not in FAMILIES:
        choices = suggest_choices(str(model_type), FAMILIES)
        raise UserError(f"{path}/config.json: model_type {model_type!r} cannot be imported; {choices}")
    family = FAMILIES[model_type]
    tensors = _read_weights(path)
    dtypes = sorted({str(t.dtype).removeprefix("torch.") for t in tensors.values()})
    full_names = _add_prefix(tensors, family)
    state = {full_names[name]: t.float() if t.is_floating_point() else t for name, t in tensors.items()}
    model = family.build_model(hf_config, state)
    tied = _untie(state, family.tied_names(model.config))
    weights = family.to_regard(state, model.config)
    new = _load_weights(model, weights, path)
    pairs = family.tensor_pairs(model.config)
    used = {name for pair in pairs if pair.name in weights for name in pair.hf_names} | tied
    loaded = [name for name in tensors if full_names[name] in used]
    if not loaded:
        raise UserError(
            f"{path} has no tensor of a {model_type} model; the first name in it is {min(tensors, default=None)!r}"
        )
    skipped = [name for name in tensors if full_names[name] not in used]
    bare = any(full_names[name] != name for name in tensors)
    tokenizer = path / "tokenizer.json"
    info = ImportInfo(model_type, hf_config, loaded, skipped, new, dtypes, bare)
    return model.eval(), tokenizer if tokenizer.is_file() else None, info


def save_folder(
    model: Any, path: str | Path, *, info: ImportInfo | None = None, tokenizer: str | Path | None = None
) -> Path:
    """Save a model as a Hugging Face folder.

    Args:
        model: A BERT, GPT, Marian or T5.
        path: A folder that does not exist or is empty.
        info: The info of the folder that the model was imported from. Its config.json is written again, and only the
            tensors that were in that folder. None writes the whole model, with a config.json made from its config.
        tokenizer: A tokenizer.json that is copied.
    """
    path = Path(path)
    family = next((f for f in FAMILIES.values() if type(model) is f.model_class), None)
    if family is None:
        supported = ", ".join(f.model_class.__name__ for f in FAMILIES.values())
        raise UserError(f"{type(model).__name__} cannot be saved as a Hugging Face model; supported: {supported}")
    check_empty(path)
    hf_config = {**family.write_config(model), "dtype": "float32"} if info is None else info.config
    state = family.to_hf(model.state_dict(), model.config)
    if info is not None:
        new = {name for pair in family.tensor_pairs(model.config) if pair.name in info.new for name in pair.hf_names}
        state = {name: tensor for name, tensor in state.items() if name not in new}
    if info is not None and len(info.dtypes) == 1:  # as it was stored; float32 holds float16 and bfloat16 exactly
        dtype = {"float16": torch.float16, "bfloat16": torch.bfloat16}.get(info.dtypes[0], torch.float32)
        state = {name: tensor.to(dtype) if tensor.is_floating_point() else tensor for name, tensor in state.items()}
    if info is not None and info.bare:
        state = {name.removeprefix(family.prefix): tensor for name, tensor in state.items()}
    path.mkdir(parents=True, exist_ok=True)
    tensors = {name: tensor.detach().contiguous().clone() for name, tensor in state.items()}
    save_file(tensors, path / WEIGHTS_FILE, metadata={"format": "pt"})
    (path / "config.json").write_text(json.dumps(hf_config, indent=2) + "\n", encoding="utf-8")
    if tokenizer is not None:
        shutil.copyfile(tokenizer, path / "tokenizer.json")
    return path


def check_empty(path: Path) -> None:
    """Raise UserError if the path exists and is not an empty folder."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise UserError(f"{path} exists and is not an empty folder; choose another name")


def describe_model(model: Any) -> dict[str, Any]:
    """The family of a model, its vocabulary size and its config, as plain data."""
    for name, family in FAMILIES.items():
        if type(model) is family.model_class:
            return {"family": name, "vocab_size": model.embed.num_embeddings, "config": asdict(model.config)}
    raise UserError(f"{type(model).__name__} does not belong to one of the families {', '.join(FAMILIES)}")


def _read_config(path: Path) -> dict[str, Any]:
    file = path / "config.json"
    if not file.is_file():
        raise UserError(f"{path} is not a Hugging Face folder: it has no config.json")
    return _read_json(file)


def _read_json(file: Path) -> dict[str, Any]:
    try:
        tree = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{file} cannot be read as JSON: {error}") from None
    if not isinstance(tree, dict):
        raise UserError(f"{file} must be a JSON object, not a {type(tree).__name__}")
    return tree


def _read_weights(path: Path) -> dict[str, Tensor]:
    """All tensors of the folder, from one file or from shards."""
    if (path / WEIGHTS_FILE).is_file():
        return _read_tensors(path / WEIGHTS_FILE)
    if (path / INDEX_FILE).is_file():
        return _read_shards(path)
    if pickled := sorted(f.name for f in path.glob("*.bin")) + sorted(f.name for f in path.glob("*.pt")):
        raise UserError(
            f"{path} has its weights in {pickled[0]}, a pickle, and unpickling can run any code. regard reads "
            "safetensors only: convert it where you trust it (transformers: "
            "AutoModel.from_pretrained(folder).save_pretrained(new_folder))"
        )
    raise UserError(f"{path} has no {WEIGHTS_FILE}")


def _read_shards(path: Path) -> dict[str, Tensor]:
    index = path / INDEX_FILE
    weight_map = _read_json(index).get("weight_map")
    if not isinstance(weight_map, dict) or not all(isinstance(shard, str) for shard in weight_map.values()):
        raise UserError(f"{index} has no weight_map of names to files")
    state: dict[str, Tensor] = {}
    for shard in sorted(set(weight_map.values())):
        if Path(shard).name != shard:
            raise UserError(f"{index} names {shard!r}, which is not a file of this folder")
        state.update(_read_tensors(path / shard))
    if missing := sorted(set(weight_map) - set(state)):
        raise UserError(f"{path}: the shards lack {_shorten(missing)}, which the index names")
    return state


def _read_tensors(file: Path) -> dict[str, Tensor]:
    if not file.is_file():
        raise UserError(f"{file} is missing")
    try:
        return load_file(file)
    except (safetensors.SafetensorError, OSError, ValueError) as error:
        raise UserError(f"{file} cannot be read: {error}") from None


def _add_prefix(tensors: Mapping[str, Tensor], family: HFFamily) -> dict[str, str]:
    """Each name to the name in a model with a head: a bare model (BertModel) is saved without the prefix."""
    if not family.prefix or any(name.startswith(family.prefix) for name in tensors):
        return {name: name for name in tensors}
    heads = ("cls.", "lm_head.", "classifier.", "final_logits_bias")
    return {name: name if name.startswith(heads) else family.prefix + name for name in tensors}


def _untie(state: dict[str, Tensor], tied_names: Mapping[str, str]) -> set[str]:
    """Remove the second names of tied tensors from `state` and return them. Both tensors must be equal."""
    aliases = {alias: name for alias, name in tied_names.items() if alias in state}
    for alias, name in aliases.items():
        tensor = state.pop(alias)
        if not torch.equal(state.setdefault(name, tensor), tensor):
            raise UserError(f"cannot import: {alias} differs from {name}, and regard's model has one tensor for both")
    return set(aliases)


def _load_weights(model: nn.Module, weights: Mapping[str, Tensor], path: Path) -> list[str]:
    """Copy the tensors into the model and return the names of its other parameters."""
    parameters = dict(model.named_parameters())
    mismatches = [
        f"{name}: {tuple(tensor.shape)}, expected {tuple(parameters[name].shape)}"
        for name, tensor in weights.items()
        if tensor.shape != parameters[name].shape
    ]
    if mismatches:
        raise UserError(f"the weights in {path} do not fit its config.json: {_shorten(mismatches)}")
    with torch.no_grad():
        for name, tensor in weights.items():
            parameters[name].copy_(tensor)
    return [name for name in parameters if name not in weights]


def _shorten(names: list[str], limit: int = 5) -> str:
    more = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {more} more" if more > 0 else "")
