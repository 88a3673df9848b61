"""Features by a backbone of timm (Wightman 2019), where the user has it: the grid of its last layer, frozen.

Weights are read from safetensors: from a file, or from what Hugging Face's cache holds of them. Nothing is fetched
unless that is asked for.
"""

from __future__ import annotations

import hashlib
import importlib
import logging
import math
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.errors import UserError

logger = logging.getLogger(__name__)

FILE = "model.safetensors"
AT_ONCE = 32  # pictures
TOLD = 1000  # pictures between two lines


class Backbone:
    """`Backbone("resnet18")(pictures)` are features (n, rows, columns, width) of pictures (n, size, size, 3) of bytes,
    on disk and of 16 bits."""

    def __init__(self, name: str, weights: str | None = None, *, size: int, download: bool = False):
        timm = _timm()
        if not timm.is_model(name):
            near = ", ".join(timm.list_models(f"*{name.split('_')[0]}*")[:5]) or "see timm.list_models()"
            raise UserError(f"timm has no model {name!r}; {near}")
        self.name = name
        self.net: nn.Module = timm.create_model(name, pretrained=False, num_classes=0)
        about: Mapping[str, Any] = self.net.pretrained_cfg  # type: ignore[assignment]
        wanted = tuple(about.get("input_size") or (3, size, size))[-1]
        if about.get("fixed_input_size") and wanted != size:
            raise UserError(
                f"{name} reads pictures of {wanted} x {wanted}, and they are read at {size}: --size {wanted}"
            )
        file = Path(weights) if weights is not None else _known(name, about, download)
        self.fingerprint = _load(self.net, file)
        self.net.eval().requires_grad_(False)
        self.mean, self.spread = (255 * torch.tensor(about[key], dtype=torch.float32) for key in ("mean", "std"))

    @torch.no_grad()
    def __call__(self, pictures: np.ndarray) -> np.ndarray:
        shape: tuple[int, ...] = ()
        with tempfile.TemporaryFile() as room:
            for first in range(0, len(pictures), AT_ONCE):
                part = torch.from_numpy(np.array(pictures[first : first + AT_ONCE])).float()
                made = self.grid((part - self.mean) / self.spread).numpy().astype(np.float16)
                room.write(made.tobytes())
                shape = made.shape[1:]
                if first // TOLD != (first + len(part)) // TOLD:
                    logger.info(f"{first + len(part):,} of {len(pictures):,} pictures seen by {self.name}")
            room.flush()
            return np.memmap(room, np.float16, "r", shape=(len(pictures), *shape))

    def grid(self, pictures: Tensor) -> Tensor:
        """(b, height, width, 3), normed, to (b, rows, columns, width), however the backbone lays its features out."""
        seen: Tensor = self.net.forward_features(pictures.permute(0, 3, 1, 2))  # type: ignore[operator]
        width = int(self.net.num_features)  # type: ignore[arg-type]
        if seen.dim() == 3:  # places in a row, after tokens that belong to none
            seen = seen[:, int(getattr(self.net, "num_prefix_tokens", 0)) :]
            side = math.isqrt(seen.shape[1])
            if side**2 == seen.shape[1]:
                return seen.unflatten(1, (side, side))
        elif seen.dim() == 4 and seen.shape[1] == width:
            return seen.permute(0, 2, 3, 1)
        elif seen.dim() == 4 and seen.shape[-1] == width:
            return seen
        raise UserError(f"{self.name} gives features of shape {tuple(seen.shape)}, which are no grid; choose another")


def apply_backbone(pictures: np.ndarray, data: Any, known: str | None = None) -> tuple[np.ndarray, str | None]:
    """Pictures as a model reads them, by the settings of a run's data: by its backbone, if it has one, whose weights
    must have the fingerprint `known`, if there is one; and the fingerprint."""
    if data.backbone is None:
        return pictures, None
    if pictures.dtype != np.uint8:
        raise UserError(f"the backbone {data.backbone} reads pictures, and features of them were given")
    asked = data.download and known is None  # it was asked for in training, and not by whoever opens the run
    found = Backbone(data.backbone, data.weights, size=data.size, download=asked)
    if known not in (None, found.fingerprint):
        raise UserError(f"the weights of {data.backbone} on this machine are not those that this run was trained with")
    return found(pictures), found.fingerprint


def _timm() -> Any:
    try:
        return importlib.import_module("timm")
    except ImportError:
        raise UserError(
            "a backbone comes from timm, which is missing: pip install timm. Features that were computed elsewhere "
            "need none: give a .npz or .safetensors of them in place of the pictures"
        ) from None
    except Exception as problem:  # a torchvision that does not fit torch, mostly
        raise UserError(
            f"timm is installed and cannot be imported ({problem}); see that torchvision fits torch"
        ) from None


def _known(name: str, about: Mapping[str, Any], download: bool) -> Path:
    """The weights that timm has published, if they are on this machine, or may be fetched."""
    home = about.get("hf_hub_id")
    if not home:
        raise UserError(
            f"timm knows no weights of {name} on Hugging Face; give a file of them: --weights FILE.safetensors"
        )
    from huggingface_hub import hf_hub_download, try_to_load_from_cache

    found = try_to_load_from_cache(home, FILE)
    if isinstance(found, str):
        return Path(found)
    if not download:
        raise UserError(
            f"the weights of {name} ({home}) are not on this machine: give a file of them in training with "
            f"--weights FILE.safetensors, or fetch them, with --download or once for all by `hf download {home}`"
        )
    try:
        return Path(hf_hub_download(home, FILE))
    except Exception as problem:  # of the network, of many kinds
        raise UserError(f"cannot fetch {home}/{FILE}: {problem}") from None


def _load(net: nn.Module, file: Path) -> str:
    """Weights into the net, and their fingerprint. A head of classes that the net lacks is left out."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        weights = load_file(file)
    except (SafetensorError, OSError) as problem:
        raise UserError(f"cannot read weights from {file}: {problem}") from None
    try:
        missing = net.load_state_dict(weights, strict=False).missing_keys
    except RuntimeError as problem:
        raise UserError(f"{file} does not fit the backbone: {str(problem).splitlines()[-1].strip()}") from None
    if missing:
        raise UserError(f"{file} does not fit the backbone: it lacks {len(missing)} tensors, such as {missing[0]}")
    digest = hashlib.blake2b(digest_size=16)
    for key in sorted(net.state_dict()):
        digest.update(key.encode() + net.state_dict()[key].numpy().tobytes())
    return digest.hexdigest()
