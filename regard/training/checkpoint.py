"""Checkpoints: whole or not there, and free of pickle.

    state/step-0000120/
        model.safetensors       the weights, tied ones once
        optimizer.safetensors   the tensors of the optimizers' states
        average.safetensors     the average of the weights, where one is kept
        rng-0.safetensors       the random states of each process
        state.json              the numbers: where the run stands, and the rest of the optimizers' states
        manifest.json           size and sha256 of each of them, written last

A checkpoint is written under another name, forced to disk and renamed; one whose manifest does not hold is not taken.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from regard.errors import UserError
from regard.training import atomic_write

logger = logging.getLogger(__name__)

KEEP = 2
_MANIFEST = "manifest.json"


@dataclass
class Checkpoint:
    """Where a run stands: weights, optimizers' states (`state_dict`s), random states of each process, and numbers."""

    model: dict[str, Tensor]
    optimizers: list[dict[str, Any]]
    rng: list[dict[str, Tensor]]
    state: dict[str, Any]
    ema: dict[str, Tensor] | None = None


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> Path:
    """Write a checkpoint of a run folder, then remove all but the newest two. Its step is `state["step"]`."""
    name = f"step-{checkpoint.state['step']:07d}"
    final = folder / "state" / name
    tmp = folder / "state" / f"{name}.tmp"
    tensors, scalars = flatten_optimizer_states(checkpoint.optimizers)
    files = {
        "model.safetensors": to_bytes(checkpoint.model),
        "optimizer.safetensors": to_bytes(tensors),
        **({} if checkpoint.ema is None else {"average.safetensors": to_bytes(checkpoint.ema)}),
        **{f"rng-{rank}.safetensors": to_bytes(states) for rank, states in enumerate(checkpoint.rng)},
        "state.json": _json({**checkpoint.state, "optimizers": scalars}),
    }
    try:
        with atomic_write.explain_full_disk(final.parent, sum(map(len, files.values()))):
            shutil.rmtree(tmp, ignore_errors=True)
            tmp.mkdir(parents=True)
            manifest = {name: atomic_write.write_synced(tmp / name, content) for name, content in files.items()}
            atomic_write.write_synced(tmp / _MANIFEST, _json(manifest))
            atomic_write.sync_folder(tmp)
            if final.exists():  # written again after falling back to an older one
                shutil.rmtree(final)
            os.rename(tmp, final)
            atomic_write.sync_folder(final.parent)
    except BaseException:
        shutil.rmtree(tmp, ignore_errors=True)
        raise
    for old in _numbered(folder)[:-KEEP]:
        shutil.rmtree(old, ignore_errors=True)
    return final


def find_latest_checkpoint(folder: Path) -> Path | None:
    """The newest whole checkpoint of a run folder; None where none was ever written; an error where none is whole."""
    found = _numbered(folder)
    for path in reversed(found):
        trouble = find_damage(path)
        if trouble is None:
            return path
        logger.warning(f"the checkpoint {path} is damaged ({trouble}) and is left out")
    if found:
        raise UserError(f"no checkpoint in {folder / 'state'} is whole; remove that folder and train from the start")
    return None


def find_damage(path: Path) -> str | None:
    """What is wrong with a checkpoint, or None where its manifest holds."""
    try:
        manifest = json.loads((path / _MANIFEST).read_text(encoding="utf-8"))
        for name, wanted in manifest.items():
            file = path / name
            if not file.is_file():
                return f"{name} is missing"
            if file.stat().st_size != wanted["size"]:
                return f"{name} has {file.stat().st_size} bytes, not {wanted['size']}"
            if atomic_write.sha256_of(file) != wanted["sha256"]:
                return f"{name} was changed"
        if "state.json" not in manifest:
            return "the manifest names no state.json"
    except FileNotFoundError:
        return "it has no manifest"
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as problem:
        return f"the manifest cannot be read: {problem}"
    return None


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a whole checkpoint."""
    state = json.loads((path / "state.json").read_text(encoding="utf-8"))
    ranks = sorted(path.glob("rng-*.safetensors"), key=lambda file: int(file.stem.removeprefix("rng-")))
    return Checkpoint(
        model=read_tensors(path / "model.safetensors"),
        optimizers=unflatten_optimizer_states(read_tensors(path / "optimizer.safetensors"), state.pop("optimizers")),
        rng=[read_tensors(file) for file in ranks],
        state=state,
        ema=read_tensors(path / "average.safetensors") if (path / "average.safetensors").exists() else None,
    )


def remove_newer_checkpoints(folder: Path, step: int) -> None:
    """Remove what is newer than a step (damaged, since it was not taken) and what was left half-written."""
    for path in _numbered(folder):
        if int(path.name.removeprefix("step-")) > step:
            shutil.rmtree(path, ignore_errors=True)
    for path in (folder / "state").glob("step-*.tmp"):
        shutil.rmtree(path, ignore_errors=True)


def _numbered(folder: Path) -> list[Path]:
    """The checkpoints of a run folder by their names, oldest first."""
    paths = [p for p in (folder / "state").glob("step-*") if p.name.removeprefix("step-").isdigit() and p.is_dir()]
    return sorted(paths, key=lambda p: int(p.name.removeprefix("step-")))


# Weights ----------------------------------------------------------------------------------------------------------


def drop_tied_tensors(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A state dict in which tied tensors, the same memory under several names, stand once, under the first name."""
    seen: set[tuple] = set()
    kept = {}
    for name, tensor in state.items():
        place = (tensor.device, tensor.data_ptr(), tensor.shape, tensor.stride())
        if tensor.numel() and place in seen:
            continue
        seen.add(place)
        kept[name] = tensor
    return kept


