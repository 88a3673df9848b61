"""Read text files of any size in blocks, and cut text only where a cut changes no token: before a single space.

A byte-level BPE puts the space before a word into the word, and a line end at that place is a token. So a single space
or line end starts a new token, whatever comes before it. Two things join text across a space: a zero-width joiner and
"<br />". No cut is made there. Words, space-separated words and single characters never contain a space.
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

from regard.data.text_column import TextColumn, find_text_column
from regard.errors import UserError, did_you_mean, suggest_choices

TextSource = Path | TextColumn
SUFFIXES = (".txt", ".txt.gz", ".md", ".md.gz", ".text")
DOCUMENTS = ("file", "blank", "line")
BLOCK_BYTES = 1 << 20

# A character that is not whitespace. Bytes that may start a Unicode space (U+0085, 00A0, 1680, 2000.., 205F, 3000)
# count only if the second byte makes them another character.
_NON_SPACE = rb"[!-~\xc3-\xdf\xe0\xe4-\xf4]|\xc2[^\x85\xa0]|\xe1[^\x9a]|\xe2[^\x80\x81]|\xe3[^\x80]"
SAFE_CUT = re.compile(
    rb"(?<!\s)(?<!\xe2\x80\x8d)(?:\n| (?![/>]))(?=" + _NON_SPACE + rb")|(?<=\S\r)\n(?=" + _NON_SPACE + rb")"
)
_BLANK_LINES = re.compile(rb"\r?\n(?:[ \t\r\f\v]*\n)+")
_LEADING_BLANK_LINES = re.compile(rb"(?:[ \t\r\f\v]*\n)+")
_LINE = re.compile(rb"\n")
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class TextBlock:
    """A block of consecutive bytes of a text file.

    Attributes:
        file: The file.
        offset: First byte of the block in the (unpacked) file.
        data: The bytes.
        starts: Whether a document starts at the start of the block.
        ends: Whether a document ends at the end of the block.
        read: Bytes of the file (as counted by `file_size`) read so far, for the progress bar.
    """

    file: TextSource
    offset: int
    data: bytes
    starts: bool
    ends: bool
    read: int = field(compare=False)


def find_text_files(paths: str | TextSource | Iterable[str | TextSource]) -> tuple[list[TextSource], list[str]]:
    """Resolve paths to text files and table columns; folders are searched in the order of file names.

    Returns:
        The files, each once, and notes about skipped files and guessed columns.
    """
    paths = [paths] if isinstance(paths, str | Path | TextColumn) else list(paths)
    files: dict[TextSource, TextSource] = {}
    notes: list[str] = []
    for path in paths:
        try:
            candidates = _resolve_path(path, notes)
        except OSError as error:
            raise UserError(f"cannot read {path}: {error.strerror or error}") from None
        for file in candidates:
            if file.resolve() in files:
                notes.append(f"{file} is given twice and read once")
            files.setdefault(file.resolve(), file)
    if not files:
        raise UserError("no text files; pass files or folders of " + ", ".join(SUFFIXES))
    return list(files.values()), notes


def file_size(file: TextSource) -> int:
    """Return the number of bytes to read: the size on disk, or the size of the text of a column."""
    return len(file.text) if isinstance(file, TextColumn) else file.stat().st_size


def open_source(file: TextSource) -> io.BytesIO | io.BufferedReader:
    """Open a file, or the text of a column, for reading bytes."""
    return file.open() if isinstance(file, TextColumn) else open(file, "rb")


def read_blocks(
    file: TextSource, documents: str = "file", size: int = BLOCK_BYTES, offset: int = 0, starts: bool = True
) -> Iterator[TextBlock]:
    """Read a file in blocks of about `size` bytes, starting at `offset` of the unpacked text."""
    separator = {"file": None, "blank": _BLANK_LINES, "line": _LINE}[_document_mode(file, check_documents(documents))]
    data, search_from = bytearray(), size
    try:
        with open_source(file) as packed, _unzip(packed, file) as stream:
            stream.seek(offset)
            while new_bytes := stream.read(size):
                data += new_bytes
                if offset == 0 and data.startswith(_BOM):
                    offset = len(_BOM)
                    del data[:offset]
                # The search window is counted from the start of the block, so that it is the same after a resume.
                while len(data) >= search_from + size:
                    cut, at_end = _find_cut(data, search_from, search_from + size, separator)
                    if not cut:
                        search_from += size
                        continue
                    yield TextBlock(file, offset, bytes(data[:cut]), starts, at_end, packed.tell())
                    del data[:cut]
                    offset, starts, search_from = offset + cut, at_end, size
            if data:
                yield TextBlock(file, offset, bytes(data), starts, True, packed.tell())
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"cannot read {file}: {error}; the file may be damaged, download it again") from None


def check_documents(documents: str) -> str:
    """Return the `documents` option, or raise a UserError if it is unknown."""
    if documents not in DOCUMENTS:
        raise UserError(f"unknown documents={documents!r}; {suggest_choices(documents, DOCUMENTS)}")
    return documents


def split_documents(block: TextBlock, documents: str) -> list[tuple[bytes, bool]]:
    """Split a block into documents. Returns each one with whether it is complete; only the last can be incomplete."""
    documents = _document_mode(block.file, documents)
    if documents == "file":
        return [(block.data, block.ends)]
    if documents == "line":
        *complete, last = block.data.split(b"\n")
        texts = [line.removesuffix(b"\r") for line in complete]
    else:
        data = block.data
        if block.starts and (blank := _LEADING_BLANK_LINES.match(data)):
            data = data[blank.end() :]
        *complete, last = _BLANK_LINES.split(data)
        texts = [text.rstrip() for text in complete]
    if block.ends:
        last = last.rstrip() if documents == "blank" else last.removesuffix(b"\r")
    return [(text, ends) for text, ends in [*((text, True) for text in texts), (last, block.ends)] if text.strip()]


def _document_mode(file: TextSource, documents: str) -> str:
    """A row of a table is always one document."""
    return "line" if isinstance(file, TextColumn) else documents


def split_text(data: bytes, size: int) -> Iterator[bytes]:
    """Split a text into pieces of `size` bytes or slightly more. Their tokens are those of the whole text."""
    start = 0
    while match := SAFE_CUT.search(data, start + size):
        yield data[start : match.start()]
        start = match.start()
    yield data[start:]


def _find_cut(data: bytearray, start: int, stop: int, separator: re.Pattern[bytes] | None) -> tuple[int, bool]:
    """Return where to cut, 0 if nowhere, and whether a document ends there."""
    if separator and (match := separator.search(data, start, stop)):
        return match.end(), True
    match = SAFE_CUT.search(data, start, stop)
    return (match.start(), False) if match else (0, False)


def _unzip(packed: IO[bytes], file: TextSource) -> IO[bytes]:
    return gzip.GzipFile(fileobj=packed) if file.suffix.lower() == ".gz" else packed  # type: ignore[return-value]


def _resolve_path(path: str | TextSource, notes: list[str]) -> list[TextSource]:
    if isinstance(path, TextColumn):
        return [path]
    path = Path(path)
    if path.is_dir():
        return list(_list_folder(path, notes))
    if (column := find_text_column(path)) is None:
        return [_check_text_file(path)]
    notes.extend(column.notes)
    return [column]


def _list_folder(folder: Path, notes: list[str]) -> list[Path]:
    def is_hidden(file: Path) -> bool:
        return any(part.startswith(".") for part in file.relative_to(folder).parts)

    files = sorted(p for p in folder.rglob("*") if p.is_file() and not is_hidden(p))
    text_files = [file for file in files if file.name.lower().endswith(SUFFIXES)]
    if not text_files:
        raise UserError(f"the folder {folder} contains no text files; supported suffixes are {', '.join(SUFFIXES)}")
    if len(text_files) < len(files):
        notes.append(f"{folder}: skipped {len(files) - len(text_files)} files that are not {', '.join(SUFFIXES)}")
    return text_files


def _check_text_file(path: Path) -> Path:
    if not path.exists():
        names = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
        raise UserError(f"no such file: {str(path)!r}" + (f"; {did_you_mean(path.name, names)}" if names else ""))
    if not path.name.lower().endswith(SUFFIXES):
        raise UserError(
            f"{path.name!r} does not have the suffix of a text file; expected {', '.join(SUFFIXES)}, a folder of "
            "these, or the column of a table, such as reviews.csv:review"
        )
    return path
