"""Precomputed image features: a grid of vectors for each image, read instead of the image.

    features.npz, features.safetensors      one array per image; its key is the image name, with or without suffix
    features/                               one .npy file per image

An array is numeric and has the shape (rows, columns, width), (cells, width) of a square grid, or (width,). Nothing is
unpickled. Arrays of more than `MAX_NUMBERS` numbers are rejected before they are read. Arrays with infinite values, or
of another shape than the first one, are skipped and reported.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np

from regard.data.image_files import (
    BAD_ZIP_ERRORS,
    IMAGE_SUFFIXES,
    ImageArray,
    ImageSource,
    NoteCounter,
    UnreadableImage,
    store_arrays,
)
from regard.errors import UserError

FEATURE_SUFFIXES = (".npz", ".safetensors", ".npy")
MAX_NUMBERS = 16_000_000  # numbers per image
FEATURE_DTYPE = np.float16


def contains_features(path: str | Path) -> bool:
    """Return whether this is a feature file, or a folder of .npy files without images."""
    path = Path(path)
    if path.is_dir():
        suffixes = {p.suffix.lower() for p in islice(path.rglob("*"), 2000)}
        return ".npy" in suffixes and not suffixes & IMAGE_SUFFIXES
    return path.suffix.lower() in FEATURE_SUFFIXES and path.is_file()


def open_features(path: str | Path) -> ImageSource:
    """Open a feature file, or a folder of .npy files."""
    path = Path(path)
    if path.is_dir():
        names = sorted(p.relative_to(path).as_posix() for p in path.rglob("*.npy") if p.is_file())
        return ImageSource(path, names, lambda name: _read_npy(path / name), features=True)
    if path.suffix.lower() == ".npy":
        return ImageSource(path.parent, [path.name], lambda name: _read_npy(path.parent / name), features=True)
    source = _open_npz(path) if path.suffix.lower() == ".npz" else _open_safetensors(path)
    if not source.names:
        raise UserError(f"{path} contains no arrays; expected one per image, with the name of the image as key")
    return source


def _open_npz(path: Path) -> ImageSource:
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError):
        raise UserError(f"{path} is not an .npz file (a zip of arrays), or is truncated") from None
    entries = {name.removesuffix(".npy"): name for name in archive.namelist() if name.endswith(".npy")}

    def load(name: str) -> np.ndarray:
        try:
            with archive.open(entries[name]) as file:
                return _read_array(file)
        except (*BAD_ZIP_ERRORS, RuntimeError, NotImplementedError, OSError, EOFError):
            raise UnreadableImage("arrays cannot be unpacked and are skipped") from None

    return ImageSource(path, sorted(entries), load, features=True)


def _open_safetensors(path: Path) -> ImageSource:
    from safetensors import SafetensorError, safe_open

    try:
        file: Any = safe_open(path, framework="numpy")
        names = sorted(file.keys())
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path} is not a safetensors file, or is truncated: {error}") from None

    def load(name: str) -> np.ndarray:
        _check_size(file.get_slice(name).get_shape())
        try:
            return np.asarray(file.get_tensor(name))
        except (SafetensorError, TypeError, ValueError, AttributeError):
            raise UnreadableImage("arrays have a dtype that numpy does not support (bfloat16?), skipped") from None

    return ImageSource(path, names, load, features=True)


def _read_npy(path: Path) -> np.ndarray:
    try:
        with path.open("rb") as file:
            return _read_array(file)
    except OSError:
        raise UnreadableImage("arrays cannot be opened and are skipped") from None


def _read_array(file: IO[bytes]) -> np.ndarray:
    """Read one array, if its header says that it is numeric and not too large."""
    npy = np.lib.format
    try:
        version = npy.read_magic(file)
        read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, is_fortran, dtype = read_header(file)
        if dtype.hasobject or dtype.kind not in "fiu":
            raise UnreadableImage("arrays are not numeric and are skipped")
        _check_size(shape)
        size = math.prod(shape) * dtype.itemsize
        raw = file.read(size)
    except ValueError:
        raise UnreadableImage("arrays are damaged and are skipped") from None
    if len(raw) != size:
        raise UnreadableImage("arrays are truncated and are skipped")
    return np.frombuffer(raw, dtype).reshape(shape, order="F" if is_fortran else "C")


def _check_size(shape: Sequence[int]) -> None:
    if math.prod(shape) > MAX_NUMBERS:
        raise UnreadableImage(f"arrays of more than {MAX_NUMBERS:,} numbers are skipped")


def to_grid(array: np.ndarray) -> np.ndarray:
    """Reshape an array to (rows, columns, width) and convert it to float16."""
    if array.ndim == 1:
        array = array[None, None]
    elif array.ndim == 2 and (side := math.isqrt(len(array))) ** 2 == len(array):
        array = array.reshape(side, side, -1)
    if array.ndim != 3 or 0 in array.shape:
        raise UnreadableImage("arrays are neither (rows, columns, width) nor (cells, width) of a square, skipped")
    with np.errstate(over="ignore"):  # checked below
        grid = array.astype(FEATURE_DTYPE)
    if not np.isfinite(grid).all():
        raise UnreadableImage("arrays contain NaN, infinite values, or values too large for float16, skipped")
    return grid


def read_features(
    source: ImageSource, names: Iterable[str], on_progress: Callable[[int], Any] | None = None
) -> ImageArray:
    """Read the features of these images, (n, rows, columns, width), into a temporary file."""
    notes = NoteCounter()
    features = store_arrays(_read_grids(source, names, notes), notes, "features", on_progress)
    if features is None:
        raise UserError(f"no array of {source.path} can be read: {'; '.join(notes.lines())}")
    return features


def _read_grids(source: ImageSource, names: Iterable[str], notes: NoteCounter) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the readable arrays that have the shape of the first one, with their names."""
    shape = None
    for name in names:
        try:
            grid = to_grid(source.open(name))
            if shape is not None and grid.shape != shape:
                raise UnreadableImage(f"arrays do not have the shape {shape} of the first one and are skipped")
        except UnreadableImage as error:
            notes.add(str(error), name)
            continue
        shape = grid.shape
        yield name, grid
