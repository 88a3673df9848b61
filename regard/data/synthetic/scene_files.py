"""Generated scenes as files: for each part a zip of pictures, its captions, and the boxes of what words name.

Parts:

    train.zip  train.captions.tsv  train.boxes.tsv        valid.*, other scenes of the same pairs
    unseen.*, pairs of things never seen together         strange.*, things never seen
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from pathlib import Path

from regard.data.synthetic.scenes import Scene, generate_scenes


def write_scenes(folder: Path, count: int, *, seed: int = 0, size: int = 64, others: int = 500) -> None:
    """All parts; each scene of each is another."""
    folder.mkdir(parents=True, exist_ok=True)
    whole = generate_scenes(count + others, seed, size=size)
    parts = {"train": whole[:count], "valid": whole[count:]}
    parts |= {part: generate_scenes(others, seed, size=size, part=part) for part in ("unseen", "strange")}
    for name, scenes in parts.items():
        _part(folder, name, scenes, size)


def _part(folder: Path, part: str, scenes: Sequence[Scene], size: int) -> None:
    from PIL import Image

    names = [f"{part}{i:06d}.png" for i in range(len(scenes))]
    with zipfile.ZipFile(folder / f"{part}.zip", "w") as archive:
        for name, scene in zip(names, scenes, strict=True):
            file = io.BytesIO()
            Image.fromarray(scene.picture).save(file, "PNG", compress_level=1)
            archive.writestr(zipfile.ZipInfo(name), file.getvalue())  # no date: the same seed writes the same bytes
    lines = [f"{name}\t{scene.sentence}\n" for name, scene in zip(names, scenes, strict=True)]
    (folder / f"{part}.captions.tsv").write_text("".join(lines), encoding="utf-8")
    boxes = [
        "\t".join((name, str(word), *(f"{edge / size:.5f}" for edge in box))) + "\n"
        for name, scene in zip(names, scenes, strict=True)
        for word, box in scene.named
    ]
    (folder / f"{part}.boxes.tsv").write_text("".join(boxes), encoding="utf-8")
