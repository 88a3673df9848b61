"""Checkpoints: complete or not there, and free of pickle.

    state/step-0000120/
        model.safetensors       the weights, tied ones once
        optimizer.safetensors   the tensors of the optimizer states
        ema.safetensors         the average of the weights, if there is one
        rng-0.safetensors       the random states of each process
        state.json              step, epoch, ..., and the other values of the optimizer states
        manifest.json           size and sha256 of each of them, written last

A checkpoint is written under a temporary name, synced to disk and renamed. One that does not match its manifest is not
used.
"""

from __future__ import annotations

import contextlib
import fnmatch
import json
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from regard.config.owned_folders import remove_files
from regard.errors import UserError
from regard.training import atomic_write

logger = logging.getLogger(__name__)

KEEP_CHECKPOINTS = 2
_MANIFEST = "manifest.json"
CHECKPOINT_FILES = ("*.safetensors", "state.json", _MANIFEST)


@dataclass
class Checkpoint:
    """The state of a run: weights, optimizer state dicts, random states of each process, and `TrainState` values."""

    model: dict[str, Tensor]
    optimizers: list[dict[str, Any]]
    rng: list[dict[str, Tensor]]
    state: dict[str, Any]
    ema: dict[str, Tensor] | None = None


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> Path:
    """Write a checkpoint into a run folder, then remove all but the newest two. Its step is `state["step"]`."""
    name = f"step-{checkpoint.state['step']:07d}"
    final = folder / "state" / name
    tmp = folder / "state" / f"{name}.tmp"
    tensors, scalars = flatten_optimizer_states(checkpoint.optimizers)
    files = {
        "model.safetensors": to_bytes(checkpoint.model),
        "optimizer.safetensors": to_bytes(tensors),
        **({} if checkpoint.ema is None else {"ema.safetensors": to_bytes(checkpoint.ema)}),
        **{f"rng-{rank}.safetensors": to_bytes(states) for rank, states in enumerate(checkpoint.rng)},
        "state.json": _encode_json({**checkpoint.state, "optimizers": scalars}),
    }
    try:
        with atomic_write.explain_full_disk(final.parent, sum(map(len, files.values()))):
            _remove_checkpoint(tmp)
            tmp.mkdir(parents=True, exist_ok=True)
            manifest = {name: atomic_write.write_synced(tmp / name, content) for name, content in files.items()}
            atomic_write.write_synced(tmp / _MANIFEST, _encode_json(manifest))
            atomic_write.sync_folder(tmp)
            _remove_checkpoint(final)  # written again after resuming from an older one
            if final.exists():  # it holds a file of the user
                for name in (*files, _MANIFEST):
                    os.replace(tmp / name, final / name)
                tmp.rmdir()
            else:
                os.rename(tmp, final)
            atomic_write.sync_folder(final.parent)
    except BaseException:
        _remove_checkpoint(tmp)
        raise
    for old in _list_checkpoints(folder)[:-KEEP_CHECKPOINTS]:
        _remove_checkpoint(old)
    return final


def find_latest_checkpoint(folder: Path) -> Path | None:
    """The newest undamaged checkpoint; None if none was written. Raises if all are damaged."""
    checkpoints = _list_checkpoints(folder)
    for path in reversed(checkpoints):
        damage = find_damage(path)
        if damage is None:
            return path
        logger.warning(f"checkpoint {path} is damaged ({damage}) and is skipped")
    if checkpoints:
        raise UserError(
            f"all checkpoints in {folder / 'state'} are damaged; remove that folder and train from the start"
        )
    return None


def find_damage(path: Path) -> str | None:
    """What is wrong with a checkpoint; None if it matches its manifest."""
    try:
        manifest = json.loads((path / _MANIFEST).read_text(encoding="utf-8"))
        for name, expected in manifest.items():
            file = path / name
            if not file.is_file():
                return f"{name} is missing"
            if file.stat().st_size != expected["size"]:
                return f"{name} has {file.stat().st_size} bytes, not {expected['size']}"
            if atomic_write.sha256_of(file) != expected["sha256"]:
                return f"{name} was changed"
        if "state.json" not in manifest:
            return "the manifest names no state.json"
    except FileNotFoundError:
        return "it has no manifest"
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as problem:
        return f"the manifest cannot be read: {problem}"
    return None


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint."""
    state = json.loads((path / "state.json").read_text(encoding="utf-8"))
    ranks = sorted(path.glob("rng-*.safetensors"), key=lambda file: int(file.stem.removeprefix("rng-")))
    return Checkpoint(
        model=read_tensors(path / "model.safetensors"),
        optimizers=unflatten_optimizer_states(read_tensors(path / "optimizer.safetensors"), state.pop("optimizers")),
        rng=[read_tensors(file) for file in ranks],
        state=state,
        ema=read_tensors(path / "ema.safetensors") if (path / "ema.safetensors").exists() else None,
    )


def remove_newer_checkpoints(folder: Path, step: int) -> None:
    """Remove checkpoints after a step (damaged, since they were not used) and unfinished ones."""
    for path in _list_checkpoints(folder):
        if int(path.name.removeprefix("step-")) > step:
            _remove_checkpoint(path)
    for path in (folder / "state").glob("step-*.tmp"):
        _remove_checkpoint(path)


def _remove_checkpoint(path: Path) -> None:
    """Remove the files of a checkpoint, and its folder unless it also holds files of the user."""
    remove_files(path, CHECKPOINT_FILES)
    with contextlib.suppress(OSError):
        path.rmdir()


def _list_checkpoints(folder: Path) -> list[Path]:
    """The checkpoints of a run folder, oldest first. A folder that holds only files of the user is not one."""
    paths = [p for p in (folder / "state").glob("step-*") if p.name.removeprefix("step-").isdigit() and p.is_dir()]
    names = {path: [file.name for file in path.iterdir()] for path in paths}
    paths = [p for p in paths if not names[p] or any(fnmatch.filter(names[p], f) for f in CHECKPOINT_FILES)]
    return sorted(paths, key=lambda p: int(p.name.removeprefix("step-")))


# Weights ----------------------------------------------------------------------------------------------------------


def drop_tied_tensors(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A state dict in which tied tensors (the same memory under several names) are kept once, under the first name."""
    seen: set[tuple] = set()
    unique = {}
    for name, tensor in state.items():
        location = (tensor.device, tensor.data_ptr(), tensor.shape, tensor.stride())
        if tensor.numel() and location in seen:
            continue
        seen.add(location)
        unique[name] = tensor
    return unique


