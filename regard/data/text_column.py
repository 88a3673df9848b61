"""A column of a table as training text of a language model: `reviews.csv:review`, one text per line.

    reviews.csv:review    the column of that name; a number from 0 if the table has no header
    reviews.csv           the column that looks like text; a note says which one
    questions.txt:text    the texts of `label text` lines

Other columns, such as labels, are not read. A line end within a text becomes a space.
"""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from regard.data import read_table
from regard.errors import UserError

LABELED_LINES_SUFFIXES = (".txt", ".txt.gz")
SUFFIXES = tuple(f"{suffix}{zipped}" for suffix in (".csv", ".tsv", ".jsonl", ".ndjson") for zipped in ("", ".gz"))
SUFFIXES += (".parquet",)


@dataclass(frozen=True)
class TextColumn:
    """A column of a table. It is read when needed and then stays in memory. It has the methods of a path."""

    path: Path
    column: str | None = None

    @property
    def name(self) -> str:
        return self.path.name if self.column is None else f"{self.path.name}:{self.column}"

    @property
    def suffix(self) -> str:
        return ""

    def __str__(self) -> str:
        return str(self.path.with_name(self.name))

    def resolve(self) -> TextColumn:
        return TextColumn(self.path.resolve(), self.column)

    def stat(self) -> os.stat_result:
        return self.path.stat()

    def open(self) -> io.BytesIO:
        return io.BytesIO(self.text)

    @property
    def text(self) -> bytes:
        return self._content[0]

    @property
    def notes(self) -> list[str]:
        """Messages about guessed columns and skipped rows."""
        return self._content[1]

    @cached_property
    def _content(self) -> tuple[bytes, list[str]]:
        table = self._read_table()
        lines = (f"{line}\n" for line in map(_join_lines, table.texts))
        return "".join(lines).encode(), [f"{self.path.name}: {note}" for note in table.notes]

    def _read_table(self) -> read_table.Table:
        if self.path.name.lower().endswith(LABELED_LINES_SUFFIXES):
            if self.column != "text":
                raise UserError(f"{self.path} contains lines of a label and a text; use {self.path.name}:text")
            return read_table.read_table(self.path)
        return read_table.read_table(self.path, text=self.column, has_labels=False)


def find_text_column(path: Path) -> TextColumn | None:
    """Return the column that a path such as reviews.csv:review refers to, or None for a text file."""
    if path.exists():
        return TextColumn(path) if path.name.lower().endswith(SUFFIXES) else None
    file, colon, name = str(path).rpartition(":")
    if (
        not colon
        or not name
        or not Path(file).is_file()
        or not file.lower().endswith((*LABELED_LINES_SUFFIXES, *SUFFIXES))
    ):
        return None
    return TextColumn(Path(file), name)


def _join_lines(text: str) -> str:
    return " ".join(part.strip() for part in text.splitlines() if part.strip())
