"""Pictures (or their features) with their captions: a table of file and caption (.tsv, .csv, also .gz), or COCO's JSON.

Captions are compared as words: letter case and punctuation are put aside, as is usual for captions (Karpathy & Fei-Fei
2015). A caption without its picture, a picture without a caption and an empty caption are counted and named.
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
from regard.data.image_files import Notes
from regard.data.read_table import decode
from regard.errors import UserError

_BETWEEN = re.compile(r"['-]{2,}|(?<!\d)[.,]|[.,](?!\d)")
"""What joins no words: two marks and more, and a point that stands in no number."""
_NUMBERED = re.compile(r"#\d+$")  # Flickr8k's own table numbers the captions of a picture


@dataclass(frozen=True)
class Captioned:
    """pictures (n, size, size, 3) of bytes, or features (n, rows, columns, width), with their names; and the captions
    of each, as words with spaces."""

    pictures: np.ndarray
    names: list[str]
    captions: list[list[str]]
    notes: list[str]
    fingerprint: str

    def __len__(self) -> int:
        return len(self.names)

    def part(self, rows: Sequence[int]) -> Captioned:
        """These pictures."""
        chosen = [self.captions[i] for i in rows]
        return Captioned(
            image_files.part(self.pictures, rows), [self.names[i] for i in rows], chosen, [], self.fingerprint
        )


def clean(text: str) -> str:
    """The words of a caption, in small letters, with single spaces: letters, figures and the marks on them, with
    apostrophes and hyphens inside."""
    plain = _BETWEEN.sub(" ", unicodedata.normalize("NFC", text).lower().replace("’", "'"))
    kept = "".join(c if c.isalnum() or c in "'-.," or unicodedata.category(c)[0] == "M" else " " for c in plain)
    return " ".join(word for part in kept.split() if (word := part.strip("'-.,")))


def read(pictures: str | Path, captions: str | Path, size: int, told: Callable[[int], Any] | None = None) -> Captioned:
    """The pictures that have a caption, in the order in which they are named first."""
    rows, fingerprint = table(captions)
    source, notes = image_source.files(pictures), Notes()
    grouped: dict[str, list[str]] = {}
    for name, caption in rows:
        words = clean(caption)
        found = source.find(name)
        if not words:
            notes.add("captions are empty and left out", name)
        elif found is None:
            notes.add("captions have no picture and are left out", name)
        else:
            grouped.setdefault(found, []).append(words)
    if not grouped:
        raise UserError(
            f"no caption of {captions} names a picture of {pictures}: it names {image_files.named([n for n, _ in rows])}, "
            f"and there are {image_files.named(source.names)}"
        )
    for name in source.names:
        if name not in grouped:
            notes.add("pictures have no caption and are left out", name)
    found = image_source.read(source, grouped, size, told)
    return Captioned(
        found.array,
        found.names,
        [grouped[name] for name in found.names],
        [*found.notes, *notes.lines()],
        f"{found.fingerprint}{fingerprint}",
    )


def table(path: str | Path) -> tuple[list[tuple[str, str]], str]:
    """Pairs of file name and caption, and a fingerprint of the file."""
    path = Path(path)
    try:
        raw = path.read_bytes()
        raw = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    except FileNotFoundError:
        raise UserError(f"no file of captions {str(path)!r}") from None
    except (OSError, EOFError, zlib.error) as problem:
        raise UserError(f"cannot read the captions {path}: {problem}") from None
    text = decode(raw, str(path))
    fingerprint = hashlib.blake2b(raw, digest_size=16).hexdigest()
    kind = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    rows = _coco(text, path) if kind.lower() == ".json" else _rows(text, path, kind.lower())
    if not rows:
        raise UserError(f"{path} holds no captions; a line is a file name, a tab and a caption")
    return rows, fingerprint


def _rows(text: str, path: Path, kind: str) -> list[tuple[str, str]]:
    if kind == ".csv":
        try:
            cells = list(csv.reader(io.StringIO(text)))
        except csv.Error as problem:
            raise UserError(f"{path} is no table with commas: {problem}; is a quotation mark left open?") from None
    else:
        cells = [line.rstrip("\r").split("\t") for line in text.split("\n")]
    rows = [row for row in cells if row and any(map(str.strip, row))]
    short = next((i for i, row in enumerate(rows) if len(row) < 2), None)
    if short is not None:
        raise UserError(
            f"{path}: a line is a file name, a {'comma' if kind == '.csv' else 'tab'} and a caption, and one is "
            f"{' '.join(rows[short])[:60]!r}"
        )
    column, width = None, 0
    if rows and rows[0][0].strip().lower() in ("image", "file", "image_name", "filename", "file_name"):
        heads = [cell.strip().lower() for cell in rows[0]]
        column = next((i for i, head in enumerate(heads) if head in ("caption", "captions", "text", "comment")), None)
        rows, width = rows[1:], len(heads)
    if column is None and kind == ".csv" and len({len(row) for row in rows}) == 1:
        column, width = len(rows[0]) - 1, len(rows[0])  # a number may stand between the file and its caption
    if column is None:
        column, width = 1, 2
    mark = "," if kind == ".csv" else "\t"
    # a row with more cells than there are columns holds a caption with commas and without quotes
    return [(_NUMBERED.sub("", row[0].strip()), mark.join(row[column : len(row) - width + column + 1])) for row in rows]


def _coco(text: str, path: Path) -> list[tuple[str, str]]:
    """{"images": [{"id", "file_name"}], "annotations": [{"image_id", "caption"}]} (Chen et al. 2015)."""
    try:
        tree = json.loads(text)
        names = {image["id"]: str(image["file_name"]) for image in tree["images"]}
        said = [(names.get(a["image_id"], f"picture {a['image_id']}"), a["caption"] or "") for a in tree["annotations"]]
        if odd := [text for _, text in said if not isinstance(text, str)]:
            raise TypeError(f"a caption is no text: {str(odd[0])[:60]}")
    except (ValueError, KeyError, TypeError, RecursionError) as problem:
        raise UserError(
            f"{path} is not COCO's JSON, an object with images (id, file_name) and annotations (image_id, caption): "
            f"{type(problem).__name__} {problem}"
        ) from None
    return said


Named = tuple[int, tuple[float, float, float, float]]
"""The number of a word, and the box of what it names."""
Boxes = dict[str, list[Named]]


def boxes(path: str | Path) -> Boxes:
    """Where what a word names is: lines of file, number of the word from 0, left, top, right, bottom, as shares of the
    picture's width and height."""
    found: Boxes = {}
    for number, line in enumerate(decode(_bytes(path), str(path)).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            name, word, *corners = line.rstrip("\r").split("\t")
            left, top, right, bottom = map(float, corners)
            if int(word) < 0 or not (left < right and top < bottom):
                raise ValueError
            found.setdefault(name, []).append((int(word), (left, top, right, bottom)))
        except ValueError:
            raise UserError(
                f"{path}, line {number}: a file, the number of a word and a box (left, top, right, bottom) are wanted, "
                f"with tabs between them; given {line[:60]!r}"
            ) from None
    if not found:
        raise UserError(f"{path} holds no boxes")
    return found


def named_boxes(path: str | Path, names: Sequence[str]) -> tuple[list[list[Named]], int]:
    """The boxes of each of these pictures, which may be named with their folder or without it, and how many boxes are
    of none of them."""
    whole = image_files.Files(Path(path), list(names), lambda name: None)
    found: dict[str, list[Named]] = {}
    unknown = 0
    for name, rows in boxes(path).items():
        if (picture := whole.find(name)) is None:
            unknown += len(rows)
        else:
            found.setdefault(picture, []).extend(rows)
    return [found.get(name, []) for name in names], unknown


def _bytes(path: str | Path) -> bytes:
    try:
        raw = Path(path).read_bytes()
        return gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    except FileNotFoundError:
        raise UserError(f"no file of boxes {str(path)!r}") from None
    except (OSError, EOFError, zlib.error) as problem:
        raise UserError(f"cannot read the boxes {path}: {problem}") from None
