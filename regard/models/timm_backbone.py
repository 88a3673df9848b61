"""Image features from a frozen timm backbone (Wightman 2019), if timm is installed: the grid of its last layer.

Weights are read from safetensors: from a file, or from Hugging Face's cache. Nothing is downloaded unless asked for.
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

WEIGHTS_FILE = "model.safetensors"
BATCH_SIZE = 32
LOG_EVERY = 1000  # images


class Backbone:
    """A frozen timm model.

    Args:
        name: Name of the model in timm, such as "resnet18".
        weights: A safetensors file; None for the weights that timm has published.
        size: Height and width of the images.
        download: Whether published weights may be downloaded.
    """

    def __init__(self, name: str, weights: str | None = None, *, size: int, download: bool = False):
        timm = _import_timm()
        if not timm.is_model(name):
            similar = ", ".join(timm.list_models(f"*{name.split('_')[0]}*")[:5]) or "see timm.list_models()"
            raise UserError(f"timm has no model {name!r}; {similar}")
        self.name = name
        self.model: nn.Module = timm.create_model(name, pretrained=False, num_classes=0)
        pretrained: Mapping[str, Any] = self.model.pretrained_cfg  # type: ignore[assignment]
        input_size = tuple(pretrained.get("input_size") or (3, size, size))[-1]
        if pretrained.get("fixed_input_size") and input_size != size:
            raise UserError(f"{name} needs images of {input_size} x {input_size}, not {size}: use --size {input_size}")
        file = Path(weights) if weights is not None else _find_weights(name, pretrained, download)
        self.fingerprint = _load_weights(self.model, file)
        self.model.eval().requires_grad_(False)
        self.mean, self.std = (255 * torch.tensor(pretrained[key], dtype=torch.float32) for key in ("mean", "std"))

    @torch.no_grad()
    def __call__(self, images: np.ndarray) -> np.ndarray:
        """Features of images.

        Args:
            images: (n, size, size, 3), uint8.

        Returns:
            (n, rows, columns, width), float16, mapped from a temporary file.
        """
        shape: tuple[int, ...] = ()
        with tempfile.TemporaryFile() as file:
            for start in range(0, len(images), BATCH_SIZE):
                batch = torch.from_numpy(np.array(images[start : start + BATCH_SIZE])).float()
                features = self.grid((batch - self.mean) / self.std).numpy().astype(np.float16)
                file.write(features.tobytes())
                shape = features.shape[1:]
                if start // LOG_EVERY != (start + len(batch)) // LOG_EVERY:
                    logger.info(f"{self.name}: features of {start + len(batch):,} of {len(images):,} images")
            file.flush()
            return np.memmap(file, np.float16, "r", shape=(len(images), *shape))

    def grid(self, images: Tensor) -> Tensor:
        """Normalized images (b, height, width, 3) to features (b, rows, columns, width), whatever timm's layout."""
        features: Tensor = self.model.forward_features(images.permute(0, 3, 1, 2))  # type: ignore[operator]
        width = int(self.model.num_features)  # type: ignore[arg-type]
        if features.dim() == 3:  # a sequence of patches, after prefix tokens
            features = features[:, int(getattr(self.model, "num_prefix_tokens", 0)) :]
            side = math.isqrt(features.shape[1])
            if side**2 == features.shape[1]:
                return features.unflatten(1, (side, side))
        elif features.dim() == 4 and features.shape[1] == width:
            return features.permute(0, 2, 3, 1)
        elif features.dim() == 4 and features.shape[-1] == width:
            return features
        raise UserError(f"{self.name} has features of shape {tuple(features.shape)}, not a grid; choose another model")


def apply_backbone(
    images: np.ndarray, data: Any, expected_fingerprint: str | None = None
) -> tuple[np.ndarray, str | None]:
    """Images as the model of a run reads them: their features if the run has a backbone.

    Args:
        images: (n, size, size, 3), uint8.
        data: The data settings of the run.
        expected_fingerprint: Fingerprint of the backbone's weights in training; None in training.

    Returns:
        Images or features, and the fingerprint of the backbone's weights.
    """
    if data.backbone is None:
        return images, None
    if images.dtype != np.uint8:
        raise UserError(f"the backbone {data.backbone} needs images, but features were given")
    may_download = data.download and expected_fingerprint is None  # only in training, where it was asked for
    backbone = Backbone(data.backbone, data.weights, size=data.size, download=may_download)
    if expected_fingerprint not in (None, backbone.fingerprint):
        raise UserError(f"the weights of {data.backbone} on this machine are not those that the run was trained with")
    return backbone(images), backbone.fingerprint


def _import_timm() -> Any:
    try:
        return importlib.import_module("timm")
    except ImportError:
        raise UserError(
            "a backbone needs timm, which is not installed: pip install timm. Features that were computed elsewhere do "
            "not need it: pass a .npz or .safetensors file in place of the images"
        ) from None
    except Exception as error:  # mostly a torchvision that does not match torch
        raise UserError(
            f"timm is installed but cannot be imported ({error}); check that torchvision matches torch"
        ) from None


def _find_weights(name: str, pretrained: Mapping[str, Any], download: bool) -> Path:
    """The weights that timm has published, from the cache or downloaded."""
    repository = pretrained.get("hf_hub_id")
    if not repository:
        raise UserError(f"timm has no weights of {name} on Hugging Face; pass a file: --weights FILE.safetensors")
    from huggingface_hub import hf_hub_download, try_to_load_from_cache

    cached = try_to_load_from_cache(repository, WEIGHTS_FILE)
    if isinstance(cached, str):
        return Path(cached)
    if not download:
        raise UserError(
            f"the weights of {name} ({repository}) are not on this machine: pass a file in training with --weights "
            f"FILE.safetensors, or download them with --download or `hf download {repository}`"
        )
    try:
        return Path(hf_hub_download(repository, WEIGHTS_FILE))
    except Exception as error:  # many kinds of network errors
        raise UserError(f"cannot download {repository}/{WEIGHTS_FILE}: {error}") from None


def _load_weights(model: nn.Module, file: Path) -> str:
    """Load the weights and return their fingerprint. A classification head in the file is ignored."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        weights = load_file(file)
    except (SafetensorError, OSError) as error:
        raise UserError(f"cannot read weights from {file}: {error}") from None
    try:
        missing = model.load_state_dict(weights, strict=False).missing_keys
    except RuntimeError as error:
        raise UserError(f"{file} does not fit the backbone: {str(error).splitlines()[-1].strip()}") from None
    if missing:
        raise UserError(f"{file} does not fit the backbone: it lacks {len(missing)} tensors, such as {missing[0]}")
    digest = hashlib.blake2b(digest_size=16)
    for key in sorted(model.state_dict()):
        digest.update(key.encode() + model.state_dict()[key].numpy().tobytes())
    return digest.hexdigest()
