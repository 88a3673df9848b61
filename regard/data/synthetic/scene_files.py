"""Write generated scenes as files: for each part a zip of images, their captions, and the boxes of caption words.

train.zip  train.captions.tsv  train.boxes.tsv        training scenes
valid.*     other scenes of the same pairs of objects
unseen.*    pairs of objects that never occur together in training
novel.*     objects that never occur in training
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from pathlib import Path

from regard.data.synthetic.scenes import Scene, generate_scenes


def write_scenes(folder: Path, count: int, *, seed: int = 0, size: int = 64, eval_count: int = 500) -> None:
    """Write all parts: `count` training scenes, and `eval_count` scenes in each of the other parts."""
    folder.mkdir(parents=True, exist_ok=True)
    scenes = generate_scenes(count + eval_count, seed, size=size)
    parts = {"train": scenes[:count], "valid": scenes[count:]}
    parts |= {part: generate_scenes(eval_count, seed, size=size, part=part) for part in ("unseen", "novel")}
    for part, scenes in parts.items():
        _write_part(folder, part, scenes, size)


def _write_part(folder: Path, part: str, scenes: Sequence[Scene], size: int) -> None:
    from PIL import Image

    names = [f"{part}{i:06d}.png" for i in range(len(scenes))]
    with zipfile.ZipFile(folder / f"{part}.zip", "w") as archive:
        for name, scene in zip(names, scenes, strict=True):
            file = io.BytesIO()
            Image.fromarray(scene.image).save(file, "PNG", compress_level=1)
            archive.writestr(zipfile.ZipInfo(name), file.getvalue())  # no date: the same seed writes the same bytes
    captions = [f"{name}\t{scene.caption}\n" for name, scene in zip(names, scenes, strict=True)]
    (folder / f"{part}.captions.tsv").write_text("".join(captions), encoding="utf-8")
    boxes = [
        "\t".join((name, str(word), *(f"{edge / size:.5f}" for edge in box))) + "\n"
        for name, scene in zip(names, scenes, strict=True)
        for word, box in scene.word_boxes
    ]
    (folder / f"{part}.boxes.tsv").write_text("".join(boxes), encoding="utf-8")