def save_weights(path: Path, state: Mapping[str, Tensor]) -> None:
    """Write weights as safetensors in the place of those that are there."""
    atomic_write.replace_file(path, to_bytes(drop_tied_tensors(state)))


def load_weights(model: nn.Module, weights: Path | Mapping[str, Tensor]) -> None:
    """Read weights into a model of the same shape, in place; tied tensors may stand under any of their names."""
    given = read_tensors(weights) if isinstance(weights, Path) else weights
    own = model.state_dict()
    places: dict[int, list[str]] = {}
    for name, tensor in own.items():
        places.setdefault(tensor.data_ptr() if tensor.numel() else id(tensor), []).append(name)
    missing = [names[0] for names in places.values() if not any(name in given for name in names)]
    shapes = [
        f"{name}: {tuple(given[name].shape)}, not {tuple(own[name].shape)}"
        for name in given
        if name in own and given[name].shape != own[name].shape
    ]
    strange = [name for name in given if name not in own]
    if missing or strange or shapes:
        what = [("missing", missing), ("unknown", strange), ("of another shape", shapes)]
        said = "; ".join(f"{word}: {', '.join(names[:3])}" for word, names in what if names)
        raise UserError(f"the weights are not of this model ({said}); use the settings that they were trained with")
    with torch.no_grad():
        for name, tensor in given.items():
            own[name].copy_(tensor)


def to_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    return safetensors.torch.save({name: t.detach().cpu().contiguous() for name, t in tensors.items()})


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a file, each in memory of its own (so that results do not hang on its place in the file)."""
    try:
        return {name: tensor.clone() for name, tensor in safetensors.torch.load_file(path).items()}
    except FileNotFoundError:
        raise UserError(f"no weights at {path}; is this a run folder?") from None
    except (safetensors.SafetensorError, OSError, ValueError) as problem:
        raise UserError(f"{path} is not a whole safetensors file ({problem})") from None


# Optimizers -------------------------------------------------------------------------------------------------------


def flatten_optimizer_states(states: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Tensor], list[dict[str, Any]]]:
    """The state dicts of any torch optimizers as named tensors (`optimizer/parameter/name`) and JSON for the rest."""
    tensors: dict[str, Tensor] = {}
    scalars = []
    for number, state in enumerate(states):
        rest: dict[str, dict[str, Any]] = {}
        for key, entries in state["state"].items():
            rest[str(key)] = {}
            for name, value in entries.items():
                if isinstance(value, Tensor):
                    tensors[f"{number}/{key}/{name}"] = value
                else:
                    rest[str(key)][name] = value
        groups = [{name: _plain(value) for name, value in group.items()} for group in state["param_groups"]]
        scalars.append({"state": rest, "param_groups": groups})
    return tensors, scalars


def unflatten_optimizer_states(tensors: Mapping[str, Tensor], scalars: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The inverse of `flatten`. Tuples come back as tuples."""
    states = []
    for number, rest in enumerate(scalars):
        state = {_key(key): dict(entries) for key, entries in rest["state"].items()}
        for path, tensor in tensors.items():
            owner, key, name = path.split("/", 2)
            if int(owner) == number:
                state[_key(key)][name] = tensor
        groups = [{name: _whole(value) for name, value in group.items()} for group in rest["param_groups"]]
        states.append({"state": state, "param_groups": groups})
    return states


def _key(text: str) -> int | str:
    return int(text) if text.isdigit() else text


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return {"tuple": [_plain(v) for v in value]}
    if isinstance(value, Tensor):  # a learning rate may be a tensor
        return value.item()
    return value


def _whole(value: Any) -> Any:
    return tuple(map(_whole, value["tuple"])) if isinstance(value, dict) and "tuple" in value else value


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=1) + "\n").encode()
