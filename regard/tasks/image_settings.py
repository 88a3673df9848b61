"""Settings that the tasks on images share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regard.config.settings import DataSettings, build_dataclass, setting
from regard.config.validation import check_between_0_and_1, check_fraction, check_minimum
from regard.errors import UserError


@dataclass(frozen=True)
class ImageDataSettings(DataSettings):
    """How images are read."""

    size: int = setting(64, "Height and width to which images are resized, in pixels.")
    backbone: str | None = setting(
        None, "timm model that computes frozen features of the images. [a small network, trained too]"
    )
    weights: str | None = setting(None, "File with the weights of the backbone (.safetensors). [the local timm cache]")
    download: bool = setting(False, "Download the weights of the backbone if they are not on this machine.")
    batch: int = setting(64, "Images in a batch.")

    def check(self, **minimums: float) -> None:
        """Raise UserError if a value is out of range."""
        check_between_0_and_1("data.valid_fraction", self.valid_fraction)
        check_minimum("data.", self, size=8, batch=1, **minimums)


@dataclass(frozen=True)
class AugmentSettings:
    """Random changes of the training images."""

    zoom: float = setting(1.0, "Smallest fraction of the side that a crop keeps; 1 for no crop.")
    flip: bool = setting(False, "Mirror half of the images.")
    light: float = setting(0.0, "Largest relative change of brightness, contrast and color.")
    hide: float = setting(
        0.0, "Side of a gray square that covers a part, as a fraction (cutout, DeVries & Taylor 2017)."
    )

    def check(self) -> None:
        """Raise UserError if a value is out of range."""
        if not 0 < self.zoom <= 1:
            raise UserError(f"augment.zoom must be greater than 0 and at most 1, not {self.zoom}")
        check_fraction("augment.light", self.light)
        check_fraction("augment.hide", self.hide)


def complete_augment(tree: Mapping[str, Any]) -> dict[str, Any]:
    """The nested mapping of settings with `augment` as a dataclass."""
    augment = tree.get("augment") or {}
    if isinstance(augment, AugmentSettings):
        return dict(tree)
    if not isinstance(augment, Mapping):
        raise UserError(f"augment must be a mapping, such as augment.zoom=0.8, not {augment!r}")
    return {**tree, "augment": build_dataclass(AugmentSettings, augment, where="augment")}
