"""Features of pictures that were computed before: a grid of vectors for each picture, read instead of the picture.

    features.npz, features.safetensors      an array for each picture, by the name of the picture, its ending or not
    features/                               an .npy file for each picture

An array is (rows, columns, width), (places, width) of a square grid, or (width,), of numbers. Nothing is unpickled, and
what says that it is larger than `MOST_NUMBERS` is refused before it is read. Arrays of another shape than the first,
and such with infinite numbers, are left out, counted and named.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np

from regard.data.image_files import BAD_ZIP_ERRORS, IMAGE_SUFFIXES, ImageSource, NoteCounter, ImageArray, UnreadableImage, store_arrays
from regard.errors import UserError

FEATURE_SUFFIXES = (".npz", ".safetensors", ".npy")
MAX_NUMBERS = 16_000_000  # of one picture
KEPT = np.float16


def contains_features(path: str | Path) -> bool:
    """Whether this is a file of features, or a folder of them and not of pictures."""
    path = Path(path)
    if path.is_dir():
        endings = {p.suffix.lower() for p in islice(path.rglob("*"), 2000)}
        return ".npy" in endings and not endings & IMAGE_SUFFIXES
    return path.suffix.lower() in FEATURE_SUFFIXES and path.is_file()


def open_features(path: str | Path) -> ImageSource:
    """The names of the pictures, and what gives the array of each."""
    path = Path(path)
    if path.is_dir():
        names = sorted(p.relative_to(path).as_posix() for p in path.rglob("*.npy") if p.is_file())
        return ImageSource(path, names, lambda name: _npy(path / name), features=True)
    if path.suffix.lower() == ".npy":
        return ImageSource(path.parent, [path.name], lambda name: _npy(path.parent / name), features=True)
    found = _npz(path) if path.suffix.lower() == ".npz" else _safetensors(path)
    if not found.names:
        raise UserError(f"{path} holds no arrays; it wants one for each picture, by the picture's name")
    return found


def _npz(path: Path) -> ImageSource:
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError):
        raise UserError(f"{path} is no .npz (a zip of arrays), or is cut short") from None
    inside = {name.removesuffix(".npy"): name for name in archive.namelist() if name.endswith(".npy")}

    def load(name: str) -> np.ndarray:
        try:
            with archive.open(inside[name]) as file:
                return _array(file)
        except (*BAD_ZIP_ERRORS, RuntimeError, NotImplementedError, OSError, EOFError):
            raise UnreadableImage("arrays cannot be unpacked and are left out") from None

    return ImageSource(path, sorted(inside), load, features=True)


def _safetensors(path: Path) -> ImageSource:
    from safetensors import SafetensorError, safe_open

    try:
        file: Any = safe_open(path, framework="numpy")
        names = sorted(file.keys())
    except (SafetensorError, OSError) as problem:
        raise UserError(f"{path} is no file of safetensors, or is cut short: {problem}") from None

    def load(name: str) -> np.ndarray:
        _bounded(file.get_slice(name).get_shape())
        try:
            return np.asarray(file.get_tensor(name))
        except (SafetensorError, TypeError, ValueError, AttributeError):
            raise UnreadableImage("arrays are of a kind that numpy does not know (bfloat16?) and are left out") from None

    return ImageSource(path, names, load, features=True)


def _npy(path: Path) -> np.ndarray:
    try:
        with path.open("rb") as file:
            return _array(file)
    except OSError:
        raise UnreadableImage("arrays cannot be opened and are left out") from None


def _array(file: IO[bytes]) -> np.ndarray:
    """One array, if its head says numbers, and not too many."""
    form = np.lib.format
    try:
        version = form.read_magic(file)
        head = form.read_array_header_1_0 if version == (1, 0) else form.read_array_header_2_0
        shape, fortran, kind = head(file)
        if kind.hasobject or kind.kind not in "fiu":
            raise UnreadableImage("arrays hold something other than numbers and are left out")
        _bounded(shape)
        wanted = math.prod(shape) * kind.itemsize
        raw = file.read(wanted)
    except ValueError:
        raise UnreadableImage("arrays are broken and left out") from None
    if len(raw) != wanted:
        raise UnreadableImage("arrays are cut short and left out")
    return np.frombuffer(raw, kind).reshape(shape, order="F" if fortran else "C")


def _bounded(shape: Sequence[int]) -> None:
    if math.prod(shape) > MAX_NUMBERS:
        raise UnreadableImage(f"arrays of more than {MAX_NUMBERS:,} numbers are refused")


def to_grid(array: np.ndarray) -> np.ndarray:
    """An array as (rows, columns, width)."""
    if array.ndim == 1:
        array = array[None, None]
    elif array.ndim == 2 and (side := math.isqrt(len(array))) ** 2 == len(array):
        array = array.reshape(side, side, -1)
    if array.ndim != 3 or 0 in array.shape:
        raise UnreadableImage("arrays are neither (rows, columns, width) nor (places, width) of a square, and are left out")
    with np.errstate(over="ignore"):  # it is said below
        made = array.astype(KEPT)
    if not np.isfinite(made).all():
        raise UnreadableImage("arrays hold numbers that are infinite, or too large for 16 bits, and are left out")
    return made


def read_features(source: ImageSource, names: Iterable[str], told: Callable[[int], Any] | None = None) -> ImageArray:
    """The named arrays, each once, as Pictures of (n, rows, columns, width) on disk."""
    notes = NoteCounter()
    found = store_arrays(_grids(source, names, notes), notes, "features", told)
    if found is None:
        raise UserError(f"no array of {source.path} can be read: {'; '.join(notes.lines())}")
    return found


def _grids(source: ImageSource, names: Iterable[str], notes: NoteCounter) -> Iterator[tuple[str, np.ndarray]]:
    """Those that can be read and have the shape of the first, with their names."""
    shape = None
    for name in names:
        try:
            array = to_grid(source.open(name))
            if shape is not None and array.shape != shape:
                raise UnreadableImage(f"arrays have another shape than {shape} of the first, and are left out")
        except UnreadableImage as problem:
            notes.add(str(problem), name)
            continue
        shape = array.shape
        yield name, array