def save_weights(path: Path, state: Mapping[str, Tensor]) -> None:
    """Write weights as safetensors, replacing the file."""
    atomic_write.replace_file(path, to_bytes(drop_tied_tensors(state)))


def load_weights(model: nn.Module, weights: Path | Mapping[str, Tensor]) -> None:
    """Load weights into a model in place. Tied tensors may have any of their names."""
    tensors = read_tensors(weights) if isinstance(weights, Path) else weights
    state = model.state_dict()
    names_by_address: dict[int, list[str]] = {}
    for name, tensor in state.items():
        names_by_address.setdefault(tensor.data_ptr() if tensor.numel() else id(tensor), []).append(name)
    missing = [names[0] for names in names_by_address.values() if not any(name in tensors for name in names)]
    shapes = [
        f"{name}: {tuple(tensors[name].shape)}, not {tuple(state[name].shape)}"
        for name in tensors
        if name in state and tensors[name].shape != state[name].shape
    ]
    unknown = [name for name in tensors if name not in state]
    if missing or unknown or shapes:
        problems = [("missing", missing), ("unknown", unknown), ("of another shape", shapes)]
        details = "; ".join(f"{word}: {', '.join(names[:3])}" for word, names in problems if names)
        raise UserError(f"the weights do not fit the model ({details}); use the settings that they were trained with")
    with torch.no_grad():
        for name, tensor in tensors.items():
            state[name].copy_(tensor)


def to_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    return safetensors.torch.save({name: t.detach().cpu().contiguous() for name, t in tensors.items()})


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a file, copied, so that results do not depend on their alignment in the file."""
    try:
        return {name: tensor.clone() for name, tensor in safetensors.torch.load_file(path).items()}
    except FileNotFoundError:
        raise UserError(f"no weights at {path}; is this a run folder?") from None
    except (safetensors.SafetensorError, OSError, ValueError) as problem:
        raise UserError(f"{path} is not a valid safetensors file ({problem})") from None


# Optimizers -------------------------------------------------------------------------------------------------------


def flatten_optimizer_states(states: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Tensor], list[dict[str, Any]]]:
    """State dicts of torch optimizers as named tensors (`optimizer/parameter/name`) and JSON values."""
    tensors: dict[str, Tensor] = {}
    scalars = []
    for index, state in enumerate(states):
        other_values: dict[str, dict[str, Any]] = {}
        for key, entries in state["state"].items():
            other_values[str(key)] = {}
            for name, value in entries.items():
                if isinstance(value, Tensor):
                    tensors[f"{index}/{key}/{name}"] = value
                else:
                    other_values[str(key)][name] = value
        groups = [{name: _to_json_value(value) for name, value in group.items()} for group in state["param_groups"]]
        scalars.append({"state": other_values, "param_groups": groups})
    return tensors, scalars


def unflatten_optimizer_states(
    tensors: Mapping[str, Tensor], scalars: Iterable[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The inverse of `flatten_optimizer_states`. Tuples stay tuples."""
    states = []
    for index, other_values in enumerate(scalars):
        state = {_key(key): dict(entries) for key, entries in other_values["state"].items()}
        for path, tensor in tensors.items():
            owner, key, name = path.split("/", 2)
            if int(owner) == index:
                state[_key(key)][name] = tensor
        groups = [
            {name: _from_json_value(value) for name, value in group.items()} for group in other_values["param_groups"]
        ]
        states.append({"state": state, "param_groups": groups})
    return states


def _key(text: str) -> int | str:
    return int(text) if text.isdigit() else text


def _to_json_value(value: Any) -> Any:
    if isinstance(value, tuple):
        return {"tuple": [_to_json_value(v) for v in value]}
    if isinstance(value, Tensor):  # a learning rate may be a tensor
        return value.item()
    return value


def _from_json_value(value: Any) -> Any:
    return tuple(map(_from_json_value, value["tuple"])) if isinstance(value, dict) and "tuple" in value else value


def _encode_json(value: Any) -> bytes:
    return (json.dumps(value, indent=1) + "\n").encode()
