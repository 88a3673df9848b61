"""Read images from a folder or a zip, decoded once into arrays of one size.

Grayscale, CMYK, palette and transparent images become RGB (transparency over white). Images are rotated according to
EXIF, and the first frame of an animation is used. Unreadable images, and images of more than `MAX_PIXELS` pixels, are
skipped. All of this is counted and reported.
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
"""Errors of a zip with damaged entries."""
MAX_BYTES = 256 * 2**20
"""Limit for one file: an entry of a zip can unpack to any size."""
MAX_EXAMPLES = 3  # file names in a note


class UnreadableImage(Exception):
    """Raised when an image is skipped; the message is the reason, in the plural."""


@dataclass
class NoteCounter:
    """Counts messages, and collects the file names that each of them is about."""

    names_of: dict[str, list[str]] = field(default_factory=dict)

    def add(self, message: str, name: str) -> None:
        self.names_of.setdefault(message, []).append(name)

    def lines(self) -> list[str]:
        return [f"{len(names):,} {message}: {format_names(names)}" for message, names in self.names_of.items()]


def format_names(names: Sequence[str]) -> str:
    """Return the first few names and the number of the others."""
    remaining = f" and {len(names) - MAX_EXAMPLES:,} more" if len(names) > MAX_EXAMPLES else ""
    return ", ".join(names[:MAX_EXAMPLES]) + remaining


@dataclass
class ImageSource:
    """Images, or image features, of a folder or file, by name.

    Attributes:
        path: The folder or file.
        names: Names of the images, relative to `path`.
        open: Returns the bytes of an image, or the array of its features.
        features: Whether these are features (regard.data.image_features). Their names may lack the image suffix.
    """

    path: Path
    names: list[str]
    open: Callable[[str], Any]
    features: bool = False

    def find(self, name: str) -> str | None:
        """Return the full name of an image. The folder may be omitted if only one image has this file name."""
        key = self._normalize(name)
        return self._index.get(key) or self._index.get(PurePosixPath(key).name)

    def _normalize(self, name: str) -> str:
        name = name.replace("\\", "/")
        has_suffix = PurePosixPath(name).suffix.lower() in {*IMAGE_SUFFIXES, ".npy"}
        return str(PurePosixPath(name).with_suffix("")) if self.features and has_suffix else name

    @cached_property
    def _index(self) -> dict[str, str]:
        by_path = {self._normalize(name): name for name in self.names}
        counts = Counter(PurePosixPath(path).name for path in by_path)
        by_file = {PurePosixPath(path).name: name for path, name in by_path.items()}
        return {file: name for file, name in by_file.items() if counts[file] == 1} | by_path


def open_images(path: str | Path) -> ImageSource:
    """Open the images of a folder and its subfolders, of a zip, or a single image."""
    path = Path(path)
    if path.is_dir():
        paths = {p.relative_to(path).as_posix(): p for p in path.rglob("*")}
        names = sorted(name for name, p in paths.items() if _is_image_name(name) and p.is_file())
        source = ImageSource(path, names, lambda name: _read_file(path / name))
    elif not path.exists():
        raise UserError(f"no such folder, zip or image: {str(path)!r}")
    elif zipfile.is_zipfile(path):
        archive = zipfile.ZipFile(path)
        names = sorted(filter(_is_image_name, archive.namelist()))
        source = ImageSource(path, names, lambda name: _read_zip_entry(archive, name))
    elif path.suffix.lower() == ".zip":
        raise UserError(f"{path} is not a zip file, or is truncated")
    else:
        source = ImageSource(path.parent, [path.name], lambda name: _read_file(path.parent / name))
    if not source.names:
        raise UserError(f"{path} contains no images ({', '.join(sorted(IMAGE_SUFFIXES))})")
    return source


def contains_images(path: str | Path) -> bool:
    """Return whether a folder (judged by its first files) or a zip contains images."""
    path = Path(path)
    if path.is_dir():
        return any(_is_image_name(p.name) for p in islice(path.rglob("*"), 2000))
    return path.suffix.lower() == ".zip" and zipfile.is_zipfile(path) and bool(open_images(path).names)


def _is_image_name(name: str) -> bool:
    """Return whether a name has an image suffix and is not in a hidden folder."""
    path = PurePosixPath(name)
    is_hidden = any((part.startswith(".") and part != "..") or part == "__MACOSX" for part in path.parts)
    return path.suffix.lower() in IMAGE_SUFFIXES and not is_hidden


def _read_file(path: Path) -> bytes:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UnreadableImage(f"images larger than {MAX_BYTES >> 20} MB are skipped")
        return path.read_bytes()
    except OSError:
        raise UnreadableImage("images cannot be opened and are skipped") from None


def _read_zip_entry(archive: zipfile.ZipFile, name: str) -> bytes:
    try:
        with archive.open(name) as file:
            raw = file.read(MAX_BYTES + 1)  # the size in the directory of a zip may be wrong
    except (*BAD_ZIP_ERRORS, RuntimeError, NotImplementedError, OSError, EOFError, ValueError):
        raise UnreadableImage("images cannot be unpacked and are skipped") from None
    if len(raw) > MAX_BYTES:
        raise UnreadableImage(f"images larger than {MAX_BYTES >> 20} MB are skipped")
    return raw


def decode_image(raw: bytes, size: int, add_note: Callable[[str], Any] = lambda message: None) -> np.ndarray:
    """Decode an image and resize it to a square, without keeping the aspect ratio.

    Args:
        raw: Contents of the image file.
        size: Side of the result.
        add_note: Called with a message about conversions.

    Returns:
        (size, size, 3) uint8.

    Raises:
        UnreadableImage: If the image is damaged or too large.
    """
    from PIL import Image, ImageOps

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # large images are rejected below
            image_file = Image.open(io.BytesIO(raw))
        with image_file as image:
            width, height = image.size
            if width * height > MAX_PIXELS:
                raise UnreadableImage(f"images of more than {MAX_PIXELS:,} pixels are skipped")
            if getattr(image, "n_frames", 1) > 1:
                add_note("images are animated; the first frame is used")
            if image.mode in ("CMYK", "YCCK"):
                add_note("images are CMYK and are converted to RGB")
            elif image.mode in ("1", "L", "F", "LA") or image.mode.startswith("I"):
                add_note("images are grayscale and are converted to RGB")
            image.draft("RGB", (2 * size, 2 * size))  # a JPEG can be decoded at a smaller size
            rgb = _convert_to_rgb(ImageOps.exif_transpose(image))
            if rgb.size != (size, size):
                rgb = rgb.resize((size, size), Image.Resampling.BICUBIC, reducing_gap=3.0)
            return np.asarray(rgb, np.uint8)
    except UnreadableImage:
        raise
    except Image.DecompressionBombError:
        raise UnreadableImage(f"images of more than {MAX_PIXELS:,} pixels are skipped") from None
    except Exception:  # Pillow raises many types for damaged files: OSError, SyntaxError, ValueError, struct.error
        raise UnreadableImage("images are damaged and are skipped") from None


def _convert_to_rgb(image: Any) -> Any:
    from PIL import Image

    if image.mode == "F" or image.mode.startswith("I"):  # scale the full range to 0..255
        values = np.asarray(image, np.float64)
        maximum = values.max(initial=0.0)
        is_16_bit = image.mode.startswith("I;16") or maximum > 255
        scale = 255 / (65535 if is_16_bit else 255 if maximum > 1 else 1)
        return Image.fromarray(np.clip(values * scale, 0, 255).astype(np.uint8)).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        background = Image.new("RGBA", image.size, "white")
        background.alpha_composite(image.convert("RGBA"))
        return background.convert("RGB")
    return image.convert("RGB")


@dataclass(frozen=True)
class ImageArray:
    """Images, or features, in one array on disk.

    Attributes:
        array: (n, size, size, 3) uint8, or features (n, rows, columns, width); a memory map.
        names: Name of each image.
        notes: Messages about skipped and converted images.
        fingerprint: Hash of names and contents.
    """

    array: np.ndarray
    names: list[str]
    notes: list[str]
    fingerprint: str

    def __len__(self) -> int:
        return len(self.names)


def read_images(
    source: ImageSource, names: Iterable[str], size: int, on_progress: Callable[[int], Any] | None = None
) -> ImageArray:
    """Decode these images into a temporary file that is deleted with the array."""
    notes = NoteCounter()
    images = store_arrays(decode_images(source, names, size, notes), notes, f"{size}", on_progress)
    if images is None:
        raise UserError(f"no image of {source.path} can be read: {'; '.join(notes.lines())}")
    return images


def store_arrays(
    named_arrays: Iterable[tuple[str, np.ndarray]],
    notes: NoteCounter,
    salt: str,
    on_progress: Callable[[int], Any] | None,
) -> ImageArray | None:
    """Write (name, array) pairs of one shape to a temporary file one by one. Returns None if there are none."""
    digest, names, array = hashlib.blake2b(salt.encode(), digest_size=16), list[str](), None
    with tempfile.TemporaryFile() as file:
        for name, array in named_arrays:
            raw = array.tobytes()
            file.write(raw)
            digest.update(name.encode())
            digest.update(raw)
            names.append(name)
            if on_progress is not None:
                on_progress(len(names))
        file.flush()
        if array is None:
            return None
        arrays = np.memmap(file, array.dtype, "r", shape=(len(names), *array.shape))
    return ImageArray(arrays, names, notes.lines(), digest.hexdigest())


def take_rows(array: np.ndarray, rows: Sequence[int] | np.ndarray) -> np.ndarray:
    """Copy these rows of an array to a temporary file."""
    indices = np.asarray(rows, np.int64)
    with tempfile.TemporaryFile() as file:
        for start in range(0, len(indices), 256):
            file.write(array[indices[start : start + 256]].tobytes())
        file.flush()
        return np.memmap(file, array.dtype, "r", shape=(len(indices), *array.shape[1:]))


def decode_images(
    source: ImageSource, names: Iterable[str], size: int, notes: NoteCounter
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the readable images with their names."""
    for name in names:
        try:
            yield name, decode_image(source.open(name), size, lambda message, name=name: notes.add(message, name))
        except UnreadableImage as error:
            notes.add(str(error), name)


def list_images_by_class(
    path: str | Path, source: ImageSource | None = None
) -> tuple[ImageSource, list[str], list[str], list[str]]:
    """List the images of a folder or zip with one subfolder per class.

    Returns:
        The source, the names of the images, the class of each, and notes about skipped images.
    """
    source = source or open_images(path)
    paths = [PurePosixPath(name).parts for name in source.names]
    depth = 1 if len({parts[0] for parts in paths}) == 1 and min(map(len, paths)) > 2 else 0  # a zip of one folder
    labeled = [(name, parts[depth]) for name, parts in zip(source.names, paths, strict=True) if len(parts) > depth + 1]
    names, labels = [name for name, _ in labeled], [label for _, label in labeled]
    if len(set(labels)) < 2:
        raise UserError(
            f"{path} must have a subfolder of images for each of at least two classes; it contains "
            f"{format_names(source.names)}"
        )
    notes, labeled_names = NoteCounter(), set(names)
    for name in source.names:
        if name not in labeled_names:
            notes.add("images are not in the subfolder of a class and are skipped", name)
    return source, names, labels, notes.lines()
