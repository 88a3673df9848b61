"""Pictures from a folder or a zip, decoded once into bytes of one size.

Grey, CMYK, palettes and transparency become RGB (transparency over white); pictures are turned as their camera says; of
an animation the first picture is taken. What cannot be read, and what would unpack to more than `MOST_PIXELS`, is left
out. All of that is counted and named.
"""

from __future__ import annotations

import hashlib
import io
import lzma
import tempfile
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from regard.errors import UserError

IMAGE_SUFFIXES = {".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}
MAX_PIXELS = 64_000_000
BAD_ZIP_ERRORS = (zipfile.BadZipFile, zlib.error, lzma.LZMAError)
"""What a zip raises whose parts are not what they should be."""
MAX_BYTES = 256 * 2**20
"""Of one file: a zip can hold a file that unpacks to any size."""
MAX_EXAMPLES = 3  # examples in a note


class UnreadableImage(Exception):
    """Why a picture is left out."""


@dataclass
class NoteCounter:
    """What was met on the way, by kind, with examples."""

    seen: dict[str, list[str]] = field(default_factory=dict)

    def add(self, what: str, name: str) -> None:
        self.seen.setdefault(what, []).append(name)

    def lines(self) -> list[str]:
        return [f"{len(names):,} {what}: {format_names(names)}" for what, names in self.seen.items()]


def format_names(names: Sequence[str]) -> str:
    """A few of them, and how many more."""
    more = f" and {len(names) - MAX_EXAMPLES:,} more" if len(names) > MAX_EXAMPLES else ""
    return ", ".join(names[:MAX_EXAMPLES]) + more


@dataclass
class ImageSource:
    """Pictures by their name within a folder or a zip; or their features (data/features.py), whose names may lack the
    picture's ending."""

    path: Path
    names: list[str]
    open: Callable[[str], Any]
    features: bool = False

    def find(self, name: str) -> str | None:
        """The picture of this name, or of this file name where only one has it."""
        plain = self._plain(name)
        return self._index.get(plain) or self._index.get(PurePosixPath(plain).name)

    def _plain(self, name: str) -> str:
        name = name.replace("\\", "/")
        known = PurePosixPath(name).suffix.lower() in {*IMAGE_SUFFIXES, ".npy"}
        return str(PurePosixPath(name).with_suffix("")) if self.features and known else name

    @cached_property
    def _index(self) -> dict[str, str]:
        plain = {self._plain(name): name for name in self.names}
        short = Counter(PurePosixPath(name).name for name in plain)
        return {PurePosixPath(n).name: whole for n, whole in plain.items() if short[PurePosixPath(n).name] == 1} | plain


def open_images(path: str | Path) -> ImageSource:
    """The pictures of a folder with all below it, or of a zip; a single picture is a folder of one."""
    path = Path(path)
    if path.is_dir():
        below = {p.relative_to(path).as_posix(): p for p in path.rglob("*")}
        names = sorted(name for name, p in below.items() if _wanted(name) and p.is_file())
        found = ImageSource(path, names, lambda name: _bounded(path / name))
    elif not path.exists():
        raise UserError(f"no folder, zip or picture {str(path)!r}")
    elif zipfile.is_zipfile(path):
        archive = zipfile.ZipFile(path)
        names = sorted(filter(_wanted, archive.namelist()))
        found = ImageSource(path, names, lambda name: _unpacked(archive, name))
    elif path.suffix.lower() == ".zip":
        raise UserError(f"{path} is not a zip, or is cut short")
    else:
        found = ImageSource(path.parent, [path.name], lambda name: _bounded(path.parent / name))
    if not found.names:
        raise UserError(f"{path} holds no pictures ({', '.join(sorted(IMAGE_SUFFIXES))})")
    return found


def contains_images(path: str | Path) -> bool:
    """Whether a folder or zip is one of pictures, by the first files that are met."""
    path = Path(path)
    if path.is_dir():
        return any(_wanted(p.name) for p in islice(path.rglob("*"), 2000))
    return path.suffix.lower() == ".zip" and zipfile.is_zipfile(path) and bool(open_images(path).names)


def _wanted(name: str) -> bool:
    """A picture by its ending, which no hidden file or folder holds."""
    path = PurePosixPath(name)
    hidden = any((part.startswith(".") and part != "..") or part == "__MACOSX" for part in path.parts)
    return path.suffix.lower() in IMAGE_SUFFIXES and not hidden


def _bounded(path: Path) -> bytes:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UnreadableImage("pictures of too many bytes are left out")
        return path.read_bytes()
    except OSError:
        raise UnreadableImage("pictures cannot be opened and are left out") from None


def _unpacked(archive: zipfile.ZipFile, name: str) -> bytes:
    try:
        with archive.open(name) as file:
            raw = file.read(MAX_BYTES + 1)  # what the directory of a zip says of sizes need not be true
    except (*BAD_ZIP_ERRORS, RuntimeError, NotImplementedError, OSError, EOFError, ValueError):
        raise UnreadableImage("pictures cannot be unpacked and are left out") from None
    if len(raw) > MAX_BYTES:
        raise UnreadableImage("pictures of too many bytes are left out")
    return raw


def decode_image(raw: bytes, size: int, notes: Callable[[str], Any] = lambda what: None) -> np.ndarray:
    """A picture (size, size, 3) of bytes, squeezed to a square; `notes` is told what it was. Raises `Unreadable`."""
    from PIL import Image, ImageOps

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # what is too large is refused below
            opened = Image.open(io.BytesIO(raw))
        with opened as image:
            width, height = image.size
            if width * height > MAX_PIXELS:
                raise UnreadableImage(f"pictures of more than {MAX_PIXELS:,} pixels are refused")
            if getattr(image, "n_frames", 1) > 1:
                notes("animated pictures, of which the first frame is taken")
            if image.mode in ("CMYK", "YCCK"):
                notes("CMYK pictures, read as RGB")
            elif image.mode in ("1", "L", "F", "LA") or image.mode.startswith("I"):
                notes("grey pictures, read as RGB")
            image.draft("RGB", (2 * size, 2 * size))  # a JPEG can be unpacked smaller
            turned = ImageOps.exif_transpose(image)
            flat = _rgb(turned)
            if flat.size != (size, size):
                flat = flat.resize((size, size), Image.Resampling.BICUBIC, reducing_gap=3.0)
            return np.asarray(flat, np.uint8)
    except UnreadableImage:
        raise
    except Image.DecompressionBombError:
        raise UnreadableImage(f"pictures of more than {MAX_PIXELS:,} pixels are refused") from None
    except Exception:  # Pillow raises many kinds for what is broken: OSError, SyntaxError, ValueError, struct.error
        raise UnreadableImage("pictures are broken and left out") from None


def _rgb(image: Any) -> Any:
    from PIL import Image

    if image.mode == "F" or image.mode.startswith("I"):  # the whole range becomes 0 to 255
        values = np.asarray(image, np.float64)
        top = values.max(initial=0.0)
        sixteen = image.mode.startswith("I;16") or top > 255
        scale = 255 / (65535 if sixteen else 255 if top > 1 else 1)
        return Image.fromarray(np.clip(values * scale, 0, 255).astype(np.uint8)).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        over = Image.new("RGBA", image.size, "white")
        over.alpha_composite(image.convert("RGBA"))
        return over.convert("RGB")
    return image.convert("RGB")


@dataclass(frozen=True)
class ImageArray:
    """array (n, size, size, 3) of bytes, on disk and not in memory; the name of each, and a fingerprint of all."""

    array: np.ndarray
    names: list[str]
    notes: list[str]
    fingerprint: str

    def __len__(self) -> int:
        return len(self.names)


def read_images(source: ImageSource, names: Iterable[str], size: int, told: Callable[[int], Any] | None = None) -> ImageArray:
    """Decode the named pictures, each once, into a file that goes away with the array."""
    notes = NoteCounter()
    found = store_arrays(decode_images(source, names, size, notes), notes, f"{size}", told)
    if found is None:
        raise UserError(f"no picture of {source.path} can be read: {'; '.join(notes.lines())}")
    return found


def store_arrays(
    found: Iterable[tuple[str, np.ndarray]], notes: NoteCounter, salt: str, told: Callable[[int], Any] | None
) -> ImageArray | None:
    """Named arrays of one shape as they come, each written to disk at once; None where none came."""
    digest, names, like = hashlib.blake2b(salt.encode(), digest_size=16), list[str](), None
    with tempfile.TemporaryFile() as room:
        for name, like in found:
            raw = like.tobytes()
            room.write(raw)
            digest.update(name.encode())
            digest.update(raw)
            names.append(name)
            if told is not None:
                told(len(names))
        room.flush()
        if like is None:
            return None
        whole = np.memmap(room, like.dtype, "r", shape=(len(names), *like.shape))
    return ImageArray(whole, names, notes.lines(), digest.hexdigest())


def take_rows(array: np.ndarray, rows: Sequence[int] | np.ndarray) -> np.ndarray:
    """These pictures of an array, again on disk."""
    chosen = np.asarray(rows, np.int64)
    with tempfile.TemporaryFile() as room:
        for first in range(0, len(chosen), 256):
            room.write(array[chosen[first : first + 256]].tobytes())
        room.flush()
        return np.memmap(room, array.dtype, "r", shape=(len(chosen), *array.shape[1:]))


def decode_images(source: ImageSource, names: Iterable[str], size: int, notes: NoteCounter) -> Iterator[tuple[str, np.ndarray]]:
    """Those that can be read, with their names."""
    for name in names:
        try:
            yield name, decode_image(source.open(name), size, lambda what, name=name: notes.add(what, name))
        except UnreadableImage as problem:
            notes.add(str(problem), name)


def list_images_by_class(path: str | Path, found: ImageSource | None = None) -> tuple[ImageSource, list[str], list[str], list[str]]:
    """A folder (or zip) with one subfolder a class: the pictures' names, the class of each, and what is to be said."""
    found = found or open_images(path)
    inner = [PurePosixPath(name).parts for name in found.names]
    depth = 1 if len({parts[0] for parts in inner}) == 1 and min(map(len, inner)) > 2 else 0  # a zip of one folder
    kept = [(name, parts[depth]) for name, parts in zip(found.names, inner, strict=True) if len(parts) > depth + 1]
    if len({label for _, label in kept}) < 2:
        raise UserError(
            f"{path} wants a subfolder of pictures for each of two classes or more; it holds {format_names(found.names)}"
        )
    notes, inside = NoteCounter(), {name for name, _ in kept}
    for name in found.names:
        if name not in inside:
            notes.add("pictures lie in no folder of a class and are left out", name)
    return found, [name for name, _ in kept], [label for _, label in kept], notes.lines()
