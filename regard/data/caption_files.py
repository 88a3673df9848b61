"""Images (or their features) with captions: a table of file name and caption (.tsv, .csv, also .gz), or COCO's JSON.

Captions are compared as words: letter case and punctuation are removed, as is usual for captions (Karpathy & Fei-Fei
2015). Captions without an image, images without a caption and empty captions are skipped and reported.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import re
import unicodedata
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard.data import image_files, image_source
from regard.data.image_files import NoteCounter
from regard.data.read_table import decode_utf8
from regard.errors import UserError

_WORD_BREAK = re.compile(r"['-]{2,}|(?<!\d)[.,]|[.,](?!\d)")
"""Punctuation that separates words: two or more apostrophes or hyphens, and a point or comma outside a number."""
_CAPTION_NUMBER = re.compile(r"#\d+$")  # Flickr8k's table numbers the captions of an image


@dataclass(frozen=True)
class CaptionedImages:
    """Images and their captions.

    Attributes:
        images: (n, size, size, 3) uint8, or features (n, rows, columns, width).
        names: File name of each image.
        captions: The captions of each image, normalized by `normalize_caption`.
        notes: Messages about skipped files and captions.
        fingerprint: Hash of the contents.
    """

    images: np.ndarray
    names: list[str]
    captions: list[list[str]]
    notes: list[str]
    fingerprint: str

    def __len__(self) -> int:
        return len(self.names)

    def subset(self, rows: Sequence[int]) -> CaptionedImages:
        """Return the images with these row numbers."""
        return CaptionedImages(
            image_files.take_rows(self.images, rows),
            [self.names[i] for i in rows],
            [self.captions[i] for i in rows],
            [],
            self.fingerprint,
        )


def normalize_caption(text: str) -> str:
    """Lowercase a caption and keep its words, separated by single spaces.

    A word consists of letters, digits and combining marks, with apostrophes and hyphens inside.
    """
    text = _WORD_BREAK.sub(" ", unicodedata.normalize("NFC", text).lower().replace("’", "'"))
    text = "".join(c if c.isalnum() or c in "'-.," or unicodedata.category(c)[0] == "M" else " " for c in text)
    return " ".join(word for part in text.split() if (word := part.strip("'-.,")))


def read_captioned_images(
    images: str | Path, captions: str | Path, size: int, on_progress: Callable[[int], Any] | None = None
) -> CaptionedImages:
    """Read all images that have a caption, in the order of their first caption.

    Args:
        images: Folder, zip or feature file.
        captions: Caption file, see the module docstring.
        size: Images are resized to (size, size).
        on_progress: Called with the number of images read so far.
    """
    rows, fingerprint = read_captions(captions)
    source, notes = image_source.open_image_source(images), NoteCounter()
    captions_of: dict[str, list[str]] = {}
    for name, text in rows:
        caption = normalize_caption(text)
        image_name = source.find(name)
        if not caption:
            notes.add("captions are empty and are skipped", name)
        elif image_name is None:
            notes.add("captions have no image and are skipped", name)
        else:
            captions_of.setdefault(image_name, []).append(caption)
    if not captions_of:
        raise UserError(
            f"no caption of {captions} names an image of {images}: the captions name "
            f"{image_files.format_names([name for name, _ in rows])}, the images are "
            f"{image_files.format_names(source.names)}"
        )
    for name in source.names:
        if name not in captions_of:
            notes.add("images have no caption and are skipped", name)
    array = image_source.read_images_or_features(source, captions_of, size, on_progress)
    return CaptionedImages(
        array.array,
        array.names,
        [captions_of[name] for name in array.names],
        [*array.notes, *notes.lines()],
        f"{array.fingerprint}{fingerprint}",
    )


def read_captions(path: str | Path) -> tuple[list[tuple[str, str]], str]:
    """Read a caption file. Returns pairs of file name and caption, and a fingerprint of the file."""
    path = Path(path)
    raw = _read_unzipped(path, "caption file")
    text = decode_utf8(raw, str(path))
    fingerprint = hashlib.blake2b(raw, digest_size=16).hexdigest()
    suffix = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    rows = _parse_coco(text, path) if suffix.lower() == ".json" else _parse_rows(text, path, suffix.lower())
    if not rows:
        raise UserError(f"{path} contains no captions; expected lines of a file name, a tab and a caption")
    return rows, fingerprint


def _parse_rows(text: str, path: Path, suffix: str) -> list[tuple[str, str]]:
    if suffix == ".csv":
        try:
            cells = list(csv.reader(io.StringIO(text)))
        except csv.Error as error:
            raise UserError(f"{path} is not a valid CSV file: {error}; is a quotation mark not closed?") from None
    else:
        cells = [line.rstrip("\r").split("\t") for line in text.split("\n")]
    rows = [row for row in cells if row and any(map(str.strip, row))]
    incomplete = next((row for row in rows if len(row) < 2), None)
    if incomplete is not None:
        raise UserError(
            f"{path}: expected a file name, a {'comma' if suffix == '.csv' else 'tab'} and a caption on each line, got "
            f"{' '.join(incomplete)[:60]!r}"
        )
    column, width = None, 0
    if rows and rows[0][0].strip().lower() in ("image", "file", "image_name", "filename", "file_name"):
        header = [cell.strip().lower() for cell in rows[0]]
        column = next((i for i, name in enumerate(header) if name in ("caption", "captions", "text", "comment")), None)
        rows, width = rows[1:], len(header)
    if column is None and suffix == ".csv" and len({len(row) for row in rows}) == 1:
        column, width = len(rows[0]) - 1, len(rows[0])  # there may be a number between the file and its caption
    if column is None:
        column, width = 1, 2
    separator = "," if suffix == ".csv" else "\t"
    # A row with more cells than columns has an unquoted caption that contains the separator.
    return [
        (_CAPTION_NUMBER.sub("", row[0].strip()), separator.join(row[column : len(row) - width + column + 1]))
        for row in rows
    ]


def _parse_coco(text: str, path: Path) -> list[tuple[str, str]]:
    """Parse {"images": [{"id", "file_name"}], "annotations": [{"image_id", "caption"}]} (Chen et al. 2015)."""
    try:
        tree = json.loads(text)
        names = {image["id"]: str(image["file_name"]) for image in tree["images"]}
        rows = [(names.get(a["image_id"], f"image {a['image_id']}"), a["caption"] or "") for a in tree["annotations"]]
        if invalid := [caption for _, caption in rows if not isinstance(caption, str)]:
            raise TypeError(f"a caption is not a string: {str(invalid[0])[:60]}")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(
            f"{path} is not COCO's JSON, an object with images (id, file_name) and annotations (image_id, caption): "
            f"{type(error).__name__} {error}"
        ) from None
    return rows


WordBox = tuple[int, tuple[float, float, float, float]]
"""Index of a word in the caption, and the bounding box (left, top, right, bottom) of the object that it names."""


def read_boxes(path: str | Path) -> dict[str, list[WordBox]]:
    """Read the bounding boxes of caption words, by image name.

    A line has a file name, the index of a word from 0, left, top, right and bottom, separated by tabs. Coordinates are
    fractions of width and height.
    """
    boxes: dict[str, list[WordBox]] = {}
    text = decode_utf8(_read_unzipped(Path(path), "box file"), str(path))
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            name, word, *corners = line.rstrip("\r").split("\t")
            left, top, right, bottom = map(float, corners)
            if int(word) < 0 or not (left < right and top < bottom):
                raise ValueError
            boxes.setdefault(name, []).append((int(word), (left, top, right, bottom)))
        except ValueError:
            raise UserError(
                f"{path}, line {number}: expected a file name, the index of a word and a box (left, top, right, "
                f"bottom), separated by tabs, got {line[:60]!r}"
            ) from None
    if not boxes:
        raise UserError(f"{path} contains no boxes")
    return boxes


def read_boxes_of_images(path: str | Path, names: Sequence[str]) -> tuple[list[list[WordBox]], int]:
    """Read the boxes of these images; the file may name an image with or without its folder.

    Returns:
        The boxes of each image, and the number of boxes that belong to no image.
    """
    source = image_files.ImageSource(Path(path), list(names), lambda name: None)
    boxes_of: dict[str, list[WordBox]] = {}
    num_unmatched = 0
    for name, rows in read_boxes(path).items():
        if (image_name := source.find(name)) is None:
            num_unmatched += len(rows)
        else:
            boxes_of.setdefault(image_name, []).extend(rows)
    return [boxes_of.get(name, []) for name in names], num_unmatched


def _read_unzipped(path: Path, description: str) -> bytes:
    try:
        raw = path.read_bytes()
        return gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    except FileNotFoundError:
        raise UserError(f"no such {description}: {str(path)!r}") from None
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"cannot read the {description} {path}: {error}") from None
