"""A Hugging Face folder on this disk to a regard model, and back.

    model, tokenizer, info = load_folder("all-MiniLM-L6-v2")      # config.json + model.safetensors, also in shards
    save_folder(model, "copy", info=info)                         # the same weights, bit by bit

Nothing is downloaded and nothing is unpickled. `info` says which tensors were loaded, which were not used, and which
parts of the model the folder did not hold and are new.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import safetensors
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from regard.errors import UserError, suggest_choices
from regard.hub import hf_bert, hf_gpt2, hf_marian, hf_t5

FAMILIES: dict[str, ModuleType] = {"bert": hf_bert, "gpt2": hf_gpt2, "marian": hf_marian, "t5": hf_t5}

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"


@dataclass(frozen=True)
class Info:
    """What came of a folder. `loaded` and `skipped` are the file's names, `new` are the model's."""

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
            lines.append(f"{len(self.skipped)} not used: {_few(self.skipped)}")
        if self.new:
            lines.append(f"{len(self.new)} not in the folder, new and untrained: {_few(self.new)}")
        if self.dtypes != ["float32"]:
            lines.append(f"stored as {', '.join(self.dtypes)}, kept as float32 here")
        return "\n".join(lines)


def load_folder(path: str | Path) -> tuple[nn.Module, Path | None, Info]:
    """The model, its tokenizer.json if there is one, and what was loaded, skipped and new."""
    path = Path(path)
    config = _read_config(path)
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise UserError(
            f"{path}/config.json has model_type {kind!r}, which regard does not import; {suggest_choices(str(kind), FAMILIES)}"
        )
    family = FAMILIES[kind]
    file = _read_weights(path)
    stored = sorted({str(t.dtype).removeprefix("torch.") for t in file.values()})
    names = _full_names(file, family)
    state = {names[name]: t.float() if t.is_floating_point() else t for name, t in file.items()}
    ours_config = family.read_config(config, state)
    tied = _untie(state, family.ties(ours_config))
    model = family.MODEL(ours_config)
    ours = family.to_regard(state, ours_config)
    new = _fill(model, ours, path)
    used = {name for pair in family.pairs(ours_config) if pair.ours in ours for name in pair.theirs} | tied
    loaded = [name for name in file if names[name] in used]
    if not loaded:
        raise UserError(
            f"no tensor in {path} has a name that a {kind} model has; the first is {min(file, default=None)!r}"
        )
    skipped = [name for name in file if names[name] not in used]
    bare = any(names[name] != name for name in file)
    tokenizer = path / "tokenizer.json"
    return (
        model.eval(),
        tokenizer if tokenizer.is_file() else None,
        Info(kind, config, loaded, skipped, new, stored, bare),
    )


def save_folder(
    model: nn.Module, path: str | Path, *, info: Info | None = None, tokenizer: str | Path | None = None
) -> Path:
    """Write a Hugging Face folder. With the `info` of the folder that the model came from, its config.json is kept and
    only what was in that folder is written; without it, the whole model with a config.json made from its Config."""
    path = Path(path)
    family = next((f for f in FAMILIES.values() if type(model) is f.MODEL), None)
    if family is None:
        known = ", ".join(f.MODEL.__name__ for f in FAMILIES.values())
        raise UserError(f"a {type(model).__name__} has no Hugging Face counterpart; these have: {known}")
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise UserError(f"{path} is there already and not an empty folder; give another name")
    config = {**family.write_config(model), "dtype": "float32"} if info is None else info.config
    state = family.to_hf(model.state_dict(), model.config)
    if info is not None:
        left_out = {name for pair in family.pairs(model.config) if pair.ours in info.new for name in pair.theirs}
        state = {name: tensor for name, tensor in state.items() if name not in left_out}
    if info is not None and len(info.dtypes) == 1:  # as they were stored; float32 holds float16 and bfloat16 exactly
        stored = {"float16": torch.float16, "bfloat16": torch.bfloat16}.get(info.dtypes[0], torch.float32)
        state = {name: tensor.to(stored) if tensor.is_floating_point() else tensor for name, tensor in state.items()}
    if info is not None and info.bare:
        state = {name.removeprefix(family.PREFIX): tensor for name, tensor in state.items()}
    path.mkdir(parents=True, exist_ok=True)
    save_file({n: t.detach().contiguous().clone() for n, t in state.items()}, path / WEIGHTS, metadata={"format": "pt"})
    (path / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    if tokenizer is not None:
        shutil.copyfile(tokenizer, path / "tokenizer.json")
    return path


def _read_config(path: Path) -> dict[str, Any]:
    file = path / "config.json"
    if not file.is_file():
        raise UserError(f"{path} is not a Hugging Face folder: it has no config.json")
    return _json(file)


def _json(file: Path) -> dict[str, Any]:
    try:
        tree = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise UserError(f"{file} cannot be read as JSON: {problem}") from None
    if not isinstance(tree, dict):
        raise UserError(f"{file} must hold a mapping, and holds a {type(tree).__name__}")
    return tree


def _read_weights(path: Path) -> dict[str, Tensor]:
    """All tensors of the folder, from one file or from shards."""
    if (path / WEIGHTS).is_file():
        return _tensors(path / WEIGHTS)
    if (path / INDEX).is_file():
        places = _json(path / INDEX).get("weight_map")
        if not isinstance(places, dict) or not all(isinstance(shard, str) for shard in places.values()):
            raise UserError(f"{path / INDEX} has no weight_map of names to files")
        state: dict[str, Tensor] = {}
        for shard in sorted(set(places.values())):
            if Path(shard).name != shard:
                raise UserError(f"{path / INDEX} names {shard!r}, which is not a file of this folder")
            state.update(_tensors(path / shard))
        if missing := sorted(set(places) - set(state)):
            raise UserError(f"{path}: the shards do not hold {_few(missing)}, which the index names")
        return state
    if pickled := sorted(f.name for f in path.glob("*.bin")) + sorted(f.name for f in path.glob("*.pt")):
        raise UserError(
            f"{path} holds its weights in {pickled[0]}, which is pickled, and unpickling can run any code. "
            "regard reads safetensors only: convert it where you trust it (transformers: "
            "AutoModel.from_pretrained(folder).save_pretrained(new_folder))"
        )
    raise UserError(f"{path} has no {WEIGHTS}")


def _tensors(file: Path) -> dict[str, Tensor]:
    if not file.is_file():
        raise UserError(f"{file} is missing")
    try:
        return load_file(file)
    except (safetensors.SafetensorError, OSError, ValueError) as problem:
        raise UserError(f"{file} cannot be read: {problem}") from None


def _full_names(file: Mapping[str, Tensor], family: ModuleType) -> dict[str, str]:
    """Names as a model with a head has them: a bare one (BertModel) is written without the prefix."""
    if not family.PREFIX or any(name.startswith(family.PREFIX) for name in file):
        return {name: name for name in file}
    heads = ("cls.", "lm_head.", "classifier.", "final_logits_bias")
    return {name: name if name.startswith(heads) else family.PREFIX + name for name in file}


def _untie(state: dict[str, Tensor], ties: Mapping[str, str]) -> set[str]:
    """Drop the second names of tied tensors, giving back those that were there; they must say the same."""
    found = {alias: name for alias, name in ties.items() if alias in state}
    for alias, name in found.items():
        tensor = state.pop(alias)
        if not torch.equal(state.setdefault(name, tensor), tensor):
            raise UserError(f"{alias} differs from {name}, and regard's model has one tensor for both: not imported")
    return set(found)


def _fill(model: nn.Module, ours: Mapping[str, Tensor], path: Path) -> list[str]:
    """Put the tensors into the model; give back the names of what stays new."""
    parameters = dict(model.named_parameters())
    wrong = [
        f"{name}: {tuple(tensor.shape)}, wanted {tuple(parameters[name].shape)}"
        for name, tensor in ours.items()
        if tensor.shape != parameters[name].shape
    ]
    if wrong:
        raise UserError(f"the weights in {path} do not fit its config.json: {_few(wrong)}")
    with torch.no_grad():
        for name, tensor in ours.items():
            parameters[name].copy_(tensor)
    return [name for name in parameters if name not in ours]


def _few(names: list[str], count: int = 5) -> str:
    more = len(names) - count
    return ", ".join(names[:count]) + (f" and {more} more" if more > 0 else "")


def describe(model: nn.Module) -> dict[str, Any]:
    """Which family a model is of, and its Config, as plain data."""
    for name, family in FAMILIES.items():
        if type(model) is family.MODEL:
            return {"family": name, "config": asdict(model.config)}  # type: ignore[arg-type]
    raise UserError(f"a {type(model).__name__} is of none of the families {', '.join(FAMILIES)}")
