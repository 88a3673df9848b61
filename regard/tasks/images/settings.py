"""Settings of `images`."""

from __future__ import annotations

from dataclasses import dataclass, field

from regard.config.settings import Settings, setting
from regard.tasks.image_settings import AugmentSettings, ImageDataSettings


@dataclass(frozen=True)
class ImagesDataSettings(ImageDataSettings):
    """Images in one folder per class."""

    train: str = setting("", "Folder or zip file with one subfolder of images, or of features (.npy), per class.")


@dataclass(frozen=True)
class ImagesSettings(Settings):
    """Settings of `images`."""

    augment: AugmentSettings = field(default_factory=AugmentSettings)
    data: ImagesDataSettings = field(default_factory=ImagesDataSettings)
