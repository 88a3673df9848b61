"""Text of any size, read in blocks and cut where a cut changes no token: before a single blank.

A byte-level BPE takes the space before a word into the word, and a line end there is a token: so a blank begins a new
token, whatever stands before it. Two things hold text together across a blank, a zero width joiner and "<br />"; there
no cut is made. Whole words, words between blanks and single characters never reach over one.
"""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from regard.data.text_column import Column, column
from regard.errors import UserError, choices, nearest

File = Path | Column
SUFFIXES = (".txt", ".txt.gz", ".md", ".md.gz", ".text")
DOCUMENTS = ("file", "blank", "line")
BLOCK = 1 << 20  # bytes that are tokenised at once

# A character that is no blank. Bytes that may begin a Unicode blank (U+0085, 00A0, 1680, 2000.., 205F, 3000) count only
# with a second one that makes them something else.
_SEEN = rb"[!-~\xc3-\xdf\xe0\xe4-\xf4]|\xc2[^\x85\xa0]|\xe1[^\x9a]|\xe2[^\x80\x81]|\xe3[^\x80]"
CUT = re.compile(rb"(?<!\s)(?<!\xe2\x80\x8d)(?:\n| (?![/>]))(?=" + _SEEN + rb")|(?<=\S\r)\n(?=" + _SEEN + rb")")
_BLANK_LINES = re.compile(rb"\r?\n(?:[ \t\r\f\v]*\n)+")
_FIRST_BLANK_LINES = re.compile(rb"(?:[ \t\r\f\v]*\n)+")
_LINE = re.compile(rb"\n")
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Block:
    """Some text of a file: where it stands, and whether a document begins and ends with it."""

    file: File
    offset: int
    data: bytes
    starts: bool
    ends: bool
    read: int = field(compare=False)
    """Bytes read so far of all that `size` counts, for the progress bar."""


def find(paths: str | File | Iterable[str | File]) -> tuple[list[File], list[str]]:
    """The text files and columns of tables that are meant, folders by name, each once; and notes on what was left out
    or guessed."""
    paths = [paths] if isinstance(paths, str | Path | Column) else list(paths)
    found: dict[File, File] = {}
    notes: list[str] = []
    for path in paths:
        try:
            files = _meant(path, notes)
        except OSError as problem:
            raise UserError(f"cannot read {path}: {problem.strerror or problem}") from None
        for file in files:
            if file.resolve() in found:
                notes.append(f"{file} is named twice, and read once")
            found.setdefault(file.resolve(), file)
    if not found:
        raise UserError("no text files were given; name files or folders of " + ", ".join(SUFFIXES))
    return list(found.values()), notes


def size(file: File) -> int:
    """Bytes that there are to read: of a file on disk, of a column as text."""
    return len(file.text) if isinstance(file, Column) else file.stat().st_size


def opened(file: File) -> io.BytesIO | io.BufferedReader:
    """The bytes of a file as they are, and of a column its text."""
    return file.open() if isinstance(file, Column) else open(file, "rb")


def blocks(
    file: File, documents: str = "file", size: int = BLOCK, offset: int = 0, starts: bool = True
) -> Iterator[Block]:
    """The text of a file in blocks of about `size` bytes, from `offset` on (of the unpacked text)."""
    end = {"file": None, "blank": _BLANK_LINES, "line": _LINE}[_each(file, known(documents))]
    data, look = bytearray(), size
    try:
        with opened(file) as packed, _unpacked(packed, file) as stream:
            stream.seek(offset)
            while more := stream.read(size):
                data += more
                if offset == 0 and data.startswith(_BOM):
                    offset = len(_BOM)
                    del data[:offset]
                while len(data) >= look + size:  # a window counted from the block's start: the same after a resume
                    place, ended = _place(data, look, look + size, end)
                    if not place:
                        look += size
                        continue
                    yield Block(file, offset, bytes(data[:place]), starts, ended, packed.tell())
                    del data[:place]
                    offset, starts, look = offset + place, ended, size
            if data:
                yield Block(file, offset, bytes(data), starts, True, packed.tell())
    except (OSError, EOFError, zlib.error) as problem:
        raise UserError(f"cannot read {file}: {problem}; check it, or fetch it again") from None


def known(documents: str) -> str:
    """How documents are cut, if that is known."""
    if documents not in DOCUMENTS:
        raise UserError(f"documents={documents!r} is not known; {choices(documents, DOCUMENTS)}")
    return documents


def texts(block: Block, documents: str) -> list[tuple[bytes, bool]]:
    """The documents of a block, and whether each is at its end. Only the last can be cut short."""
    documents = _each(block.file, documents)
    if documents == "file":
        return [(block.data, block.ends)]
    if documents == "line":
        *whole, last = block.data.split(b"\n")
        parts = [line.removesuffix(b"\r") for line in whole]
    else:
        data = block.data
        if block.starts and (first := _FIRST_BLANK_LINES.match(data)):
            data = data[first.end() :]
        *whole, last = _BLANK_LINES.split(data)
        parts = [part.rstrip() for part in whole]
    if block.ends:
        last = last.rstrip() if documents == "blank" else last.removesuffix(b"\r")
    return [(part, ended) for part, ended in [*((part, True) for part in parts), (last, block.ends)] if part.strip()]


def _each(file: File, documents: str) -> str:
    """How documents of a file are cut: a row of a table is one, whatever files are."""
    return "line" if isinstance(file, Column) else documents


def cut(data: bytes, size: int) -> Iterator[bytes]:
    """A text in pieces of `size` bytes or somewhat more, whose tokens are those of the whole."""
    start = 0
    while found := CUT.search(data, start + size):
        yield data[start : found.start()]
        start = found.start()
    yield data[start:]


def _place(data: bytearray, start: int, stop: int, end: re.Pattern[bytes] | None) -> tuple[int, bool]:
    """Where to cut and whether a document ends there; 0 if nowhere."""
    if end and (found := end.search(data, start, stop)):
        return found.end(), True
    found = CUT.search(data, start, stop)
    return (found.start(), False) if found else (0, False)


def _unpacked(packed: IO[bytes], file: File) -> IO[bytes]:
    return gzip.GzipFile(fileobj=packed) if file.suffix.lower() == ".gz" else packed  # type: ignore[return-value]


def _meant(path: str | File, notes: list[str]) -> list[File]:
    if isinstance(path, Column):
        return [path]
    path = Path(path)
    if path.is_dir():
        return list(_inside(path, notes))
    if (texts := column(path)) is None:
        return [_text(path)]
    notes.extend(texts.notes)
    return [texts]


def _inside(folder: Path, notes: list[str]) -> list[Path]:
    def hidden(file: Path) -> bool:
        return any(part.startswith(".") for part in file.relative_to(folder).parts)

    files = sorted(p for p in folder.rglob("*") if p.is_file() and not hidden(p))
    known = [file for file in files if file.name.lower().endswith(SUFFIXES)]
    if not known:
        raise UserError(f"the folder {folder} holds no text files; known are {', '.join(SUFFIXES)}")
    if len(known) < len(files):
        notes.append(f"{folder}: {len(files) - len(known)} files that are not {', '.join(SUFFIXES)} were left out")
    return known


def _text(path: Path) -> Path:
    if not path.exists():
        names = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
        raise UserError(f"no such file: {str(path)!r}" + (f"; {nearest(path.name, names)}" if names else ""))
    if not path.name.lower().endswith(SUFFIXES):
        raise UserError(
            f"{path.name!r} has an ending that is not known as text; known: {', '.join(SUFFIXES)}, folders of these, "
            "or the column of a table, such as reviews.csv:review"
        )
    return path
